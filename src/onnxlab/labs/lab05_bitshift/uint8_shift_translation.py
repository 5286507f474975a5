"""Exercise: the left shift of the torch.export exporter, with uint8 staying uint8.

What the statement asks, and where it is drawn: every uint8 by 0 to 7 bits; of the signed types the limits,
small and drawn numbers, by every number of bits; two signed types broadcast, k to x or x to k; the types of
the results.
"""

from typing import Any

import numpy as np
import torch

from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import exported_with_translation
from onnxlab.kit.work import Work
from onnxlab.labs.lab05_bitshift.shifts import INTEGERS, draw_broadcasts, draw_shifts, type_name

SIGNED = INTEGERS[1:]
_NAMES = [f"{type_name(dtype)}_{part}" for dtype in INTEGERS for part in "xk"]


class _LeftShifts(torch.nn.Module):
    """One left shift for each type, so that one export asks for all of them."""

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        pairs = zip(inputs[::2], inputs[1::2], strict=True)
        return tuple(torch.bitwise_left_shift(x, k) for x, k in pairs)


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export a module that shifts each type, with the learner's translation."""
    broadcasts = draw_broadcasts(random, SIGNED)
    inputs: list[torch.Tensor] = []
    axes: list[dict[int, str] | None] = []
    for dtype in INTEGERS:
        inputs += draw_shifts(random, dtype, broadcasts.get(dtype, ((12,), (12,))))
        axes += [None if dtype in broadcasts else {0: f"n_{type_name(dtype)}"}] * 2
    overload, translation = torch.ops.aten.bitwise_left_shift.Tensor, answers["uint8_shift_translation"]
    options: dict[str, Any] = {"input_names": list(_NAMES), "dynamic_shapes": (tuple(axes),)}
    exported_with_translation(work, "shift", overload, translation, _LeftShifts(), tuple(inputs), **options)
