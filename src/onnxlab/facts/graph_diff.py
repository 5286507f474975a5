"""What differs between two models in structure and numbers; not what things are called."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from onnxlab.facts.graph_changes import Change, NodeChange, feeder_changes
from onnxlab.facts.graph_comparison import Findings, numbered, outermost
from onnxlab.facts.graph_interface import Slots, opset_changes, slots, type_changes
from onnxlab.facts.graph_matching import Matching
from onnxlab.facts.loading import ModelLike, load
from onnxlab.facts.nodes import GraphNode
from onnxlab.facts.values import declared

__all__ = ["Change", "GraphDiff", "NodeChange", "diff"]

_LINES = 20  # of the text; a long list helps nobody


@dataclass(frozen=True)
class GraphDiff:
    """How two models differ. It is false when they do not, whatever their nodes and values are called.

    A removed or added node stands for all that is in its subgraphs.

    Attributes:
        removed: Nodes of the first model without a counterpart.
        added: Nodes of the second model without a counterpart.
        changed: Nodes with a counterpart that is not the same.
        same: Pairs of paths of nodes that are the same.
        inputs: Changes of the declared inputs.
        outputs: Changes of the declared outputs, and of what feeds them.
        opsets: Changes of the imported operator sets.
        functions: Model-local functions that only one model has, or whose outputs are fed by something else.
        renamed: Inputs and outputs that have another name.
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
        lines = lines or ["No difference."]
        if self.renamed:
            lines.append("renamed: " + ", ".join(f"{old} -> {new}" for old, new in self.renamed))
        if len(lines) > _LINES:
            lines[_LINES:] = [f"... and {len(lines) - _LINES} more"]
        return "\n".join(lines)


def _runs(sign: str, nodes: Sequence[GraphNode]) -> list[str]:
    """One line a node, or one for four and more of one operator in a row."""
    lines: list[str] = []
    for _, run in groupby(nodes, key=lambda node: (node.op, node.scope)):
        alike = list(run)
        if len(alike) > 3:
            lines.append(f"{sign} {len(alike)} x {alike[0].op}: {alike[0].label} ... {alike[-1].label}")
        else:
            lines += [f"{sign} {node}" for node in alike]
    return lines


def diff(a: ModelLike, b: ModelLike) -> GraphDiff:
    """Say how two models differ.

    Args:
        a: The first model.
        b: The second.

    Returns:
        The difference; false, and "No difference." as text, where there is none.

    Example:
        >>> from onnxlab.facts.history import recorded_graph
        >>> static = recorded_graph("1.8.1", "model_static")
        >>> print(diff(static, recorded_graph("1.8.1", "model_dynamic_0_dict")))
        input in float32[1, 3, 10, 10] -> float32[batch, 3, 10, 10]
        output out float32[1, 3, 8, 8] -> float32[batch, 3, 8, 8]
        >>> diff(static, static).before
        {'0': 'same'}
    """
    first, second = load(a), load(b)
    inputs = slots(declared(first.graph.input), declared(second.graph.input))
    outputs = slots(declared(first.graph.output), declared(second.graph.output))
    found = Findings()
    matching = found.compare(
        outermost(first).inner(first.graph, "", numbered("input", (ours for ours, _ in inputs))),
        outermost(second).inner(second.graph, "", numbered("input", (theirs for _, theirs in inputs))),
    )
    return GraphDiff(
        functions=tuple(found.compare_functions(first, second)),
        removed=tuple(found.removed),
        added=tuple(found.added),
        changed=tuple(found.changed),
        same=tuple(found.same),
        inputs=tuple(type_changes("input", inputs)),
        outputs=(*type_changes("output", outputs), *_rewired(outputs, matching)),
        opsets=tuple(opset_changes(first, second)),
        renamed=tuple((a.name, b.name) for a, b in inputs + outputs if a and b and a.name != b.name),
    )


def _rewired(outputs: Slots, matching: Matching) -> Iterator[Change]:
    for ours, theirs in outputs:
        if ours and theirs:
            yield from feeder_changes("output", theirs.name, ours.name, theirs.name, matching)
