"""Exercise: the left shift of the torch.export exporter, with uint8 staying uint8."""

from typing import Any, TypeAlias

import numpy as np
import onnx
import torch

from onnxlab.labs.kit.exercise import Answers, Exercise, Part
from onnxlab.labs.kit.exporting import exported_with_translation
from onnxlab.labs.kit.judging import evidence, expected_model, require_dynamic, require_valid
from onnxlab.labs.kit.outcome import Difference, Wrong
from onnxlab.labs.kit.samples import integers
from onnxlab.labs.kit.work import Work
from onnxlab.labs.lab05_bitshift.shifts import (
    INTEGERS,
    Shapes,
    broadcasting,
    drawn_shifts,
    every_shift,
    require_output_types,
    type_name,
    unlike_shapes,
)
from onnxlab.runtime.parity import run
from onnxlab.runtime.refusals import short_reason

__all__ = ["EXERCISE"]

Pairs: TypeAlias = dict[torch.dtype, tuple[torch.Tensor, torch.Tensor]]

_NAMES = [f"{type_name(dtype)}_{part}" for dtype in INTEGERS for part in "xk"]
_LOOK = "What happens to the bits that leave the type at its upper end? Shift the numbers shown by hand."


class _LeftShifts(torch.nn.Module):
    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        pairs = zip(inputs[::2], inputs[1::2], strict=True)
        return tuple(torch.bitwise_left_shift(x, k) for x, k in pairs)


def _unlike(random: np.random.Generator) -> dict[torch.dtype, Shapes]:
    """Two of the signed types, and shapes of x and k that are not the same."""
    dtypes = [INTEGERS[int(number)] for number in 1 + random.permutation(len(INTEGERS) - 1)[:2]]
    return dict(zip(dtypes, unlike_shapes(random), strict=True))


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export a module that shifts each type, with the learner's translation."""
    unlike = _unlike(random)
    inputs: list[torch.Tensor] = []
    axes: list[dict[int, str] | None] = []
    for dtype in INTEGERS:
        inputs += drawn_shifts(random, dtype, unlike.get(dtype, ((12,), (12,))))
        axes += [None if dtype in unlike else {0: f"n_{type_name(dtype)}"}] * 2
    overload, translation = torch.ops.aten.bitwise_left_shift.Tensor, answers["uint8_shift_translation"]
    options: dict[str, Any] = {"input_names": list(_NAMES), "dynamic_shapes": (tuple(axes),)}
    exported_with_translation(work, "shift", overload, translation, _LeftShifts(), tuple(inputs), **options)


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Valid, and still dynamic."""
    model, fixed = work.model("shift"), _unlike(work.questions())
    require_valid(model)
    open_names = [f"{type_name(dtype)}_{part}" for dtype in INTEGERS if dtype not in fixed for part in "xk"]
    require_dynamic(model, {name: [0] for name in open_names})


def judge_types(work: Work, random: np.random.Generator) -> None:
    """Each output has the type of its input."""
    require_output_types(work.model("shift"), *INTEGERS)


def judge_bytes(work: Work, random: np.random.Generator) -> None:
    """All values of uint8 by all numbers of bits."""
    _require(work, random, {torch.uint8: every_shift(torch.arange(256, dtype=torch.uint8))}, _LOOK)


def judge_signed(work: Work, random: np.random.Generator) -> None:
    """The types beside it: small numbers of both signs, and the edges, by every number of bits."""
    unlike = _unlike(work.questions())
    pairs = {
        dtype: every_shift(torch.cat([torch.arange(-9, 9, dtype=dtype), integers(random, dtype, 40)]))
        for dtype in INTEGERS[1:]
        if dtype not in unlike
    }
    _require(work, random, pairs, _LOOK)


def judge_shapes(work: Work, random: np.random.Generator) -> None:
    """Several axes; a k that is broadcast to x, and an x that is broadcast to k."""
    for _ in range(3):
        for dtype, shapes in _unlike(work.questions()).items():
            pairs = {dtype: drawn_shifts(random, dtype, shapes)}
            _require(work, random, pairs, broadcasting(shapes))


def _require(work: Work, random: np.random.Generator, pairs: Pairs, look_at: str) -> None:
    """Require what torch gives for some of the types; the others get a few numbers."""
    model, unlike = work.model("shift"), _unlike(work.questions())
    inputs: list[torch.Tensor] = []
    for dtype in INTEGERS:
        inputs += pairs.get(dtype) or drawn_shifts(random, dtype, unlike.get(dtype, ((2,), (2,))))
    require_output_types(model, *INTEGERS)
    shown = evidence(model)
    names = " and ".join(type_name(dtype) for dtype in pairs)
    try:
        results = run(model, *inputs)
    except Exception as error:  # the runtime raises many kinds
        msg = f"{names}: the model cannot be run with these inputs: {short_reason(error)}"
        raise Wrong(msg, look_at, evidence=shown) from None
    for dtype, got in zip(INTEGERS, results, strict=True):
        if dtype not in pairs:
            continue
        x, k = np.broadcast_arrays(*(part.numpy() for part in pairs[dtype]))
        right = torch.bitwise_left_shift(*pairs[dtype]).numpy()
        if got.shape != right.shape:
            difference = Difference(names, f"shape {list(right.shape)}", f"shape {list(got.shape)}")
            msg = f"{type_name(dtype)}: the result has another shape."
            raise Wrong(msg, look_at, difference=difference, evidence=shown)
        wrong = np.argwhere(got != right)
        if len(wrong):
            place = min(map(tuple, wrong), key=lambda place: (k[place], abs(int(x[place]))))
            given = f"{x[place]} << {k[place]}, in {type_name(dtype)}"
            difference = Difference(given, str(right[place]), str(got[place]))
            msg = f"{type_name(dtype)}: the numbers are not PyTorch's."
            raise Wrong(msg, look_at, difference=difference, evidence=shown)


def _expected(unlike: dict[torch.dtype, Shapes]) -> bytes:
    """A right model: every type goes through uint64."""
    inputs, outputs, nodes = [], [], []
    for dtype in INTEGERS:
        name = type_name(dtype)
        number = onnx.TensorProto.DataType.Value(name.upper())
        shapes: list[tuple[object, ...]] = [(f"n_{name}",)] * 3
        if dtype in unlike:
            shapes = [*unlike[dtype], np.broadcast_shapes(*unlike[dtype])]
        of_x, of_k, of_y = (", ".join(map(str, shape)) for shape in shapes)
        inputs += [f"{name}[{of_x}] {name}_x", f"{name}[{of_k}] {name}_k"]
        outputs.append(f"{name}[{of_y}] {name}_left")
        nodes += [f"{name}_{part}_64 = Cast <to = 13> ({name}_{part})" for part in "xk"]
        nodes.append(f'{name}_64 = BitShift <direction = "LEFT"> ({name}_x_64, {name}_k_64)')
        nodes.append(f"{name}_left = Cast <to = {number}> ({name}_64)")
    head = f"shifts ({', '.join(inputs)}) => ({', '.join(outputs)})"
    lines = "\n".join(nodes)
    return expected_model(f'<ir_version: 8, opset_import: ["" : 20]>\n{head} {{\n{lines}\n}}')


EXERCISE = Exercise(
    order=4,
    id="uint8-shift-translation",
    title="Repair the left shift of uint8 in the torch.export exporter",
    points=4,
    answers=("uint8_shift_translation",),
    produce=produce,
    torch_export=True,
    parts=(
        Part("a valid model that ONNX Runtime loads", judge_model),
        Part("each result has the type of its input", judge_types),
        Part("every uint8 shifted by 0 to 7 bits", judge_bytes),
        Part("the signed types shifted by every number of bits", judge_signed),
        Part("right for several axes, and where k and x have other shapes", judge_shapes),
    ),
    hints=(
        "ONNX's BitShift takes unsigned numbers of 8, 16, 32 or 64 bits. A table entry replaces the rule for "
        "all types: what has to happen to a signed one before and after, and which width holds them all?",
        '`op.BitShift(x, k, direction="LEFT")`, `op.Cast(x, to=onnx.TensorProto.UINT64)`, and '
        "`op.CastLike(y, x)` to return to x's type. A cast to a narrower type keeps the lower bits.",
        'Cast x and k to UINT64, `y = op.BitShift(..., direction="LEFT")`, `return op.CastLike(y, x)`.',
    ),
    expected=lambda work: _expected(_unlike(work.questions())),
)
