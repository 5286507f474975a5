"""Comparing the graphs of two models, those inside nodes and functions included."""

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import zip_longest

import onnx

from onnxlab.facts.graph_changes import Change, NodeChange, feeder_changes, node_changes
from onnxlab.facts.graph_matching import Matching, match
from onnxlab.facts.graph_scope import Scope, Token
from onnxlab.facts.nodes import GraphNode, function_name, subgraphs
from onnxlab.facts.values import Value, declared

__all__ = ["Findings", "numbered", "outermost"]


class Findings:
    """What was found so far, in all the graphs of two models.

    Attributes:
        removed: Nodes of the first model without a counterpart.
        added: Nodes of the second model without a counterpart.
        changed: Nodes with a counterpart that is not the same.
        same: Pairs of paths of nodes that are the same.
    """

    def __init__(self) -> None:
        self.removed: list[GraphNode] = []
        self.added: list[GraphNode] = []
        self.changed: list[NodeChange] = []
        self.same: list[tuple[str, str]] = []

    def compare(self, a: Scope, b: Scope) -> Matching:
        """Compare two scopes and the graphs inside their nodes."""
        matching = match(a, b)
        partners = {ours.path: theirs.path for ours, theirs in matching.pairs}
        matched = set(partners.values())
        self.removed += [node for node in a.nodes if node.path not in partners]
        self.added += [node for node in b.nodes if node.path not in matched]
        for ours, theirs in matching.pairs:
            position = len(self.changed)  # a node is listed before the nodes inside it
            changes = [
                *node_changes(ours, theirs, matching),
                *self._compare_subgraphs(ours, theirs, matching),
            ]
            if changes:
                self.changed.insert(position, NodeChange(ours, theirs, tuple(changes)))
            else:
                self.same.append((ours.path, theirs.path))
        return matching

    def _compare_subgraphs(self, ours: GraphNode, theirs: GraphNode, outer: Matching) -> Iterator[Change]:
        mine, other = dict(subgraphs(ours.proto)), dict(subgraphs(theirs.proto))
        for label in sorted(mine.keys() ^ other.keys()):
            yield _presence("subgraph", label, mine, other)
        for label in sorted(mine.keys() & other.keys()):
            a, b = mine[label], other[label]
            key, before = f"{ours.path}/{label}", self._differences()
            inner = self.compare(
                outer.before.inner(a, key, numbered(key, declared(a.input))),
                outer.after.inner(b, f"{theirs.path}/{label}", numbered(key, declared(b.input))),
            )
            yield from _outputs(label, [v.name for v in a.output], [v.name for v in b.output], inner)
            if self._differences() != before:
                yield Change("subgraph", label)

    def compare_functions(self, first: onnx.ModelProto, second: onnx.ModelProto) -> Iterator[Change]:
        """Compare the functions of one name, and yield what cannot be said of a node."""
        mine, other = ({function_name(f): f for f in model.functions} for model in (first, second))
        for name in sorted(mine.keys() ^ other.keys()):
            yield _presence("function", name, mine, other)
        for name in sorted(mine.keys() & other.keys()):
            a, b = mine[name], other[name]
            matching = self.compare(
                outermost(a).inner(a, name, {value: (name, i) for i, value in enumerate(a.input)}),
                outermost(b).inner(b, name, {value: (name, i) for i, value in enumerate(b.input)}),
            )
            yield from _outputs(f"of {name}", a.output, b.output, matching)

    def _differences(self) -> int:
        return len(self.removed) + len(self.added) + len(self.changed)


def outermost(owner: onnx.ModelProto | onnx.FunctionProto) -> Scope:
    """Return the empty scope around the graph of a model or the nodes of a function."""
    opsets = {opset.domain: opset.version for opset in owner.opset_import}
    return Scope([], {}, opsets=opsets)


def numbered(kind: str, values: Iterable[Value | None]) -> dict[str, Token]:
    """Name values by their places, so that two graphs agree on them whatever they are called."""
    return {value.name: (kind, i) for i, value in enumerate(values) if value}


def _presence(kind: str, name: str, before: Container[str], after: Container[str]) -> Change:
    return Change(kind, name, "present" if name in before else None, "present" if name in after else None)


def _outputs(label: str, ours: Sequence[str], theirs: Sequence[str], matching: Matching) -> Iterator[Change]:
    for i, (mine, other) in enumerate(zip_longest(ours, theirs, fillvalue="")):
        yield from feeder_changes("output", f"{label}[{i}]", mine, other, matching)
