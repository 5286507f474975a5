"""What is right for an enlargement, and sizes and factors at which it can be told without argument."""

from collections.abc import Callable

import numpy as np
import onnx
import torch
from torch.nn.functional import interpolate

from onnxlab.labs.kit.judging import at_other_sizes, evidence, require_numbers
from onnxlab.labs.kit.outcome import Difference, Wrong
from onnxlab.labs.kit.samples import pictures
from onnxlab.model.distance import Array
from onnxlab.runtime.parity import Counterexample

__all__ = [
    "AXES",
    "EXPECTED",
    "Case",
    "both_axes_alike",
    "cubic",
    "each_axis_apart",
    "given",
    "require_enlarged",
]

Case = tuple[torch.Tensor, torch.Tensor]
"""A picture and the scales of its four axes."""

AXES: dict[str, dict[int, str]] = {"x": {0: "n", 2: "h", 3: "w"}, "scales": {}}
"""The inputs of what is exported, with their dynamic axes."""

EXPECTED = """<ir_version: 6, opset_import: ["" : 11]>
enlarged (float[n, 3, h, w] x, float[4] scales) => (float[n, 3, h2, w2] y) {
    roi = Constant <value: tensor = float[0] {}> ()
    y = Resize <mode = "cubic", cubic_coeff_a = -0.75, coordinate_transformation_mode = "half_pixel">
        (x, roi, scales)
}"""


def cubic(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Enlarge height and width by the last two scales, bicubic."""
    return interpolate(x, scale_factor=scales.tolist()[-2:], mode="bicubic")


def both_axes_alike(random: np.random.Generator) -> list[Case]:
    """Return pictures with one factor for both axes."""
    return _cases(random, lambda high, wide: (high, high))


def each_axis_apart(random: np.random.Generator) -> list[Case]:
    """Return pictures with another factor for height than for width, larger for one or the other."""
    return _cases(random, lambda high, wide: (high, wide if wide != high else wide + 1.0))


def given(x: Array | torch.Tensor, scales: Array | torch.Tensor) -> str:
    """Describe a case in one line, for a counterexample.

    Example:
        >>> given(torch.zeros(1, 3, 4, 6), torch.tensor([1.0, 1.0, 2.0, 0.5]))
        'a picture of shape [1, 3, 4, 6], scales [1, 1, 2, 0.5]'
    """
    factors = ", ".join(f"{each:g}" for each in scales.tolist())
    return f"a picture of shape {list(x.shape)}, scales [{factors}]"


def require_enlarged(
    model: onnx.ModelProto,
    cases: list[Case],
    look_at: str,
    expected: bytes | None = None,
    right: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = cubic,
) -> None:
    """Require that a model enlarges as `right` does. A counterexample is described by its scales."""
    look = at_other_sizes(look_at)
    try:
        require_numbers(right, model, cases, look_at=look, describe=_difference)
    except Wrong as wrong:
        wrong.evidence = evidence(model, expected, *(["Resize"] if wrong.difference else []))
        raise


def _difference(found: Counterexample) -> Difference:
    what = given(*found.inputs)
    if found.torch is None:
        reason = found.reason.rpartition("Status Message: ")[2]  # the runtime's own words
        return Difference(what, "what torch gives", reason[:160])
    place = f"at {list(found.index)}"
    return Difference(what, f"{found.torch:.4g} {place}", f"{found.runtime:.4g} {place}")


def _cases(random: np.random.Generator, factors: Callable[[float, float], tuple[float, float]]) -> list[Case]:
    many = int(random.integers(4, 9))
    far = float(random.integers(21, 40)) / 4  # beyond five times, and often no whole number
    fixed = [
        ((1, 3, 8, 8), factors(2.0, 3.0)),
        ((many, 3, 7, 12), factors(1.5, 0.5)),
        ((2, 3, int(random.integers(4, 9)), 40), factors(far, 0.75)),
    ]
    found = [_case(random, shape, *pair) for shape, pair in fixed]
    while len(found) < 8:
        shape = (int(random.integers(1, 4)), 3, *map(int, random.integers(4, 13, size=2)))
        # Multiples of a quarter: with others, torch and ONNX Runtime round the new size differently.
        high, wide = factors(*(float(each) / 4 for each in random.integers(2, 17, size=2)))
        if _without_argument(shape[2], high) and _without_argument(shape[3], wide):
            found.append(_case(random, shape, high, wide))
    return found


def _case(random: np.random.Generator, shape: tuple[int, ...], high: float, wide: float) -> Case:
    return pictures(random, *shape), torch.tensor([1.0, 1.0, high, wide])


def _without_argument(size: int, factor: float) -> bool:
    """Whether two pixels or more come out, and a factor other than 1 changes their number.

    Where it does not, ONNX Runtime copies the picture and torch moves it by a part of a pixel.
    """
    new = int(size * factor)
    return new >= 2 and (new != size or factor == 1)
