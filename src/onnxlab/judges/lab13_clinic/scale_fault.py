"""What is right in scale-fault."""

import numpy as np
import torch

from onnxlab.judges.lab13_clinic.examination import Verdict
from onnxlab.kit.samples import normal
from onnxlab.labs.lab13_clinic.scale_fault import EXAMINATION

_RIGHT = """<ir_version: 8, opset_import: ["" : 18]>
scale (float[n, m] x) => (float[n, m] y) <float threshold = {2}>
{
    soft = Softplus (x)
    above = Greater (x, threshold)
    y = Where (above, x, soft)
}"""


def _numbers(random: np.random.Generator) -> list[tuple[torch.Tensor, ...]]:
    """Draw matrices of four sizes, small and large; then the threshold itself and its neighbours."""
    sizes = ((2, 3), (1, 1), (5, 1), (7, 40))
    drawn = [(normal(random, *size) * scale,) for size in sizes for scale in (1, 3, 1000)]
    return [*drawn, (torch.tensor([[2.0, 2.0001, 1.9999, 3.0, -2.0, 0.0]]),)]


JUDGES = Verdict(
    EXAMINATION,
    stage="translate",
    clue="One call became one node, `Softplus`. Which argument of the call is no attribute of it?",
    right_model=_RIGHT,
    inputs=_numbers,
    look_at="What does `softplus` return at 2, just above it, and far below 0?",
    show="From which number on is `softplus` the number itself?",
).judges
