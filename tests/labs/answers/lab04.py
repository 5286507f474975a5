"""Right and wrong answers for lab 4."""

from functools import partial

import onnx
import torch
from onnxscript import opset20 as op

from onnxlab.kit.outcome import Status
from tests.support.labs import Contract, WrongAnswer, solution

asinh, translation = partial(solution, "asinh-symbolic"), partial(solution, "asinh-translation")
(cast_and_back,) = translation()

# --- asinh-symbolic ---


def careful_decomposition(g, x):
    """Sign(x) * log(|x| + sqrt(x^2 + 1)); log(2|x|) where the square would overflow, a series near 0."""

    def number(value):
        return g.op("Constant", value_t=torch.tensor(value))

    size = g.op("Abs", x)
    square = g.op("Mul", g.op("Min", size, number(0.2)), g.op("Min", size, number(0.2)))
    inner = g.op("Sub", number(1 / 6), g.op("Mul", square, number(3 / 40)))
    series = g.op("Mul", size, g.op("Sub", number(1.0), g.op("Mul", square, inner)))
    small = g.op("Min", size, number(1e4))
    root = g.op("Sqrt", g.op("Add", g.op("Mul", small, small), number(1.0)))
    near = g.op("Log", g.op("Add", small, root))
    far = g.op("Add", g.op("Log", size), number(0.6931471805599453))
    result = g.op("Where", g.op("Greater", size, number(1e4)), far, near)
    result = g.op("Where", g.op("Less", size, number(0.1)), series, result)
    signed = g.op("Mul", g.op("Sign", x), result)
    return g.op("Where", g.op("IsNaN", x), x, signed)


def overflowing(g, x):
    one = g.op("Constant", value_t=torch.tensor(1.0))
    return g.op("Log", g.op("Add", x, g.op("Sqrt", g.op("Add", g.op("Mul", x, x), one))))


def nothing(g, x):
    g.op("Asinh", x)


# --- asinh-translation ---


def cast_where_needed(x):
    if x.dtype.value == onnx.TensorProto.DOUBLE:
        return op.Cast(op.Asinh(op.Cast(x, to=onnx.TensorProto.FLOAT)), to=onnx.TensorProto.DOUBLE)
    return op.Asinh(x)


def careful_translation(x):
    """As the logarithm of the size, and the number itself where that is tiny."""
    wide = op.Cast(x, to=onnx.TensorProto.DOUBLE)
    size = op.Abs(wide)
    result = op.Sign(wide) * op.Log(size + op.Sqrt(size * size + op.CastLike(1.0, size)))
    keep = op.Or(op.Or(op.IsNaN(wide), op.IsInf(wide)), op.Less(size, op.CastLike(1e-5, size)))
    return op.CastLike(op.Where(keep, wide, result), x)


def only_operator(x):
    return op.Asinh(x)


def overflowing_translation(x):
    return op.Log(x + op.Sqrt(x * x + op.CastLike(1.0, x)))


# Pieces of the solutions, and what stands in their place.
_NODE, _RESULT = 'g.op("Asinh", x)', "op.CastLike(op.Asinh(single), x)"

CONTRACTS = {
    "asinh-symbolic": Contract(
        right=(asinh(), asinh({_NODE: "g.op('Identity', g.op('Asinh', g.op('Identity', x)))"}), (careful_decomposition,)),
        wrong=(
            WrongAnswer("a formula that overflows", (overflowing,), "where x is large"),
            WrongAnswer("another operator", asinh({"Asinh": "Atan"}), "by hand"),
            WrongAnswer("a misspelt operator", asinh({"Asinh": "ASinh"}), "No Op registered for ASinh"),
            WrongAnswer("nothing is returned", (nothing,), "nothing returned None; the value that it makes in the graph was expected.\nIs a `return` missing"),
            WrongAnswer("an error", asinh({"g.op(": "g.opp("}), "has no attribute 'opp'", Status.ERROR),
            WrongAnswer("a constant", asinh({_NODE: "g.op('Constant', value_t=torch.asinh(torch.ones(2, 3)))"}), "shape"),
        ),
    ),
    "asinh-translation": Contract(
        right=((cast_and_back,), (cast_where_needed,), (careful_translation,)),
        wrong=(
            WrongAnswer("no kernel for float64", (only_operator,), "does not load"),
            WrongAnswer("float32 comes out", translation({_RESULT: "op.Asinh(single)"}), "torch gives float64, the runtime float32"),
            WrongAnswer("a formula that overflows", (overflowing_translation,), "intermediate values"),
            WrongAnswer("another operator", translation({"op.Asinh": "op.Sinh"}), "on the way"),
            WrongAnswer("a function of torch", translation({_RESULT: "torch.asinh(x)"}), "return torch.asinh(x)", Status.ERROR),
        ),
    ),
}
