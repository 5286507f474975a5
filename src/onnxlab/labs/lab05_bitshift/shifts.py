"""What the exercises of lab 5 share: modules that shift, inputs for them, and a check of output types."""

from typing import TypeAlias

import numpy as np
import torch

from onnxlab.kit.samples import integers

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
"""The element types that torch can shift."""

Pair: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""`x` and `k`: numbers, and by how many bits each is shifted."""

Shapes: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""The shapes of `x` and `k`."""


class Shift(torch.nn.Module):
    """`x >> k`."""

    def forward(self, x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        """Shift `x` to the right by `k` bits; both have one type."""
        return x >> k


class ShiftBy(torch.nn.Module):
    """`x >> k` for a `k` that is a Python number."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shift `x` to the right by the number of bits."""
        return x >> self.k


def width(dtype: torch.dtype) -> int:
    """Return how many bits a type has."""
    return torch.iinfo(dtype).bits


def type_name(dtype: torch.dtype) -> str:
    """Return a type's name without torch's: "int16"."""
    return str(dtype).removeprefix("torch.")


def draw_broadcasts(
    random: np.random.Generator, dtypes: tuple[torch.dtype, ...] = INTEGERS
) -> dict[torch.dtype, Shapes]:
    """Draw two types and shapes for them: `k` is broadcast for the first type, `x` for the second.

    The result has an axis of size 1, which has to stay, and `k` has room for every number of bits.
    """
    first, second = (dtypes[int(number)] for number in random.permutation(len(dtypes))[:2])
    a, b = (int(size) for size in random.permutation([2, 3]))
    c = max(map(width, dtypes))
    full = (1, a, b, c)
    smaller_k = (full, (b, c)), (full, (a, 1, c))
    smaller_x = ((c,), full), ((b, 1), (a, 1, c))
    return {first: smaller_k[int(random.integers(2))], second: smaller_x[int(random.integers(2))]}


def draw_shifts(random: np.random.Generator, dtype: torch.dtype, shapes: Shapes) -> Pair:
    """Draw numbers `x`, limits of the type among them, and numbers of bits `k`, each where there is room."""
    size_of_x, size_of_k = (int(np.prod(shape)) for shape in shapes)
    x = integers(random, dtype, max(size_of_x, 20))[:size_of_x].reshape(shapes[0])
    k = torch.from_numpy(random.permutation(size_of_k) % width(dtype)).to(dtype).reshape(shapes[1])
    return x, k
