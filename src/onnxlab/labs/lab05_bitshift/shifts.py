"""Shifts to export, and numbers to shift."""

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import onnx
import torch

from onnxlab.labs.kit.judging import evidence
from onnxlab.labs.kit.outcome import Wrong
from onnxlab.labs.kit.samples import integers

__all__ = [
    "INTEGERS",
    "Shapes",
    "Shift",
    "ShiftBy",
    "broadcasting",
    "drawn_shifts",
    "every_shift",
    "require_output_types",
    "type_name",
    "unlike_shapes",
    "width",
]

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
"""The types that torch can shift."""

Shapes: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Of `x` and of `k`."""


_NAMES = {number: name.lower() for name, number in onnx.TensorProto.DataType.items()}


class Shift(torch.nn.Module):
    """`x >> k`."""

    def forward(self, x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        """Tensors of one type."""
        return x >> k


class ShiftBy(torch.nn.Module):
    """`x >> k` for a `k` that is a Python number."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Whole numbers of any type."""
        return x >> self.k


def width(dtype: torch.dtype) -> int:
    """Return how many bits a type has."""
    return torch.iinfo(dtype).bits


def type_name(dtype: torch.dtype) -> str:
    """Return a type's name without torch's: "int16"."""
    return str(dtype).removeprefix("torch.")


def every_shift(values: torch.Tensor, by: Iterable[int] | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Pair each value with each number of bits from 0 to the type's last, or with those given.

    Example:
        >>> x, k = every_shift(torch.tensor([-5, 7], dtype=torch.int8), (0, 7))
        >>> x.tolist(), k.tolist()
        ([-5, 7, -5, 7], [0, 0, 7, 7])
    """
    bits = range(width(values.dtype)) if by is None else by
    k = torch.tensor(list(bits), dtype=values.dtype)
    return values.repeat(len(k)), k.repeat_interleave(len(values))


def unlike_shapes(random: np.random.Generator) -> tuple[Shapes, Shapes]:
    """Draw shapes of `x` and `k` that broadcast: first a smaller `k`, then an `x` smaller than the result."""
    a, b, c = (int(size) for size in random.permutation([2, 3, 4]))
    full = (a, b, c)
    smaller_k = (full, (b, c)), (full, (a, 1, c))
    smaller_x = ((c,), full), ((b, 1), (a, 1, c))
    return smaller_k[int(random.integers(2))], smaller_x[int(random.integers(2))]


def broadcasting(shapes: Shapes) -> str:
    """Return what to look at where `unlike_shapes` give something wrong."""
    x, k = (list(shape) for shape in shapes)
    return f"Here x has the shape {x} and k {k}: axes are broadcast as in torch."


def drawn_shifts(
    random: np.random.Generator, dtype: torch.dtype, shapes: Shapes
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw numbers, edges of the type among them, and a number of bits for each."""
    x = integers(random, dtype, int(np.prod(shapes[0]))).reshape(shapes[0])
    k = torch.from_numpy(random.integers(0, width(dtype), size=shapes[1])).to(dtype)
    return x, k


def require_output_types(model: onnx.ModelProto, *wanted: torch.dtype) -> None:
    """Require that each output has the type of the number that was shifted."""
    found = [_NAMES.get(each.type.tensor_type.elem_type, "another type") for each in model.graph.output]
    names = [type_name(dtype) for dtype in wanted]
    if found != names:
        msg = f"{' and '.join(found) or 'No output'} came out where {' and '.join(names)} went in."
        look = "Which type does the last operator of your function give?"
        raise Wrong(msg, look, evidence=evidence(model))
