"""What is right in heading-fault."""

import numpy as np
import torch

from onnxlab.judges.lab13_clinic.examination import Verdict
from onnxlab.kit.samples import normal
from onnxlab.labs.lab13_clinic.heading_fault import EXAMINATION

_RIGHT = """<ir_version: 8, opset_import: ["" : 18]>
heading (float[n] north, float[n] east) => (float[n] y) <float zero = {0}, float pi = {3.14159274}>
{
    ratio = Div (north, east)
    angle = Atan (ratio)
    back = Less (east, zero)
    sign = Sign (north)
    half = Mul (sign, pi)
    turn = Where (back, half, zero)
    turned = Add (angle, turn)
    on_axis = Where (back, pi, zero)
    flat = Equal (north, zero)
    y = Where (flat, on_axis, turned)
}"""


def _headings(random: np.random.Generator) -> list[tuple[torch.Tensor, ...]]:
    """Draw vectors of several lengths; then those on an axis, and none at all."""
    drawn = [(normal(random, size), normal(random, size)) for size in (1, 4, 7, 300)]
    places = torch.tensor([[0.0, -1], [0, 1], [1, 0], [-1, 0], [0, 0]])
    scaled = [places[random.permutation(5)] * float(random.uniform(0.1, 9)) for _ in range(2)]
    rows = [*scaled, *(places[i : i + 1] for i in range(len(places)))]
    return [*drawn, *((row[:, 0], row[:, 1]) for row in rows)]


JUDGES = Verdict(
    EXAMINATION,
    stage="translate",
    clue="`torch.atan2` is one operation of PyTorch. Which nodes does the file have in its place?",
    right_model=_RIGHT,
    inputs=_headings,
    look_at="Go round the circle: east, north, west, south; and the vector without a length.",
    show="Which vectors lie exactly on an axis, or have no direction?",
).judges
