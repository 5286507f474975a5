"""What the exercises of lab 6 share: drawn pictures and scales, and the check that a model enlarges as torch.

Pixels are between -2 and 2, factors are quarters and others, up to 20; sides from 2 to some hundred pixels.
Only sizes and factors are drawn for which torch and ONNX Runtime agree on the size of the result.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch.nn.functional import interpolate

from onnxlab.kit.samples import pictures

Case = tuple[torch.Tensor, torch.Tensor]
"""Pictures and the scales of their four axes."""

AXES: dict[str, dict[int, str]] = {"x": {0: "n", 2: "h", 3: "w"}, "scales": {}}
"""The inputs of the exported models, with their dynamic axes."""


def cubic(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Enlarge height and width by the last two scales, bicubic."""
    return interpolate(x, scale_factor=scales.tolist()[-2:], mode="bicubic")


def each_axis_apart(random: np.random.Generator) -> list[Case]:
    """Draw pictures with another factor for the height than for the width."""
    return draw_cases(random, lambda high, wide: (high, wide if wide != high else wide + 1.0))


def draw_cases(
    random: np.random.Generator, factors: Callable[[float, float], tuple[float, float]]
) -> list[Case]:
    """Draw pictures with factors at which the size of the result is certain."""
    batch = int(random.integers(4, 9))
    large = float(random.integers(53, 80)) / 4  # above 13, and often no whole number
    shapes_and_factors = [
        ((1, 3, 8, 8), factors(2.0, 3.0)),
        ((batch, 3, 7, 40), factors(1.5, 0.5)),
        ((2, 3, int(random.integers(4, 9)), 12), factors(large, 0.75)),
    ]
    cases = [_case(random, shape, *pair) for shape, pair in shapes_and_factors]
    cases.append(_case(random, (2, 3, 5, 4), *factors(1.25, 2.5), size=10))  # pixels far beyond 1
    while len(cases) < 9:
        shape = (int(random.integers(1, 4)), 3, *map(int, random.integers(4, 13, size=2)))
        # Quarters, or factors far from a whole number of pixels: the others are rounded in different ways.
        if random.integers(2):
            high, wide = factors(*(float(quarters) / 4 for quarters in random.integers(2, 17, size=2)))
        else:
            pixels = random.integers(2, 30, size=2) + random.uniform(0.2, 0.8, size=2)
            high, wide = (float(np.float32(new / old)) for new, old in zip(pixels, shape[2:], strict=True))
            high, wide = factors(high, wide)
        if _unambiguous(shape[2], high) and _unambiguous(shape[3], wide):
            cases.append(_case(random, shape, high, wide))
    return cases


def _case(
    random: np.random.Generator, shape: tuple[int, ...], high: float, wide: float, size: float = 1
) -> Case:
    return (4 * pictures(random, *shape) - 2) * size, torch.tensor([1.0, 1.0, high, wide])


def _unambiguous(size: int, factor: float) -> bool:
    """Whether two pixels or more come out, how many is clear, and a factor other than 1 changes it.

    Where it does not change it, ONNX Runtime copies the picture and torch moves it by a part of a pixel.
    """
    exact = size * factor
    new = int(exact)
    is_clear = factor % 0.25 == 0 or 0.1 < exact % 1 < 0.9
    return new >= 2 and is_clear and (new != size or factor == 1)
