"""Where two computations part: the first value inside a graph that is not what it should be."""

from collections.abc import Mapping
from dataclasses import dataclass

from onnxlab.facts.distance import Array, largest_difference
from onnxlab.facts.intermediates import inner_values, intermediates
from onnxlab.facts.lineage import ancestors, edges
from onnxlab.facts.loading import ModelLike, load
from onnxlab.facts.nodes import GraphNode

__all__ = ["Bisection", "Divergence", "Probe", "bisect_divergence", "first_divergence"]


@dataclass(frozen=True)
class Divergence:
    """The first value that is not what it should be.

    Attributes:
        value: Its name.
        suspects: The nodes that can be the cause, in order: the one that makes the value, and those before it
            of which no value could be compared.
        max_abs: The largest absolute difference; infinite where types or shapes differ.
        problem: What differs besides numbers, or an empty string.
    """

    value: str
    suspects: tuple[GraphNode, ...]
    max_abs: float
    problem: str = ""

    def __str__(self) -> str:
        nodes = ", ".join(node.op for node in self.suspects)
        return f"{self.value} made by {nodes}: {self.problem or f'differs by {self.max_abs:.3g}'}"


@dataclass(frozen=True)
class Probe:
    """One value looked at while bisecting.

    Attributes:
        value: Its name.
        agrees: Whether it was as expected.
        left: How many values can still be the first that differs, after this one.
    """

    value: str
    agrees: bool
    left: int


@dataclass(frozen=True)
class Bisection:
    """What a bisection found, and how.

    Attributes:
        divergence: The first value that differs, or None if the outputs agree.
        probes: The values looked at, in order; each took one run of a part of the graph.
        candidates: How many values could be compared.
    """

    divergence: Divergence | None
    probes: tuple[Probe, ...]
    candidates: int


def first_divergence(
    model: ModelLike, expected: Mapping[str, Array], *inputs: object, atol: float = 1e-5
) -> Divergence | None:
    """Compare every value of the main graph that has a counterpart, in one run that keeps them all.

    Args:
        model: The model.
        expected: What the values should be, by name; values without a counterpart are passed over.
        *inputs: The inputs of the model, in order.
        atol: The largest absolute difference that counts as agreement.

    Returns:
        The first value that differs, or None.

    Example:
        >>> import numpy as np
        >>> from onnxlab.facts.history import recorded_graph
        >>> silu, zeros = recorded_graph("1.8.1", "silu_9"), np.zeros(3, np.float32)
        >>> first_divergence(silu, {"1": zeros + 0.5, "2": zeros}, zeros) is None
        True
        >>> print(first_divergence(silu, {"2": zeros + 1}, zeros))
        2 made by Sigmoid, Mul: differs by 1
    """
    names = [name for name in inner_values(model) if name in expected]
    actual = intermediates(model, *inputs, names=names) if names else {}
    for name in names:
        if not _agree(expected[name], actual[name], atol):
            return _divergence(model, name, expected, actual[name])
    return None


def bisect_divergence(
    model: ModelLike, expected: Mapping[str, Array], *inputs: object, atol: float = 1e-5
) -> Bisection:
    """Find the first value that differs with few short runs: halve the graph until one step is left.

    Each run computes one value and keeps no other, which suits models too large for `first_divergence`. As
    with `git bisect`, a right value clears all values it was computed from. So an error that a later layer
    hides (ReLU of numbers below zero, argmax) can lead astray; where that may be, use `first_divergence`.

    Args:
        model: The model.
        expected: What the values should be, by name; values without a counterpart are passed over.
        *inputs: The inputs of the model, in order.
        atol: The largest absolute difference that counts as agreement.

    Example:
        >>> import numpy as np
        >>> from onnxlab.facts.history import recorded_graph
        >>> silu, zeros = recorded_graph("1.8.1", "silu_9"), np.zeros(3, np.float32)
        >>> found = bisect_divergence(silu, {"1": zeros, "2": zeros + 1}, zeros)
        >>> [(probe.value, probe.agrees, probe.left) for probe in found.probes]
        [('2', False, 2), ('1', False, 1)]
        >>> print(found.divergence)
        1 made by Sigmoid: differs by 0.5
    """
    proto = load(model)
    names = [name for name in inner_values(proto) if name in expected]
    before = ancestors(proto, names)
    outputs = [info.name for info in proto.graph.output if info.name in before] or names[-1:]
    probes: list[Probe] = []
    suspects: set[str] = set()

    def wrong(name: str) -> Array | None:
        actual = intermediates(proto, *inputs, names=[name])[name]
        return None if _agree(expected[name], actual, atol) else actual

    for first in outputs:
        found = wrong(first)
        suspects = set() if found is None else {first} | before[first]
        probes.append(Probe(first, found is None, len(suspects)))
        if found is not None:
            break
    else:
        return Bisection(None, tuple(probes), len(names))
    while len(suspects) > 1:
        # The value that leaves the fewest suspects whichever way it turns out.
        half = {name: len(before[name] & suspects) + 1 for name in names if name in suspects - {first}}
        middle = min(half, key=lambda name: max(half[name], len(suspects) - half[name]))
        actual = wrong(middle)
        if actual is None:
            suspects -= before[middle] | {middle}
        else:
            first, found = middle, actual
            suspects &= before[middle] | {middle}
        probes.append(Probe(middle, actual is None, len(suspects)))
    return Bisection(_divergence(proto, first, expected, found), tuple(probes), len(names))


def _agree(expected: Array, actual: Array, atol: float) -> bool:
    return not _problem(expected, actual) and largest_difference(expected, actual) <= atol


def _problem(expected: Array, actual: Array) -> str:
    found: list[str] = []
    if expected.dtype != actual.dtype:
        found.append(f"type {actual.dtype} instead of {expected.dtype}")
    if expected.shape != actual.shape:
        found.append(f"shape {actual.shape} instead of {expected.shape}")
    return ", ".join(found)


def _divergence(model: ModelLike, value: str, expected: Mapping[str, Array], actual: Array) -> Divergence:
    problem = _problem(expected[value], actual)
    max_abs = float("inf") if problem else largest_difference(expected[value], actual)
    return Divergence(value, _suspects(model, value, expected), max_abs, problem)


def _suspects(model: ModelLike, value: str, compared: Mapping[str, Array]) -> tuple[GraphNode, ...]:
    """The maker of a value, and the nodes before it up to values that were compared (and agreed)."""
    makers, reads = edges(load(model))
    found: dict[str, GraphNode] = {}
    open_values = [value]
    while open_values:
        node = makers.get(open_values.pop())
        if node is None or node.path in found:
            continue
        found[node.path] = node
        open_values += [name for name in reads[node.path] if name not in compared]
    return tuple(sorted(found.values(), key=lambda node: int(node.path)))
