"""What differs between a node and its counterpart in another model."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import onnx

from onnxlab.model.diff.matching import Matching
from onnxlab.model.diff.scope import Scope, plain_attributes
from onnxlab.model.distance import largest_difference
from onnxlab.model.nodes import GraphNode
from onnxlab.model.values import tensor_array

__all__ = ["Change", "NodeChange", "feeder_changes", "node_changes"]

_LONGEST = 40  # characters of an attribute's value in a message


@dataclass(frozen=True)
class Change:
    """One thing that differs.

    Attributes:
        kind: "operator", "attribute", "input", "weight", "output", "subgraph", "opset" or "function".
        name: Which one: the attribute, the number of the input, the value, the domain.
        before: What it is in the first model, in words; None where it is absent.
        after: What it is in the second model; None where it is absent.
        max_abs: The largest absolute difference, for weights and tensors of one shape.
    """

    kind: str
    name: str
    before: str | None = None
    after: str | None = None
    max_abs: float | None = None

    def __str__(self) -> str:
        what = f"{self.kind} {self.name}".strip()
        if self.max_abs is not None:
            return f"{what} differs by up to {self.max_abs:.3g}"
        if self.before == self.after:
            return f"{what} differs"
        return f"{what} {self.before or 'nothing'} -> {self.after or 'nothing'}"


@dataclass(frozen=True)
class NodeChange:
    """A node that is in both models, but not the same.

    Attributes:
        before: The node in the first model.
        after: Its counterpart in the second.
        changes: What differs.
    """

    before: GraphNode
    after: GraphNode
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        return f"~ {self.before}: {'; '.join(str(change) for change in self.changes)}"


def node_changes(ours: GraphNode, theirs: GraphNode, matching: Matching) -> Iterator[Change]:
    """Compare a node with its counterpart, without the graphs inside them.

    Args:
        ours: The node of the first model.
        theirs: Its counterpart.
        matching: The matching of the graphs they stand in.

    Yields:
        What differs.

    Example:
        >>> from onnxlab.model.diff.matching import match
        >>> from onnxlab.model.nodes import nodes_of
        >>> one, two = (onnx.helper.make_node("Gemm", ["x", "w"], ["y"], alpha=a) for a in (1.0, 2.0))
        >>> matching = match(Scope(nodes_of([one]), {}), Scope(nodes_of([two]), {}))
        >>> [str(change) for change in node_changes(*matching.pairs[0], matching)]
        ['attribute alpha 1.0 -> 2.0']
    """
    if ours.op != theirs.op:
        yield Change("operator", "", ours.op, theirs.op)
    yield from _attribute_changes(ours.proto, theirs.proto, matching)
    for i, (mine, other) in enumerate(zip_longest(ours.inputs, theirs.inputs, fillvalue="")):
        yield from feeder_changes("input", str(i), mine, other, matching)
    if [bool(name) for name in ours.outputs] != [bool(name) for name in theirs.outputs]:
        yield Change("output", "count", str(len(ours.outputs)), str(len(theirs.outputs)))


def feeder_changes(kind: str, slot: str, mine: str, other: str, matching: Matching) -> Iterator[Change]:
    """Compare where two values come from.

    Args:
        kind: What the values are: "input" of a node, "output" of a graph.
        slot: Which one.
        mine: The value's name in the first model; empty if omitted.
        other: The value's name in the second.
        matching: The matching of the graphs they stand in.

    Yields:
        One change, or nothing if it is the same value.

    Example:
        >>> from onnxlab.model.diff.matching import match
        >>> matching = match(Scope([], {"x": "input 0"}), Scope([], {"x": "input 0", "y": "input 1"}))
        >>> [str(change) for change in feeder_changes("output", "0", "x", "y", matching)]
        ['output 0 x -> y']
    """
    before, after = matching.before, matching.after
    if before.token(mine) == after.token(other):
        return
    ours, theirs = before.weights.get(mine), after.weights.get(other)
    if ours is not None and theirs is not None:
        yield _tensor_change("weight", mine, ours, theirs)
    else:
        yield Change(kind, slot, _feeder(before, mine), _feeder(after, other))


def _feeder(scope: Scope, name: str) -> str | None:
    if not name:
        return None
    if name in scope.weights:
        return f"weight {name}"
    if name in scope.makers:
        node, number = scope.makers[name]
        return f"{node.op} {node.label}" + (f" output {number}" if number else "")
    return name


def _attribute_changes(ours: onnx.NodeProto, theirs: onnx.NodeProto, matching: Matching) -> Iterator[Change]:
    mine = plain_attributes(ours, matching.before.opsets)
    other = plain_attributes(theirs, matching.after.opsets)
    before, after = ({attribute.name: attribute for attribute in node.attribute} for node in (ours, theirs))
    for name in sorted(mine.keys() | other.keys()):
        if mine.get(name) == other.get(name):
            continue
        tensors = [side[name].t for side in (before, after) if name in side and side[name].HasField("t")]
        if len(tensors) == 2:
            yield _tensor_change("attribute", name, *tensors)
        else:
            yield Change("attribute", name, _words(before.get(name)), _words(after.get(name)))


def _tensor_change(kind: str, name: str, ours: onnx.TensorProto, theirs: onnx.TensorProto) -> Change:
    mine, other = tensor_array(ours), tensor_array(theirs)
    if mine.dtype != other.dtype or mine.shape != other.shape:
        return Change(kind, name, f"{mine.dtype}{list(mine.shape)}", f"{other.dtype}{list(other.shape)}")
    if mine.dtype == object:  # strings
        return Change(kind, name)
    return Change(kind, name, max_abs=largest_difference(mine, other))


def _words(attribute: onnx.AttributeProto | None) -> str | None:
    if attribute is None:
        return None
    if attribute.ref_attr_name:
        return f"@{attribute.ref_attr_name}"
    value = onnx.helper.get_attribute_value(attribute)
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
