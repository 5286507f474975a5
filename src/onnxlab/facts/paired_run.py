"""One call made twice: through a PyTorch module and through the model exported from it."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from onnxlab.facts.distance import Array
from onnxlab.facts.loading import ModelLike
from onnxlab.facts.runtime import arrays, feeds, open_session

__all__ = ["PairedRun", "paired_runs"]


@dataclass(frozen=True)
class PairedRun:
    """What came out on both sides.

    Attributes:
        inputs: The arrays that went in.
        torch: The module's outputs.
        runtime: ONNX Runtime's outputs; empty if it raised.
        error: What ONNX Runtime raised, or an empty string.
    """

    inputs: tuple[Array, ...]
    torch: tuple[Array, ...]
    runtime: tuple[Array, ...]
    error: str = ""

    def problems(self) -> list[str]:
        """Return what cannot be expressed as a difference of numbers."""
        if self.error:
            return [self.error]
        if len(self.torch) != len(self.runtime):
            return [f"torch gives {len(self.torch)} outputs, the runtime {len(self.runtime)}"]
        found: list[str] = []
        for i, (ours, theirs) in enumerate(zip(self.torch, self.runtime, strict=True)):
            if ours.dtype != theirs.dtype:
                found.append(f"output {i}: torch gives {ours.dtype}, the runtime {theirs.dtype}")
            if ours.shape != theirs.shape:
                found.append(f"output {i}: torch gives shape {ours.shape}, the runtime {theirs.shape}")
        return found

    def comparable(self) -> list[tuple[int, Array, Array]]:
        """Return the outputs of equal shape: number, torch's values, the runtime's values."""
        pairs = enumerate(zip(self.torch, self.runtime, strict=False))
        return [(i, ours, theirs) for i, (ours, theirs) in pairs if ours.shape == theirs.shape]


def paired_runs(module: Callable[..., Any], model: ModelLike, inputs: object) -> Iterator[PairedRun]:
    """Run each set of inputs through a module and through ONNX Runtime.

    Args:
        module: The module, in the mode it is in; it is run without gradients on copies of the inputs.
        model: The exported model.
        inputs: Sets of inputs; each a tensor, a tuple of arguments, or a dict of keyword arguments. A tensor
            or a dict alone counts as one set.

    Yields:
        The outputs of both sides, set by set.

    Example:
        >>> from onnxlab.facts.history import recorded_graph
        >>> [pair] = paired_runs(torch.neg, recorded_graph("1.8.1", "silu_9"), torch.zeros(3))
        >>> pair.torch[0], pair.runtime[0]
        (array([-0., -0., -0.], dtype=float32), array([0., 0., 0.], dtype=float32))
    """
    session = open_session(model)
    many = isinstance(inputs, Iterable) and not isinstance(inputs, torch.Tensor | np.ndarray | Mapping)
    for given in cast("Iterable[object]", inputs) if many else [inputs]:
        keywords = dict(given) if isinstance(given, Mapping) else {}
        positional = () if keywords else given if isinstance(given, tuple) else (given,)
        with torch.no_grad():
            result = module(*copy.deepcopy(positional), **copy.deepcopy(keywords))
        fed = tuple(np.asarray(array) for array in arrays([positional, keywords]))
        ours = tuple(np.asarray(array) for array in arrays(result))
        try:
            theirs = session.run(None, feeds(session, [positional, keywords], spare=True))
        except Exception as error:  # the runtime raises plain Exception subclasses and RuntimeError
            yield PairedRun(fed, ours, (), f"{type(error).__name__}: {str(error).strip().splitlines()[0]}")
        else:
            yield PairedRun(fed, ours, tuple(np.asarray(array) for array in theirs))
