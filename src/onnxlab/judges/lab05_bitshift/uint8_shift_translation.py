"""What is right in uint8-shift-translation, part by part."""

import numpy as np
import onnx
import torch

from onnxlab.judges.lab05_bitshift.shifts import all_shifts, broadcast_advice, require_output_types
from onnxlab.kit.exercise import Judges
from onnxlab.kit.judging import evidence, expected_model, require_dynamic, require_valid
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.samples import integers
from onnxlab.kit.work import Work
from onnxlab.labs.lab05_bitshift.shifts import INTEGERS, Pair, draw_broadcasts, draw_shifts, type_name
from onnxlab.labs.lab05_bitshift.uint8_shift_translation import SIGNED
from onnxlab.message import Message
from onnxlab.runtime.parity import run
from onnxlab.runtime.refusals import short_reason

_LOOK_AT = "What happens to the bits that leave the type at its upper end? Shift the numbers shown by hand."


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Require a valid model whose axes are dynamic, except those of the types that are broadcast."""
    model, broadcasts = work.model("shift"), draw_broadcasts(work.questions(), SIGNED)
    require_valid(model)
    dynamic = [dtype for dtype in INTEGERS if dtype not in broadcasts]
    require_dynamic(model, {f"{type_name(dtype)}_{part}": [0] for dtype in dynamic for part in "xk"})


def judge_types(work: Work, random: np.random.Generator) -> None:
    """Require that each output has the type of its input."""
    require_output_types(work.model("shift"), *INTEGERS)


def judge_bytes(work: Work, random: np.random.Generator) -> None:
    """Shift all values of uint8 by all numbers of bits."""
    _require_shifts(work, random, {torch.uint8: all_shifts(torch.arange(256, dtype=torch.uint8))}, _LOOK_AT)


def judge_signed(work: Work, random: np.random.Generator) -> None:
    """Shift small numbers of both signs, and the limits of each signed type, by every number of bits."""
    broadcasts = draw_broadcasts(work.questions(), SIGNED)
    pairs = {
        dtype: all_shifts(torch.cat([torch.arange(-9, 9, dtype=dtype), integers(random, dtype, 40)]))
        for dtype in SIGNED
        if dtype not in broadcasts
    }
    _require_shifts(work, random, pairs, _LOOK_AT)


def judge_shapes(work: Work, random: np.random.Generator) -> None:
    """Shift tensors of several axes; `k` is broadcast to `x`, or `x` to `k`."""
    for _ in range(3):
        for dtype, shapes in draw_broadcasts(work.questions(), SIGNED).items():
            pairs = {dtype: draw_shifts(random, dtype, shapes)}
            _require_shifts(work, random, pairs, broadcast_advice(shapes))


def _require_shifts(
    work: Work, random: np.random.Generator, pairs: dict[torch.dtype, Pair], look_at: str
) -> None:
    """Require torch's results for the pairs. The inputs of the other types are drawn and not judged."""
    model, broadcasts = work.model("shift"), draw_broadcasts(work.questions(), SIGNED)
    inputs: list[torch.Tensor] = []
    for dtype in INTEGERS:
        inputs += pairs.get(dtype) or draw_shifts(random, dtype, broadcasts.get(dtype, ((2,), (2,))))
    require_output_types(model, *INTEGERS)
    shown = evidence(model)
    names = " and ".join(type_name(dtype) for dtype in pairs)
    try:
        outputs = run(model, *inputs)
    except Exception as error:  # the runtime raises many kinds
        msg = Message(
            "{names}: the model cannot be run with these inputs: {why}", names=names, why=short_reason(error)
        )
        raise Wrong(msg, look_at, evidence=shown) from None
    for dtype, got in zip(INTEGERS, outputs, strict=True):
        if dtype not in pairs:
            continue
        x, k = np.broadcast_arrays(*(tensor.numpy() for tensor in pairs[dtype]))
        right = torch.bitwise_left_shift(*pairs[dtype]).numpy()
        if got.shape != right.shape:
            difference = Difference(
                names,
                Message("shape {shape}", shape=list(right.shape)),
                Message("shape {shape}", shape=list(got.shape)),
            )
            msg = Message("{type_name}: the result has another shape.", type_name=type_name(dtype))
            raise Wrong(msg, look_at, difference=difference, evidence=shown)
        mismatches = np.argwhere(got != right)
        if len(mismatches):
            place = min(map(tuple, mismatches), key=lambda place: (k[place], abs(int(x[place]))))
            difference = Difference(
                Message("{x} << {k}, in {type_name}", x=x[place], k=k[place], type_name=type_name(dtype)),
                str(right[place]),
                str(got[place]),
            )
            msg = Message("{type_name}: the outputs differ from PyTorch's.", type_name=type_name(dtype))
            if int(x[place]) << int(k[place]) == int(right[place]) and look_at == _LOOK_AT:
                look_at = "No bit leaves the type here. Which way, and by which k, is each x shifted?"
            raise Wrong(msg, look_at, difference=difference, evidence=shown)


def _expected(work: Work) -> bytes:
    """Return a right model, in which every type is cast to uint64 and back."""
    broadcasts = draw_broadcasts(work.questions(), SIGNED)
    inputs, outputs, nodes = [], [], []
    for dtype in INTEGERS:
        name = type_name(dtype)
        number = onnx.TensorProto.DataType.Value(name.upper())
        shapes: list[tuple[object, ...]] = [(f"n_{name}",)] * 3
        if dtype in broadcasts:
            shapes = [*broadcasts[dtype], np.broadcast_shapes(*broadcasts[dtype])]
        x_dims, k_dims, y_dims = (", ".join(map(str, shape)) for shape in shapes)
        inputs += [f"{name}[{x_dims}] {name}_x", f"{name}[{k_dims}] {name}_k"]
        outputs.append(f"{name}[{y_dims}] {name}_left")
        nodes += [f"{name}_{part}_64 = Cast <to = 13> ({name}_{part})" for part in "xk"]
        nodes.append(f'{name}_64 = BitShift <direction = "LEFT"> ({name}_x_64, {name}_k_64)')
        nodes.append(f"{name}_left = Cast <to = {number}> ({name}_64)")
    head = f"shifts ({', '.join(inputs)}) => ({', '.join(outputs)})"
    lines = "\n".join(nodes)
    return expected_model(f'<ir_version: 8, opset_import: ["" : 20]>\n{head} {{\n{lines}\n}}')


JUDGES = Judges((judge_model, judge_types, judge_bytes, judge_signed, judge_shapes), expected=_expected)
