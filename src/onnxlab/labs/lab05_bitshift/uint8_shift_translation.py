"""Exercise: the left shift of the torch.export exporter, with uint8 staying uint8."""

import numpy as np
import torch

from onnxlab.labs.exercise import Answers, Exercise, Part
from onnxlab.labs.exporting import exported_with_translation
from onnxlab.labs.judging import expected_model, require_numbers, require_valid
from onnxlab.labs.judging_graph import require_dynamic
from onnxlab.labs.lab05_bitshift.shifts import every_shift, require_output_types
from onnxlab.labs.samples import integers
from onnxlab.labs.work import Work

__all__ = ["EXERCISE", "LeftShifts"]

_NAMES = ("x", "k", "wide", "by")

_EXPECTED = """<ir_version: 8, opset_import: ["" : 20]>
shifts (uint8[n] x, uint8[n] k, int32[m] wide, int32[m] by) => (uint8[n] narrow_left, int32[m] wide_left)
{
    x_64 = Cast <to = 13> (x)
    k_64 = Cast <to = 13> (k)
    left = BitShift <direction = "LEFT"> (x_64, k_64)
    narrow_left = Cast <to = 2> (left)
    wide_64 = Cast <to = 13> (wide)
    by_64 = Cast <to = 13> (by)
    far_left = BitShift <direction = "LEFT"> (wide_64, by_64)
    wide_left = Cast <to = 6> (far_left)
}"""


class LeftShifts(torch.nn.Module):
    """The module that is exported: a left shift of two types."""

    def forward(
        self, x: torch.Tensor, k: torch.Tensor, wide: torch.Tensor, by: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """`x` and `k` are uint8, `wide` and `by` int32."""
        return torch.bitwise_left_shift(x, k), torch.bitwise_left_shift(wide, by)


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export the module with the learner's translation."""
    x, wide = integers(random, torch.uint8, 12), integers(random, torch.int32, 12)
    exported_with_translation(
        work,
        "shift",
        {torch.ops.aten.bitwise_left_shift.Tensor: answers["uint8_shift_translation"]},
        LeftShifts(),
        (x, x % 8, wide, (x % 32).int()),
        input_names=list(_NAMES),
        dynamic_shapes={name: {0: "n" if name in _NAMES[:2] else "m"} for name in _NAMES},
    )


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Valid, and still dynamic."""
    model = work.model("shift")
    require_valid(model)
    require_dynamic(model, {name: [0] for name in _NAMES})


def judge_types(work: Work, random: np.random.Generator) -> None:
    """Each output has the type of its input."""
    require_output_types(work.model("shift"), torch.uint8, torch.int32)


def judge_bytes(work: Work, random: np.random.Generator) -> None:
    """All values of uint8 by all numbers of bits."""
    x, k = every_shift(torch.arange(256, dtype=torch.uint8))
    nothing = torch.zeros(1, dtype=torch.int32)
    _require_shifts(work, x, k, nothing, nothing)


def judge_wide(work: Work, random: np.random.Generator) -> None:
    """The type beside it, which the exporter's own rule gets right."""
    wide, by = every_shift(torch.cat([torch.arange(-9, 9).int(), integers(random, torch.int32, 40)]))
    nothing = torch.zeros(1, dtype=torch.uint8)
    _require_shifts(work, nothing, nothing, wide, by)


def _require_shifts(work: Work, *inputs: torch.Tensor) -> None:
    look = "What happens to the bits that leave the type at its upper end? Shift the numbers shown by hand."
    require_numbers(LeftShifts(), work.model("shift"), [inputs], look_at=look)


EXERCISE = Exercise(
    id="uint8-shift-translation",
    title="Repair the left shift of uint8 in the torch.export exporter",
    points=4,
    answers=("uint8_shift_translation",),
    produce=produce,
    parts=(
        Part("a valid model that ONNX Runtime loads", judge_model),
        Part("each result has the type of its input", judge_types),
        Part("every uint8 shifted by 0 to 7 bits", judge_bytes),
        Part("int32 is still right", judge_wide),
    ),
    hints=(
        "ONNX's BitShift takes unsigned numbers of 8, 16, 32 or 64 bits. A table entry replaces the rule for "
        "all types: what has to happen to int32 before and after?",
        '`op.BitShift(x, k, direction="LEFT")`, `op.Cast(x, to=onnx.TensorProto.UINT64)`, and '
        "`op.CastLike(y, x)` to return to x's type. A cast to a narrower type keeps the lower bits.",
        'Cast x and k to UINT64, `y = op.BitShift(..., direction="LEFT")`, `return op.CastLike(y, x)`.',
    ),
    holds_for="torch 2.13, onnx 1.23, onnxruntime 1.31",
    expected=lambda work: expected_model(_EXPECTED),
)
