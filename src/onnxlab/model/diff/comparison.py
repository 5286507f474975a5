"""The differences between two models in structure and numbers; names do not count."""

import math
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import TypeAlias

import onnx

from onnxlab.errors import ModelNotReadable
from onnxlab.message import Message
from onnxlab.model.diff.matching import Matching, match
from onnxlab.model.diff.scope import Scope, Token, plain_attributes
from onnxlab.model.distance import largest_difference
from onnxlab.model.graph import GraphNode, Value, declared, function_name, subgraphs, tensor_array, walk
from onnxlab.model.load import ModelLike, load
from onnxlab.plain_text import plain

_Slots: TypeAlias = list[tuple[Value | None, Value | None]]
"""Inputs, or outputs, of two models side by side; None where one model has no counterpart."""

_MOST_NODES = 100_000  # traced; more take longer than anybody waits
_LINES = 20  # of the text; a long list helps nobody
_CHANGED = {
    "attribute": Message("attribute {name} {before} -> {after}"),
    "function": Message("function {name} {before} -> {after}"),
    "input": Message("input {name} {before} -> {after}"),
    "operator": Message("operator {before} -> {after}"),
    "opset": Message("opset {name} {before} -> {after}"),
    "output": Message("output {name} {before} -> {after}"),
    "output count": Message("output count {before} -> {after}"),
    "subgraph": Message("subgraph {name} {before} -> {after}"),
    "weight": Message("weight {name} {before} -> {after}"),
}
_DIFFERS = {
    "attribute": Message("attribute {name} differs"),
    "subgraph": Message("subgraph {name} differs"),
    "weight": Message("weight {name} differs"),
}
_DIFFERS_BY = {
    "attribute": Message("attribute {name} differs by up to {number:.3g}"),
    "weight": Message("weight {name} differs by up to {number:.3g}"),
}
_LONGEST = 40  # characters of an attribute's value in a message


@dataclass(frozen=True)
class Change:
    """One difference.

    Attributes:
        kind: "operator", "attribute", "input", "weight", "output", "output count", "subgraph", "opset"
            or "function".
        name: Which one: the attribute, the number of the input, the value, the domain.
        before: A description of it in the first model; None where it is absent.
        after: A description of it in the second model; None where it is absent.
        max_abs: The largest absolute difference, for weights and tensors of one shape.
    """

    kind: str
    name: str
    before: str | None = None
    after: str | None = None
    max_abs: float | None = None

    def __str__(self) -> str:
        what = f"{self.kind} {self.name}".strip()
        if self.max_abs is not None and math.isinf(self.max_abs):
            return Message("{what} is NaN or infinite in one of them only", what=what)
        if self.max_abs is not None:
            return Message(_DIFFERS_BY[self.kind], name=self.name, number=self.max_abs)
        if self.before == self.after:
            return Message(_DIFFERS.get(self.kind, "{kind} {name} differs"), kind=self.kind, name=self.name)
        sides = (side or Message("nothing") for side in (self.before, self.after))
        return Message(
            _CHANGED[self.kind], name=self.name, **dict(zip(("before", "after"), sides, strict=True))
        )


@dataclass(frozen=True)
class NodeChange:
    """A node that differs from its counterpart.

    Attributes:
        before: The node in the first model.
        after: Its counterpart in the second.
        changes: The differences.
    """

    before: GraphNode
    after: GraphNode
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        changes = Message.compose("; ", map(str, self.changes))
        return Message("~ {before}: {changes}", before=str(self.before), changes=changes)


@dataclass(frozen=True)
class GraphDiff:
    """The differences between two models; false if there are none, whatever nodes and values are called.

    Nodes in the subgraphs of a removed or added node are not listed.

    Attributes:
        removed: Nodes of the first model without a counterpart.
        added: Nodes of the second model without a counterpart.
        changed: Nodes that differ from their counterparts.
        same: The paths of nodes that equal their counterparts, in pairs.
        inputs: Changes of the declared inputs.
        outputs: Changes of the declared outputs, and of the values that feed them.
        opsets: Changes of the imported operator sets.
        functions: Model-local functions that only one model has, or whose outputs have another source.
        renamed: Inputs and outputs with another name.
    """

    removed: tuple[GraphNode, ...] = ()
    added: tuple[GraphNode, ...] = ()
    changed: tuple[NodeChange, ...] = ()
    same: tuple[tuple[str, str], ...] = ()
    inputs: tuple[Change, ...] = ()
    outputs: tuple[Change, ...] = ()
    opsets: tuple[Change, ...] = ()
    functions: tuple[Change, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        nodes = self.removed or self.added or self.changed
        return bool(nodes or self.inputs or self.outputs or self.opsets or self.functions)

    @property
    def before(self) -> dict[str, str]:
        """The first model's nodes by path: "same", "changed" or "removed"."""
        return (
            {path: "same" for path, _ in self.same}
            | {change.before.path: "changed" for change in self.changed}
            | {node.path: "removed" for node in self.removed}
        )

    @property
    def after(self) -> dict[str, str]:
        """The second model's nodes by path: "same", "changed" or "added"."""
        return (
            {path: "same" for _, path in self.same}
            | {change.after.path: "changed" for change in self.changed}
            | {node.path: "added" for node in self.added}
        )

    def __str__(self) -> str:
        lines = [str(change) for change in self.opsets + self.inputs + self.outputs + self.functions]
        lines += _runs("-", self.removed) + _runs("+", self.added)
        lines += [str(change) for change in self.changed]
        lines = lines or [Message("No difference.")]
        if self.renamed:
            pairs = ", ".join(f"{old} -> {new}" for old, new in self.renamed)
            lines.append(Message("renamed: {pairs}", pairs=pairs))
        if len(lines) > _LINES:
            lines[_LINES:] = [Message("... and {number} more", number=len(lines) - _LINES)]
        return Message.compose("\n", map(plain, lines))  # names are a stranger's: one entry stays one line


def _runs(sign: str, nodes: Sequence[GraphNode]) -> list[str]:
    """One line for each node, or for four and more nodes of one operator in a row."""
    lines: list[str] = []
    for _, group in groupby(nodes, key=lambda node: (node.op, node.scope)):
        run = list(group)
        if len(run) > 3:
            lines.append(f"{sign} {len(run)} x {run[0].op}: {run[0].label} ... {run[-1].label}")
        else:
            lines += [f"{sign} {node}" for node in run]
    return lines


def diff(a: ModelLike, b: ModelLike) -> GraphDiff:
    """Return the differences between two models; false, and "No difference." as text, if there are none.

    Raises:
        ModelNotReadable: If one is not a model or is damaged, or if they are too large.

    Example:
        >>> from onnxlab.history import recorded_graph
        >>> static = recorded_graph("1.8.1", "model_static")
        >>> print(diff(static, recorded_graph("1.8.1", "model_dynamic_0_dict")))
        input in float32[1, 3, 10, 10] -> float32[batch, 3, 10, 10]
        output out float32[1, 3, 8, 8] -> float32[batch, 3, 8, 8]
        >>> diff(static, static).before
        {'0': 'same'}
    """
    first, second = load(a), load(b)
    _require_comparable(first, second)
    inputs = _slots(declared(first.graph.input), declared(second.graph.input))
    outputs = _slots(declared(first.graph.output), declared(second.graph.output))
    findings = _Findings()
    matching = findings.compare(
        _outermost(first).inner(first.graph, "", _numbered("input", (ours for ours, _ in inputs))),
        _outermost(second).inner(second.graph, "", _numbered("input", (theirs for _, theirs in inputs))),
    )
    return GraphDiff(
        functions=tuple(findings.compare_functions(first, second)),
        removed=tuple(findings.removed),
        added=tuple(findings.added),
        changed=tuple(findings.changed),
        same=tuple(findings.same),
        inputs=tuple(_type_changes("input", inputs)),
        outputs=(*_type_changes("output", outputs), *_rewired(outputs, matching)),
        opsets=tuple(_opset_changes(first, second)),
        renamed=tuple((a.name, b.name) for a, b in inputs + outputs if a and b and a.name != b.name),
    )


def _require_comparable(*models: onnx.ModelProto) -> None:
    nodes = [node for model in models for node in walk(model)]
    count = f"{len(nodes):,}"
    # A body is traced once for each graph around it.
    if sum(node.path.count("/") // 2 + 1 for node in nodes) > _MOST_NODES:
        msg = Message(
            "The models are too large to be compared: together they have {count} nodes.", count=count
        )
        why = "Bodies inside one another count once for each body around them."
        raise ModelNotReadable(msg, why, "Compare a part of each: onnx.utils.extract_model() cuts one out.")


def _rewired(outputs: _Slots, matching: Matching) -> Iterator[Change]:
    for ours, theirs in outputs:
        if ours and theirs:
            yield from _feeder_changes("output", theirs.name, ours.name, theirs.name, matching)


# Graphs, those of nodes and functions included


class _Findings:
    """The differences in the graphs of two models so far: fields of a `GraphDiff`."""

    def __init__(self) -> None:
        self.removed: list[GraphNode] = []
        self.added: list[GraphNode] = []
        self.changed: list[NodeChange] = []
        self.same: list[tuple[str, str]] = []

    def compare(self, a: Scope, b: Scope) -> Matching:
        """Compare two scopes and the subgraphs of their nodes."""
        matching = match(a, b)
        partners = {ours.path: theirs.path for ours, theirs in matching.pairs}
        matched = set(partners.values())
        self.removed += [node for node in a.nodes if node.path not in partners]
        self.added += [node for node in b.nodes if node.path not in matched]
        for ours, theirs in matching.pairs:
            position = len(self.changed)  # a node is listed before those of its subgraphs
            changes = [
                *_node_changes(ours, theirs, matching),
                *self._compare_subgraphs(ours, theirs, matching),
            ]
            if changes:
                self.changed.insert(position, NodeChange(ours, theirs, tuple(changes)))
            else:
                self.same.append((ours.path, theirs.path))
        return matching

    def _compare_subgraphs(self, ours: GraphNode, theirs: GraphNode, outer: Matching) -> Iterator[Change]:
        our_graphs, their_graphs = dict(subgraphs(ours.proto)), dict(subgraphs(theirs.proto))
        for label in sorted(our_graphs.keys() ^ their_graphs.keys()):
            yield _presence("subgraph", label, our_graphs, their_graphs)
        for label in sorted(our_graphs.keys() & their_graphs.keys()):
            a, b = our_graphs[label], their_graphs[label]
            path, count = f"{ours.path}/{label}", self._count()
            inner = self.compare(
                outer.before.inner(a, path, _numbered(path, declared(a.input))),
                outer.after.inner(b, f"{theirs.path}/{label}", _numbered(path, declared(b.input))),
            )
            yield from _outputs(label, [v.name for v in a.output], [v.name for v in b.output], inner)
            if self._count() != count:
                yield Change("subgraph", label)

    def compare_functions(self, first: onnx.ModelProto, second: onnx.ModelProto) -> Iterator[Change]:
        """Compare functions of the same name; yield the differences that are not a node's."""
        our_functions, their_functions = (
            {function_name(f): f for f in model.functions} for model in (first, second)
        )
        for name in sorted(our_functions.keys() ^ their_functions.keys()):
            yield _presence("function", name, our_functions, their_functions)
        for name in sorted(our_functions.keys() & their_functions.keys()):
            a, b = our_functions[name], their_functions[name]
            matching = self.compare(
                _outermost(a).inner(a, name, {value: (name, i) for i, value in enumerate(a.input)}),
                _outermost(b).inner(b, name, {value: (name, i) for i, value in enumerate(b.input)}),
            )
            yield from _outputs(f"of {name}", a.output, b.output, matching)

    def _count(self) -> int:
        return len(self.removed) + len(self.added) + len(self.changed)


def _outermost(owner: onnx.ModelProto | onnx.FunctionProto) -> Scope:
    """Return the empty scope around the graph of a model or the nodes of a function."""
    opsets = {opset.domain: opset.version for opset in owner.opset_import}
    return Scope([], {}, opsets=opsets)


def _numbered(kind: str, values: Iterable[Value | None]) -> dict[str, Token]:
    """Return tokens for values by their positions, so that two graphs agree whatever names they use."""
    return {value.name: (kind, i) for i, value in enumerate(values) if value}


def _presence(kind: str, name: str, before: Container[str], after: Container[str]) -> Change:
    return Change(kind, name, "present" if name in before else None, "present" if name in after else None)


def _outputs(label: str, ours: Sequence[str], theirs: Sequence[str], matching: Matching) -> Iterator[Change]:
    for i, (our_name, their_name) in enumerate(zip_longest(ours, theirs, fillvalue="")):
        yield from _feeder_changes("output", f"{label}[{i}]", our_name, their_name, matching)


# Inputs, outputs and operator sets of the models


def _slots(ours: Sequence[Value], theirs: Sequence[Value]) -> _Slots:
    """Pair inputs, or outputs: by name if the names are the same, else by position if there are as many."""
    names, counterparts = {value.name for value in ours}, {value.name: value for value in theirs}
    if names != counterparts.keys() and len(ours) == len(theirs):
        return list(zip(ours, theirs, strict=True))
    by_name: _Slots = [(value, counterparts.get(value.name)) for value in ours]
    return by_name + [(None, value) for value in theirs if value.name not in names]


def _type_changes(kind: str, pairs: _Slots) -> Iterator[Change]:
    """Compare the types and shapes of inputs, or outputs."""
    for ours, theirs in pairs:
        before, after = (value.type if value else None for value in (ours, theirs))
        if before != after:
            name = theirs.name if theirs else ours.name if ours else ""
            yield Change(kind, name, before, after)


def _opset_changes(first: onnx.ModelProto, second: onnx.ModelProto) -> Iterator[Change]:
    """Compare the operator sets that two models import."""
    our_opsets, their_opsets = (
        {opset.domain or "ai.onnx": str(opset.version) for opset in model.opset_import}
        for model in (first, second)
    )
    for domain in sorted(our_opsets.keys() | their_opsets.keys()):
        if our_opsets.get(domain) != their_opsets.get(domain):
            yield Change("opset", domain, our_opsets.get(domain), their_opsets.get(domain))


# Nodes and their counterparts


def _node_changes(ours: GraphNode, theirs: GraphNode, matching: Matching) -> Iterator[Change]:
    """The differences between a node and its counterpart, without their subgraphs."""
    if ours.op != theirs.op:
        yield Change("operator", "", ours.op, theirs.op)
    yield from _attribute_changes(ours.proto, theirs.proto, matching)
    for i, (our_name, their_name) in enumerate(zip_longest(ours.inputs, theirs.inputs, fillvalue="")):
        yield from _feeder_changes("input", str(i), our_name, their_name, matching)
    if [bool(name) for name in ours.outputs] != [bool(name) for name in theirs.outputs]:
        yield Change("output count", "", str(len(ours.outputs)), str(len(theirs.outputs)))


def _feeder_changes(
    kind: str, slot: str, our_name: str, their_name: str, matching: Matching
) -> Iterator[Change]:
    """Compare the sources of two values, inputs of nodes or outputs of graphs; a name is empty if omitted."""
    before, after = matching.before, matching.after
    if before.token(our_name) == after.token(their_name):
        return
    our_weight, their_weight = before.weights.get(our_name), after.weights.get(their_name)
    if our_weight is not None and their_weight is not None:
        yield _tensor_change("weight", our_name, our_weight, their_weight)
    else:
        yield Change(kind, slot, _feeder(before, our_name), _feeder(after, their_name))


def _feeder(scope: Scope, name: str) -> str | None:
    if not name:
        return None
    if name in scope.weights:
        return Message("weight {name}", name=name)
    if name in scope.makers:
        node, number = scope.makers[name]
        maker = f"{node.op} {node.label}"
        return Message("{maker} output {number}", maker=maker, number=number) if number else maker
    return name


def _attribute_changes(ours: onnx.NodeProto, theirs: onnx.NodeProto, matching: Matching) -> Iterator[Change]:
    our_values = plain_attributes(ours, matching.before.opsets)
    their_values = plain_attributes(theirs, matching.after.opsets)
    before, after = ({attribute.name: attribute for attribute in node.attribute} for node in (ours, theirs))
    for name in sorted(our_values.keys() | their_values.keys()):
        if our_values.get(name) == their_values.get(name):
            continue
        first, second = before.get(name), after.get(name)
        if first is not None and second is not None and first.HasField("t") and second.HasField("t"):
            yield _tensor_change("attribute", name, first.t, second.t)
        else:
            yield Change("attribute", name, _attribute_text(first), _attribute_text(second))


def _tensor_change(kind: str, name: str, ours: onnx.TensorProto, theirs: onnx.TensorProto) -> Change:
    arrays = tensor_array(ours), tensor_array(theirs)
    before, after = (f"{array.dtype}{list(array.shape)}" for array in arrays)
    if before != after:
        return Change(kind, name, before, after)
    if arrays[0].dtype == object:  # strings
        return Change(kind, name)
    return Change(kind, name, max_abs=largest_difference(*arrays))


def _attribute_text(attribute: onnx.AttributeProto | None) -> str | None:
    if attribute is None:
        return None
    if attribute.ref_attr_name:
        return f"@{attribute.ref_attr_name}"
    value = onnx.helper.get_attribute_value(attribute)
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
