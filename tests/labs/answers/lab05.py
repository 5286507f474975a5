"""Right and wrong answers for lab 5."""

from functools import partial

import onnx
import torch
from onnxscript import opset20 as op
from torch.onnx._internal.torchscript_exporter._type_utils import JitScalarType

from onnxlab.kit.outcome import Status
from tests.support.answer_parts import constant
from tests.support.labs import Contract, WrongAnswer, solution

right, left = partial(solution, "rshift-symbolic"), partial(solution, "uint8-shift-translation")
rule, by_search = right()

# Since torch 2.14 the TorchScript exporter shifts signed integers rightly: there is no wrong shift to find.
SHIFTS_ARE_RIGHT = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14)
INT64, UINT64 = onnx.TensorProto.INT64, onnx.TensorProto.UINT64


# --- rshift-symbolic: the diagnosis ---


def pair(x, k):
    """Return a find_wrong_shift that answers with these numbers for each signed type, and else with None."""

    def find_wrong_shift(dtype):
        return (torch.tensor(x, dtype=dtype), torch.tensor(k, dtype=dtype)) if dtype.is_signed else None

    return find_wrong_shift


minus_one = pair([-1], [1])


def plain_numbers(dtype):
    return None if dtype == torch.uint8 else [-5, 1]


def nothing_found(dtype):
    return None


def list_of_pairs(dtype):
    return [(-1, 1), (-3, 1)]


def also_uint8(dtype):
    return torch.tensor([255 if dtype == torch.uint8 else -1], dtype=dtype), torch.tensor([1], dtype=dtype)


def too_far(dtype):
    return (-1, torch.iinfo(dtype).bits) if dtype.is_signed else None


def other_type(dtype):
    return (torch.tensor([-1]), torch.tensor([1])) if dtype.is_signed else None


# --- rshift-symbolic: the rule ---


def as_type_of(g, x, y):
    return g.op("Cast", y, to_i=JitScalarType.from_value(x).onnx_type())


def as_int64(g, *values):
    return [g.op("Cast", value, to_i=INT64) for value in values]


def power_of_two(g, k):
    return g.op("Cast", g.op("Pow", constant(g, 2.0), g.op("Cast", k, to_i=1)), to_i=INT64)


def from_a_table(g, x, k):
    """Divide by a number from a table, and subtract one where the division rounded up."""
    wide, bits = as_int64(g, x, k)
    powers = constant(g, [2**i for i in range(63)] + [2**62])
    power = g.op("Gather", powers, bits)
    divided = g.op("Div", wide, power)
    lost = g.op("Cast", g.op("Less", wide, g.op("Mul", divided, power)), to_i=INT64)
    floor = g.op("Sub", divided, lost)
    sign = g.op("Where", g.op("Less", wide, constant(g, 0)), constant(g, -1), constant(g, 0))
    last = g.op("Equal", bits, constant(g, 63))
    return as_type_of(g, x, g.op("Where", last, sign, floor))


def one_digit_after_the_other(g, x, k):
    """Shift by 1, 2, 4, ... 32 bits where that binary digit of k is set."""
    wide, bits = as_int64(g, x, k)
    for step in range(6):
        power = constant(g, 2 ** (2**step))
        divided = g.op("Div", wide, power)
        lost = g.op("Cast", g.op("Less", wide, g.op("Mul", divided, power)), to_i=INT64)
        is_set = g.op("Equal", g.op("Mod", bits, constant(g, 2)), constant(g, 1))
        wide = g.op("Where", is_set, g.op("Sub", divided, lost), wide)
        bits = g.op("Div", bits, constant(g, 2))
    return as_type_of(g, x, wide)


def through_floats(g, x, k):
    power = g.op("Pow", constant(g, 2.0, torch.float64), g.op("Cast", k, to_i=11))
    return as_type_of(g, x, g.op("Floor", g.op("Div", g.op("Cast", x, to_i=11), power)))


def to_the_left_by_product(g, x, k):
    return as_type_of(g, x, g.op("Mul", g.op("Cast", x, to_i=INT64), power_of_two(g, k)))


# --- uint8-shift-translation ---


def shifted(x, k, direction="LEFT", dtype=UINT64):
    return op.BitShift(op.Cast(x, to=dtype), op.Cast(k, to=dtype), direction=direction)


def by_product(x, k):
    power = shifted(op.Constant(value_ints=[1]), k)
    return op.CastLike(op.Mul(op.Cast(x, to=INT64), op.Cast(power, to=INT64)), x)


def like_the_library(x, k):
    # By the number of a type: the unsigned type that is shifted, and the type of the result.
    types = {2: (2, 3), 3: (2, 3), 5: (4, 5), 6: (12, 6), 7: (13, 7)}
    unsigned, signed = types[x.dtype.value]
    return op.Cast(shifted(x, k, dtype=unsigned), to=signed)


# Pieces of the solutions, and what stands in their place.
_RESULT = 'g.op("Cast", result, to_i=JitScalarType.from_value(x).onnx_type())'
_SAME_TYPE = "JitScalarType.from_value(k) == JitScalarType.from_value(x)"
_POWER = 'g.op("Cast", g.op("Pow", number(2.0), g.op("Cast", k, to_i=1)), to_i=JitScalarType.from_value(x).onnx_type())'
_SHIFT = 'op.BitShift(*unsigned, direction="LEFT")'
_WHOLE, _UINT8 = f"op.CastLike({_SHIFT}, x)", 'op.BitShift(x, k, direction="LEFT")'
_MOST = 'op.Constant(value=onnx.helper.make_tensor("most", onnx.TensorProto.INT64, (), [62]))'

CONTRACTS = {
    "rshift-symbolic": Contract(
        right=(
            right(),
            (from_a_table, nothing_found if SHIFTS_ARE_RIGHT else minus_one),
            (one_digit_after_the_other, nothing_found if SHIFTS_ARE_RIGHT else plain_numbers),
        ),
        wrong=(
            WrongAnswer("minus one", (rule, minus_one), "-1 >> 1: torch [-1], the model [-1]")
            if SHIFTS_ARE_RIGHT
            else WrongAnswer("nothing is found", (rule, nothing_found), "None says that all is right"),
            WrongAnswer("uint8 as well", (rule, also_uint8), "255 >> 1"),
            WrongAnswer("all bits and more", (rule, too_far), "k = 8; 0 to 7 count"),
            WrongAnswer("another type", (rule, other_type), "x has the type int64"),
            WrongAnswer("shapes that do not fit", (rule, pair([-1] * 3, [1] * 2)), "x has the shape [3], k [2]"),
            WrongAnswer("a list of pairs", (rule, list_of_pairs), "a list of pairs"),
            WrongAnswer("the exporter's own", right({_RESULT: f'g.op("Div", x, {_POWER})'}), "How does your rule round"),
            WrongAnswer("through float64", (through_floats, by_search), "exactly"),
            WrongAnswer("int64 comes out", right({"JitScalarType.from_value(x).onnx_type()": "onnx.TensorProto.INT64"}), "uint8: int64 came out where uint8 went in"),
            WrongAnswer("to the left", (to_the_left_by_product, by_search), "how far are the bits moved"),
            WrongAnswer("a number is not seen", right({"(x, k))": f"(x, k if {_SAME_TYPE} else number(1)))"}), "whatever x is"),
            WrongAnswer("k has the shape of x", right({"(x, k))": f'(x, g.op("Reshape", k, g.op("Shape", x)) if {_SAME_TYPE} else k))'}), "axes are broadcast as in torch"),
        ),
    ),
    "uint8-shift-translation": Contract(
        right=(left(), left({f"return {_WHOLE}": f"return {_UINT8} if x.dtype.value == onnx.TensorProto.UINT8 else {_WHOLE}"}), (by_product,)),
        wrong=(
            WrongAnswer("like the library", (like_the_library,), "int8 and int8 and int16 and int32"),
            WrongAnswer("to the right", left({'"LEFT"': '"RIGHT"'}), "Which way"),
            WrongAnswer("no cast for int32", left({_WHOLE: _UINT8}), "Type 'tensor(int8)' of input parameter"),
            WrongAnswer("int32 through uint8", left({"UINT64": "UINT8"}), "-1 << 0, in int"),
            WrongAnswer("through uint32", left({"UINT64": "UINT32"}), "int64: the outputs"),
            WrongAnswer("int32 for narrow types", left({_WHOLE: f"op.Cast({_WHOLE}, to=6) if x.dtype.value in (onnx.TensorProto.INT8, onnx.TensorProto.INT16) else {_WHOLE}"}), "uint8 and int32 and int32"),
            WrongAnswer("k has the shape of x", left({"(x, k)]": "(x, op.Reshape(k, op.Shape(x)))]"}), "axes are broadcast as in torch"),
            WrongAnswer("axes of size 1 are dropped", left({_WHOLE: f"op.Squeeze({_WHOLE})"}), "axes are broadcast as in torch"),
            WrongAnswer("by 62 bits at most", left({"(x, k)]": f"(x, op.CastLike(op.Min(op.Cast(k, to=onnx.TensorProto.INT64), {_MOST}), k))]"}), "<< 63, in int64"),
            WrongAnswer("Python's shift", left({_WHOLE: "x << k"}), "return x << k", Status.ERROR),
        ),
    ),
}
