"""The same inputs through eager PyTorch and ONNX Runtime: how far apart are the outputs?"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxlab.facts.counterexample import Counterexample, smallest_counterexample
from onnxlab.facts.distance import Array, largest_difference, relative_difference
from onnxlab.facts.loading import ModelLike
from onnxlab.facts.paired_run import PairedRun, paired_runs
from onnxlab.facts.runtime import arrays, feeds, open_session

__all__ = ["Counterexample", "Parity", "ParityRow", "compare", "run", "smallest_counterexample"]


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
        >>> from onnxlab.facts.history import recorded_graph
        >>> [output.shape for output in run(recorded_graph("1.8.1", "silu_9"), np.ones(3, np.float32))]
        [(3,)]
    """
    session = open_session(model, optimize=optimize)
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        feed = {name: np.asarray(arrays(value)[0]) for name, value in inputs[0].items()}
    else:
        feed = feeds(session, inputs)
    return list(session.run(None, feed))


@dataclass(frozen=True)
class ParityRow:
    """How one set of inputs fared.

    Attributes:
        shapes: The shapes of the inputs.
        max_abs: The largest absolute difference; infinite where one side is not a number and the other is.
        max_rel: The largest difference relative to the larger of the two values, between 0 and 2.
        problems: What cannot be expressed as a difference: another number of outputs, another type or shape,
            or the error of the runtime.
    """

    shapes: tuple[tuple[int, ...], ...]
    max_abs: float
    max_rel: float
    problems: tuple[str, ...] = ()

    def ok(self, atol: float = 1e-5) -> bool:
        """Whether the outputs are of the same kind and nowhere further apart than `atol`."""
        return not self.problems and self.max_abs <= atol


@dataclass(frozen=True)
class Parity:
    """How a model in ONNX Runtime compares with the module it came from.

    Attributes:
        rows: One for each set of inputs, in order.
    """

    rows: tuple[ParityRow, ...]

    @property
    def max_abs(self) -> float:
        """The largest absolute difference over all inputs."""
        return max((row.max_abs for row in self.rows), default=0.0)

    @property
    def max_rel(self) -> float:
        """The largest relative difference over all inputs."""
        return max((row.max_rel for row in self.rows), default=0.0)

    def ok(self, atol: float = 1e-5) -> bool:
        """Whether there were inputs, and every set of them gives the same outputs up to `atol`."""
        return bool(self.rows) and all(row.ok(atol) for row in self.rows)


def compare(module: Callable[..., Any], model: ModelLike, inputs: object) -> Parity:
    """Run every set of inputs through the module and through ONNX Runtime.

    Outputs may be a tensor or nested tuples, lists and dicts of tensors. Not-a-number equals itself.

    Args:
        module: The module, in the mode it is in; it is run without gradients on copies of the inputs.
        model: The exported model.
        inputs: Sets of inputs; each a tensor, a tuple of arguments, or a dict of keyword arguments. A tensor
            or a dict alone counts as one set.

    Returns:
        The differences, set by set.

    Example:
        >>> import torch
        >>> from onnxlab.facts.history import recorded_graph
        >>> silu = recorded_graph("1.8.1", "silu_9")
        >>> parity = compare(torch.nn.SiLU(), silu, [torch.ones(3), torch.zeros(3)])
        >>> len(parity.rows), parity.ok()
        (2, True)
        >>> compare(torch.nn.Sigmoid(), silu, torch.zeros(3)).max_abs
        0.5
    """
    return Parity(tuple(_row(pair) for pair in paired_runs(module, model, inputs)))


def _row(pair: PairedRun) -> ParityRow:
    absolute, relative = 0.0, 0.0
    for _, ours, theirs in pair.comparable():
        absolute = max(absolute, largest_difference(ours, theirs))
        relative = max(relative, float(relative_difference(ours, theirs).max(initial=0.0)))
    shapes = tuple(array.shape for array in pair.inputs)
    return ParityRow(shapes, absolute, relative, tuple(pair.problems()))
