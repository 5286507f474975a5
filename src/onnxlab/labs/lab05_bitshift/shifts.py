"""Shifts to export, and numbers to shift."""

from collections.abc import Iterable

import onnx
import torch

from onnxlab.labs.judging import evidence
from onnxlab.labs.outcome import Wrong

__all__ = ["INTEGERS", "Shift", "ShiftBy", "every_shift", "require_output_types", "type_name", "width"]

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
"""The types that torch can shift."""


_NAMES = {number: name.lower() for name, number in onnx.TensorProto.DataType.items()}


class Shift(torch.nn.Module):
    """`x >> k`."""

    def forward(self, x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        """Tensors of one type."""
        return x >> k


class ShiftBy(torch.nn.Module):
    """`x >> k` for a `k` that is a Python number.

    Args:
        k: How many bits.
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Whole numbers of any type."""
        return x >> self.k


def width(dtype: torch.dtype) -> int:
    """Return how many bits a type has.

    Example:
        >>> width(torch.int16)
        16
    """
    return torch.iinfo(dtype).bits


def type_name(dtype: torch.dtype) -> str:
    """Return a type's name without torch's.

    Example:
        >>> type_name(torch.uint8)
        'uint8'
    """
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


def require_output_types(model: onnx.ModelProto, *wanted: torch.dtype) -> None:
    """Require that each output has the type of the number that was shifted.

    Raises:
        Wrong: With the types that the outputs have.
    """
    found = [_NAMES.get(each.type.tensor_type.elem_type, "another type") for each in model.graph.output]
    names = [type_name(dtype) for dtype in wanted]
    if found != names:
        msg = f"{' and '.join(found) or 'No output'} came out where {' and '.join(names)} went in."
        look = "Which type does the last operator of your function give?"
        raise Wrong(msg, look, evidence=evidence(model))
