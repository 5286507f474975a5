"""Compare a module in PyTorch with its model in ONNX Runtime; find the simplest input where they disagree."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch

from onnxlab.message import Message
from onnxlab.model.distance import Array, magnitude
from onnxlab.model.load import ModelLike
from onnxlab.runtime.comparison import Comparison, as_tensor, compare_outputs, distances
from onnxlab.runtime.export_check import check_export
from onnxlab.runtime.refusals import named_reason
from onnxlab.runtime.session import arrays, feeds, open_session


@dataclass(frozen=True)
class PairedRun:
    """The outputs of PyTorch and of ONNX Runtime for one set of inputs.

    Attributes:
        inputs: The input arrays.
        torch: The module's outputs.
        runtime: ONNX Runtime's outputs; empty if it raised.
        error: The class and reason of what ONNX Runtime raised, or an empty string.
    """

    inputs: tuple[Array, ...]
    torch: tuple[Array, ...]
    runtime: tuple[Array, ...]
    error: str = ""

    def problems(self) -> list[str]:
        """Return the differences other than of numbers: the error, the number of outputs, types, shapes."""
        if self.error:
            return [self.error]
        if len(self.torch) != len(self.runtime):
            ours, theirs = len(self.torch), len(self.runtime)
            return [
                Message("number of outputs: torch {ours}, the runtime {theirs}", ours=ours, theirs=theirs)
            ]
        mismatches: list[str] = []
        for n, (a, b) in enumerate(zip(self.torch, self.runtime, strict=True)):
            if a.dtype != b.dtype:
                reason = Message("output {n}: torch gives {a.dtype}, the runtime {b.dtype}", n=n, a=a, b=b)
                mismatches.append(reason)
            if a.shape != b.shape:
                reason = Message(
                    "output {n}: torch gives shape {a.shape}, the runtime {b.shape}", n=n, a=a, b=b
                )
                mismatches.append(reason)
        return mismatches


def paired_runs(module: Callable[..., Any], model: ModelLike, inputs: object) -> Iterator[PairedRun]:
    """Run each set of inputs through a module and through ONNX Runtime; the arguments are those of `compare`.

    Example:
        >>> from onnxlab.history import recorded_graph
        >>> [pair] = paired_runs(torch.neg, recorded_graph("1.8.1", "silu_9"), torch.zeros(3))
        >>> pair.torch[0], pair.runtime[0]
        (array([-0., -0., -0.], dtype=float32), array([0., 0., 0.], dtype=float32))
    """
    session = open_session(model)
    for positional, keywords in _calls(inputs):
        with torch.no_grad():
            result = module(*copy.deepcopy(positional), **copy.deepcopy(keywords))
        fed = tuple(np.asarray(array) for array in arrays([positional, keywords]))
        ours = tuple(np.asarray(array) for array in arrays(result))
        try:
            theirs = session.run(None, feeds(session, [positional, keywords], spare=True))
        except Exception as error:  # the runtime raises plain Exception subclasses and RuntimeError
            yield PairedRun(fed, ours, (), named_reason(error))
        else:
            yield PairedRun(fed, ours, tuple(np.asarray(array) for array in theirs))


_CORNER = 3  # elements of each axis to show, where an output element has no single input element


@dataclass(frozen=True)
class Counterexample:
    """One set of inputs for which PyTorch and ONNX Runtime disagree.

    Attributes:
        inputs: The input arrays.
        output: The number of the output that differs.
        index: The element of that output; empty where `reason` says that the outputs cannot be compared.
        torch: The module's value of that element, or None.
        runtime: ONNX Runtime's value of that element, or None.
        input_slice: From each input, the element at `index` if it has the output's shape, otherwise a corner.
        reason: The disagreement in a sentence.
    """

    inputs: tuple[Array, ...] = field(repr=False, compare=False)
    output: int
    index: tuple[int, ...]
    torch: complex | float | int | bool | None
    runtime: complex | float | int | bool | None
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
    one with the smallest input is reported where an input has the output's shape, otherwise the worst one.

    Args:
        module: The module.
        model: The exported model.
        inputs: Sets of inputs, as for `compare`.
        atol: The absolute tolerance.
        rtol: The tolerance relative to PyTorch's value, added to `atol`. Both are for floating-point values:
            whole numbers are not rounded.

    Returns:
        The counterexample, or None if every set agrees.

    Example:
        >>> from onnxlab.history import recorded_graph
        >>> shift = recorded_graph("1.8.1", "rshift_int32_o11")
        >>> x, n = torch.tensor([8, 4, -5, -1, -9, 2], dtype=torch.int32), torch.ones(6, dtype=torch.int32)
        >>> print(smallest_counterexample(torch.bitwise_right_shift, shift, [(x, n)]))
        output 0 at [3]: torch -1, runtime 0
        inputs: int32[6], int32[6]; there: -1, 1
    """
    failing = [pair for pair in paired_runs(module, model, inputs) if _fails(pair, atol, rtol)]
    return _describe(min(failing, key=_size), atol, rtol) if failing else None


def _fails(pair: PairedRun, atol: float, rtol: float) -> bool:
    return bool(pair.error) or not compare_outputs(pair.torch, pair.runtime, rtol=rtol, atol=atol)


def mismatches(expected: Array, actual: Array, rtol: float, atol: float) -> tuple[Array, Array]:
    """Return how far the elements of two arrays are apart, and which are wrong by `compare_outputs`.

    Example:
        >>> mismatches(np.array([1.0, np.nan, 2]), np.array([1.1, np.nan, 2]), 0, 0.01)[1]
        array([ True, False, False])
    """
    if expected.dtype.kind != "f":
        rtol, atol = 0.0, -1.0  # only what is equal is close
    apart, close = distances(as_tensor(expected), as_tensor(actual), rtol, atol)
    return apart.numpy(), ~close.numpy()


def _size(pair: PairedRun) -> tuple[int, float]:
    largest = max((float(magnitude(array).max(initial=0.0)) for array in pair.inputs), default=0.0)
    return sum(array.size for array in pair.inputs), np.nan_to_num(largest, nan=np.inf)


def _describe(pair: PairedRun, atol: float, rtol: float) -> Counterexample:
    if problems := pair.problems():
        reason = Message.compose("; ", problems)
        return Counterexample(pair.inputs, 0, (), None, None, _at(pair.inputs, None, ()), reason)
    for number, (ours, theirs) in enumerate(zip(pair.torch, pair.runtime, strict=True)):
        apart, wrong = mismatches(ours, theirs, rtol, atol)
        if wrong.any():
            index = _clearest(pair.inputs, wrong, apart)
            mine, other = ours[index].item(), theirs[index].item()
            values = {"number": number, "index": list(index), "plain": _plain(mine), "plain2": _plain(other)}
            reason = Message("output {number} at {index}: torch {plain}, runtime {plain2}", **values)
            input_slice = _at(pair.inputs, ours.shape, index)
            return Counterexample(pair.inputs, number, index, mine, other, input_slice, reason)
    raise AssertionError(pair)  # only failing pairs come here


def _clearest(inputs: tuple[Array, ...], wrong: Array, differences: Array) -> tuple[int, ...]:
    """The index of the wrong element to report."""
    elementwise = [array for array in inputs if array.shape == wrong.shape]
    rank = magnitude(elementwise[0][wrong]) if elementwise else -differences[wrong]
    simplest = np.nan_to_num(rank, nan=np.inf).argmin()
    return tuple(int(i) for i in np.argwhere(wrong)[simplest])


def _at(
    inputs: tuple[Array, ...], shape: tuple[int, ...] | None, index: tuple[int, ...]
) -> tuple[Array, ...]:
    """From each input, the element at the index if it has the shape, otherwise a corner."""
    return tuple(
        array[index] if array.shape == shape else array[(slice(_CORNER),) * array.ndim] for array in inputs
    )


def _plain(value: complex) -> str:
    return f"{value:.6g}" if isinstance(value, float | complex) else str(value)


def run(model: ModelLike, *inputs: object, optimize: bool = True) -> list[Array]:
    """Run a model in ONNX Runtime on the CPU.

    Args:
        model: The model.
        *inputs: Tensors, arrays or numbers, one for each input in order; or one dict by input name.
        optimize: Whether the runtime may rewrite the graph.

    Returns:
        The outputs.

    Raises:
        InputMismatch: If there are more or fewer arrays than inputs.

    Example:
        >>> from onnxlab.history import recorded_graph
        >>> [output.shape for output in run(recorded_graph("1.8.1", "silu_9"), np.ones(3, np.float32))]
        [(3,)]
    """
    session = open_session(model, optimize=optimize)
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        feed = {name: np.asarray(arrays(value)[0]) for name, value in inputs[0].items()}
    else:
        feed = feeds(session, inputs)
    return list(session.run(None, feed))


def compare(module: Callable[..., Any], model: ModelLike, inputs: object) -> Comparison:
    """Check a model in memory as `check_export` checks a file.

    Args:
        module: The module.
        model: The exported model.
        inputs: Sets of inputs, the first of which is the example; each a tensor, a tuple of arguments, or a
            dict of keyword arguments. A tensor or a dict alone counts as one set.

    Example:
        >>> from onnxlab.history import recorded_graph
        >>> silu = recorded_graph("1.8.1", "silu_9")
        >>> compare(torch.nn.SiLU(), silu, [torch.ones(3), torch.zeros(3)]).right
        True
        >>> compare(torch.nn.Sigmoid(), silu, torch.zeros(3)).difference
        0.5
    """
    calls = list(_calls(inputs))
    if not calls:
        return Comparison(())
    [(args, kwargs), *others] = calls
    return check_export(module, args, None, kwargs=kwargs, others=others, session=open_session(model))


def _calls(inputs: object) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yield the positional and the keyword arguments of each set of inputs."""
    many = isinstance(inputs, Iterable) and not isinstance(inputs, torch.Tensor | np.ndarray | Mapping)
    for arguments in cast("Iterable[object]", inputs) if many else [inputs]:
        if isinstance(arguments, Mapping):
            yield (), dict(arguments)
        else:
            yield arguments if isinstance(arguments, tuple) else (arguments,), {}
