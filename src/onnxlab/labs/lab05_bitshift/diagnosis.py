"""The diagnosis in rshift-symbolic: numbers that the exporter's right shift gets wrong, or None.

The judge measures what is right: it exports a shift and compares its numbers with torch's. None is right for
a type without a wrong shift: for uint8, and since torch 2.14 for every type.

What the statement asks: two tensors of the type, each with up to 10,000 elements and eight axes, that
broadcast to at most a million; 0 <= k < bits; one wrong element; None where every shift is right. What is
wrong is measured for every type and every k, so nothing is drawn but the order of the types.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch

from onnxlab.kit.exporting import require_type
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.labs.lab05_bitshift.shifts import INTEGERS, type_name
from onnxlab.message import Message


def write_wrong_shifts(
    find_wrong_shift: Callable[[torch.dtype], object], work: Work, random: np.random.Generator
) -> None:
    """Ask for a wrong shift of each type."""
    for number in random.permutation(len(INTEGERS)):
        dtype = INTEGERS[number]
        with case(dtype):
            _write_answer(work, dtype, find_wrong_shift(dtype))


def case(dtype: torch.dtype) -> AbstractContextManager[None]:
    """Attach the type to whatever is raised in the block."""
    return trying(str(dtype), dtype=dtype)


def _write_answer(work: Work, dtype: torch.dtype, value: Any) -> None:  # noqa: ANN401 - any type can be returned
    call, name = f"find_wrong_shift({dtype})", type_name(dtype)
    work.write_json(name, value is not None)
    if value is None:
        return
    require_type(value, (tuple, list), call)
    if isinstance(value, list) and any(isinstance(item, tuple) for item in value):
        msg = Message("{call} returned a list of pairs; two tensors, x and k, were expected.", call=call)
        raise Wrong(msg, "Put all x into one tensor and all k into another: return x, k")
    if len(value) != 2:
        msg = Message(
            "Values that {call} returned: {count}; x and k were expected.", call=call, count=len(value)
        )
        raise Wrong(msg, "Return two tensors: return x, k")
    work.write_array(f"{name}-x", _tensor(value[0], dtype, call))
    work.write_array(f"{name}-k", _tensor(value[1], dtype, call))


def _tensor(value: object, dtype: torch.dtype, call: str) -> object:
    """Make a tensor of a number or a list of numbers; leave everything else as it is."""
    if not isinstance(value, int | list | tuple):
        return value
    try:
        return torch.tensor([value] if isinstance(value, int) else value, dtype=dtype)
    except (RuntimeError, TypeError, ValueError) as error:
        msg = Message(
            "{call}: {value} does not fit: {error}",
            call=call,
            value=str(value)[:60],
            error=str(error).partition(chr(10))[0],
        )
        raise Wrong(msg, "Return two tensors of the type that was asked for.") from None
