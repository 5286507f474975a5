"""What is right in louder-fault."""

import numpy as np
import torch

from onnxlab.judges.lab13_clinic.examination import Verdict
from onnxlab.kit.samples import integers
from onnxlab.labs.lab13_clinic.louder_fault import EXAMINATION

_RIGHT = """<ir_version: 8, opset_import: ["" : 18]>
louder (int16[n] left, int16[n] right) => (int16[n] y)
{
    wide_left = Cast <to = 6> (left)
    wide_right = Cast <to = 6> (right)
    larger = Max (wide_left, wide_right)
    y = Cast <to = 5> (larger)
}"""


def _channels(random: np.random.Generator) -> list[tuple[torch.Tensor, ...]]:
    """Draw channels of several lengths; then all pairs of the largest and smallest samples."""
    drawn = [tuple(integers(random, torch.int16, size) for _ in range(2)) for size in (1, 4, 30, 1000)]
    ends = torch.tensor([-32768, -1, 0, 32767], dtype=torch.int16)
    return [*drawn, (ends.repeat(4), ends.repeat_interleave(4))]


JUDGES = Verdict(
    EXAMINATION,
    stage="load",
    clue="The file is there, and `onnx.checker` accepts it. Which step raises the error?",
    right_model=_RIGHT,
    inputs=_channels,
    look_at="Is the output int16? Do the largest and the smallest sample survive?",
).judges
