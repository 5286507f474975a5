"""The smallest of the inputs for which PyTorch and ONNX Runtime disagree, and the clearest element of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onnxlab.facts.distance import Array, difference
from onnxlab.facts.loading import ModelLike
from onnxlab.facts.paired_run import PairedRun, paired_runs

__all__ = ["Counterexample", "smallest_counterexample"]

_CORNER = 3  # elements shown of an axis, where an output element has no single input element


@dataclass(frozen=True)
class Counterexample:
    """One input for which the two sides disagree.

    Attributes:
        inputs: The arrays that went in.
        output: The number of the output that differs.
        index: The element of that output; empty where `reason` says that the outputs cannot be compared.
        torch: The module's value there; None without an element.
        runtime: ONNX Runtime's value there; None without an element.
        input_slice: From each input, the element that belongs to the output element where shapes agree, and
            otherwise a corner of the array.
        reason: What is wrong, in a sentence.
    """

    inputs: tuple[Array, ...] = field(repr=False, compare=False)
    output: int
    index: tuple[int, ...]
    torch: float | int | bool | None
    runtime: float | int | bool | None
    input_slice: tuple[Array, ...] = field(compare=False)
    reason: str

    def __str__(self) -> str:
        shapes = ", ".join(f"{array.dtype}{list(array.shape)}" for array in self.inputs)
        values = ", ".join(str(part.tolist()) for part in self.input_slice)
        return f"{self.reason}\ninputs: {shapes}; there: {values}"


def smallest_counterexample(
    module: Callable[..., Any], model: ModelLike, inputs: object, atol: float = 1e-5, rtol: float = 0.0
) -> Counterexample | None:
    """Find, among sets of inputs, the simplest for which a module and its exported model disagree.

    The simplest set has the fewest elements and, among equals, the smallest values. Of its wrong elements the
    one with the smallest input is reported where inputs and outputs correspond, otherwise the worst one.

    Args:
        module: The module.
        model: The exported model.
        inputs: Sets of inputs, as for `compare`.
        atol: How far apart equal values may be.
        rtol: How much further, for each unit of PyTorch's magnitude. For floating-point values only: whole
            numbers have no rounding.

    Returns:
        The counterexample, or None if every set agrees.

    Example:
        >>> import torch
        >>> from onnxlab.facts.history import recorded_graph
        >>> shift = recorded_graph("1.8.1", "rshift_int32_o11")
        >>> x, n = torch.tensor([8, 4, -5, -1, -9, 2], dtype=torch.int32), torch.ones(6, dtype=torch.int32)
        >>> found = smallest_counterexample(torch.bitwise_right_shift, shift, [(x, n)])
        >>> print(found)
        output 0 at [3]: torch -1, runtime 0
        inputs: int32[6], int32[6]; there: -1, 1
    """
    failing = [pair for pair in paired_runs(module, model, inputs) if _fails(pair, atol, rtol)]
    return _describe(min(failing, key=_size), atol, rtol) if failing else None


def _fails(pair: PairedRun, atol: float, rtol: float) -> bool:
    return bool(pair.problems()) or any(
        _apart(ours, theirs, atol, rtol).any() for _, ours, theirs in pair.comparable()
    )


def _apart(ours: Array, theirs: Array, atol: float, rtol: float) -> Array:
    """Which elements are further apart than they may be."""
    allowed: Array = np.full(ours.shape, atol)
    if rtol and ours.dtype.kind == "f":
        magnitude = np.abs(ours.astype(np.float64))
        allowed += rtol * np.where(np.isfinite(magnitude), magnitude, 0.0)
    wrong: Array = difference(ours, theirs) > allowed
    return wrong


def _size(pair: PairedRun) -> tuple[int, float]:
    magnitudes = [float(np.abs(array.astype(np.float64)).max(initial=0.0)) for array in pair.inputs]
    return sum(array.size for array in pair.inputs), np.nan_to_num(max(magnitudes, default=0.0), nan=np.inf)


def _describe(pair: PairedRun, atol: float, rtol: float) -> Counterexample:
    if problems := pair.problems():
        return Counterexample(pair.inputs, 0, (), None, None, _at(pair.inputs, None, ()), "; ".join(problems))
    for number, ours, theirs in pair.comparable():
        wrong = _apart(ours, theirs, atol, rtol)
        if wrong.any():
            index = _clearest(pair.inputs, wrong, difference(ours, theirs))
            mine, other = ours[index].item(), theirs[index].item()
            reason = f"output {number} at {list(index)}: torch {_plain(mine)}, runtime {_plain(other)}"
            there = _at(pair.inputs, ours.shape, index)
            return Counterexample(pair.inputs, number, index, mine, other, there, reason)
    raise AssertionError(pair)  # only failing pairs come here


def _clearest(inputs: tuple[Array, ...], wrong: Array, apart: Array) -> tuple[int, ...]:
    elementwise = [array for array in inputs if array.shape == wrong.shape]
    rank = np.abs(elementwise[0][wrong].astype(np.float64)) if elementwise else -apart[wrong]
    simplest = np.nan_to_num(rank, nan=np.inf).argmin()
    return tuple(int(i) for i in np.argwhere(wrong)[simplest])


def _at(
    inputs: tuple[Array, ...], shape: tuple[int, ...] | None, index: tuple[int, ...]
) -> tuple[Array, ...]:
    return tuple(
        array[index] if array.shape == shape else array[(slice(_CORNER),) * array.ndim] for array in inputs
    )


def _plain(value: float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
