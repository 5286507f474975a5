"""Exercise rshift-symbolic: what the TorchScript exporter's right shift gets wrong, and a rule that is right.

The diagnosis is asked in `diagnosis.py`. What the statement asks of the rule, and where it is drawn: each of
the five types; numbers above, at and below 0, the limits of the type by every k; a Python number for k, also
the largest; two types broadcast, k to x or x to k; valid models whose results have the type of x, at any
length.
"""

import numpy as np
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import axis_options, exported_with_rule
from onnxlab.kit.work import Work
from onnxlab.labs.lab05_bitshift.diagnosis import write_wrong_shifts
from onnxlab.labs.lab05_bitshift.shifts import (
    INTEGERS,
    Shift,
    ShiftBy,
    draw_broadcasts,
    draw_shifts,
    type_name,
    width,
)

_OPERATOR, _OPSET = "aten::__rshift_", 11


def draw_constants(random: np.random.Generator) -> dict[torch.dtype, int]:
    """Draw for each type a `k` that is a Python number."""
    return {dtype: int(random.integers(1, width(dtype) - 1)) for dtype in INTEGERS}


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Ask for wrong shifts; export shifts by a tensor and by a number, for each type, with the rule."""
    write_wrong_shifts(answers["find_wrong_shift"], work, random)
    rule = answers["rshift_symbolic"]

    def export(
        name: str, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], axes: dict[int, str]
    ) -> None:
        options = axis_options(Exporter.TORCHSCRIPT, dict.fromkeys(["x", "k"][: len(inputs)], axes))
        exported_with_rule(work, name, _OPERATOR, rule, module, inputs, opset=_OPSET, **options)

    for dtype, shapes in draw_broadcasts(work.questions()).items():
        export(f"{type_name(dtype)}-unlike-shapes", Shift(), draw_shifts(random, dtype, shapes), {})
    for dtype, by in draw_constants(work.questions()).items():
        x, k = torch.tensor([5, 100, 3], dtype=dtype), torch.tensor([1, 0, 2], dtype=dtype)
        export(type_name(dtype), Shift(), (x, k), {0: "n"})
        export(f"{type_name(dtype)}-by-number", ShiftBy(by), (x,), {0: "n"})
        export(f"{type_name(dtype)}-by-most", ShiftBy(width(dtype) - 1), (x,), {0: "n"})
