"""One model of a view: its nodes, its groups if it is large, and its picture."""

from collections import Counter
from dataclasses import dataclass, field, replace

from onnx import GraphProto, ModelProto

from onnxlab.errors import ModelNotReadable
from onnxlab.language import joined, tr
from onnxlab.message import Message
from onnxlab.model.graph import GraphNode, declared
from onnxlab.notebook.graph.groups import GroupedModel, grouped_model
from onnxlab.notebook.graph.lean_model import LeanModel, ModelSource, lean_model
from onnxlab.notebook.graph.marks import Highlight, Marks, group_marks, highlight_marks, names_of
from onnxlab.notebook.graph.static_picture import Picture, PictureFailed, draw_picture
from onnxlab.plain_text import aligned

# Above so many nodes, a model is first seen as its modules, where it says what they are.
_GROUPS_FROM = 100
# Larger graphs have no still picture: it would be neither readable nor small. frame.js has this number, too.
_PICTURE_NODES = 60
# Of a larger graph, at least and at most so many nodes are seen until all of it is drawn.
_BEGINNING = 20, 40
# Up to so many nodes, inner ones included, a graph has its text beside it.
_WORDS_NODES = 12
_NAME = 28  # characters of a name in words
# Larger graphs would keep the browser busy for minutes, or exhaust it.
_NODES, _BYTES = 30_000, 100_000_000


@dataclass(frozen=True)
class Pane:
    """One model of a view.

    Attributes:
        name: What to call it.
        nodes: The number of nodes of its main graph.
        flat: The model, every node at its place.
        groups: The model as groups of nodes, where there are any.
        ends: The boxes of inputs and outputs that no node stands for: "input:x", "output:y".
        words: A small model as lines of text, one for each input, node and output; empty for a larger one.
    """

    name: str
    nodes: int
    flat: LeanModel = field(repr=False)
    groups: GroupedModel | None = field(default=None, repr=False)
    ends: tuple[str, ...] = ()
    words: str = field(default="", repr=False)

    def __str__(self) -> str:
        inner = len(self.flat.nodes) - self.nodes
        count = f"{self.nodes:,} node{'' if self.nodes == 1 else 's'}"
        text = tr("{count} and {inner:,} inside them", count=count, inner=inner) if inner else tr(count)
        return joined(", ", [self.name, text], chinese="\uff0c")

    def model(self, *, grouped: bool) -> LeanModel:
        """The model as it is shown."""
        return self.groups.lean if grouped and self.groups else self.flat

    def node(self, path: str) -> GraphNode | None:
        """The node or group with this path."""
        return self.model(grouped=True).nodes.get(path)

    def highlighted(self, highlight: Highlight) -> Marks:
        """Marks of the nodes, inputs and outputs that are named."""
        return highlight_marks(self.flat.nodes, highlight, self.ends)

    def names(self) -> set[str]:
        """All names that can be highlighted."""
        return names_of(self.flat.nodes) | {end.partition(":")[2] for end in self.ends}

    def with_groups(self, marks: Marks) -> Marks:
        """Marks of nodes, and those that groups get from the nodes inside them."""
        return marks | group_marks(self.groups.members, marks) if self.groups else marks

    def picture(self, marks: Marks, *, grouped: bool) -> Picture | None:
        """A still picture, where the graph is small enough for one."""
        model = self.model(grouped=grouped)
        bodies = len(self.flat.nodes) <= _PICTURE_NODES
        top = self.groups.top if grouped and self.groups else self.nodes
        if top > _PICTURE_NODES:
            return None
        return _drawn(model, marks, bodies=bodies)

    def beginning(self, marks: Marks) -> Picture | None:
        """A still picture of the first nodes of a larger graph, to be seen until all of it is drawn."""
        return _drawn(_beginning(self.model(grouped=True)), marks, bodies=False)

    def part(self, marks: Marks) -> Picture | None:
        """A still picture of the nodes around the first marked one, of a larger graph."""
        marked = sorted(int(path) for path in marks if path.isdigit())
        start = max(0, (marked or [0])[0] - _BEGINNING[0])
        return _drawn(_cut(self.flat, start, start + _BEGINNING[1]), marks, bodies=False)


def make_pane(source: ModelSource, groups: bool | None = None) -> Pane:
    """Prepare a model for a view.

    Args:
        source: The model.
        groups: Whether to look for groups; by default in a large model, if they are far fewer than nodes.

    Raises:
        ModelNotReadable: The model is too large to be drawn.
    """
    flat = lean_model(source.model, source.folder)
    nodes = len(source.model.graph.node)
    look_for_groups = nodes > _GROUPS_FROM if groups is None else groups
    grouped = grouped_model(flat) if look_for_groups else None
    if grouped and groups is None and grouped.top > nodes / 2:
        grouped = None
    if (len(flat.nodes) > _NODES and not grouped) or len(flat.data) > _BYTES:
        msg = Message(
            "The graph of {source.name} is too large to be drawn: {count:,} nodes.",
            source=source,
            count=len(flat.nodes),
        )
        why = Message(
            "Up to {nodes:,} nodes and {bytes} MB without the weights can be drawn.",
            nodes=_NODES,
            bytes=_BYTES // 1_000_000,
        )
        raise ModelNotReadable(msg, why, "Look at a part of it: onnx.utils.extract_model() cuts one out.")
    words = "" if grouped or len(flat.nodes) > _WORDS_NODES else _words(source.model.graph, flat)
    return Pane(source.name, nodes, flat, grouped, _ends(source.model.graph), words)


def _drawn(model: LeanModel, marks: Marks, *, bodies: bool) -> Picture | None:
    try:
        return draw_picture(model, marks, bodies=bodies)
    except PictureFailed:
        return None


def _beginning(model: LeanModel) -> LeanModel:
    """The first nodes, up to one through which everything passes: so far it looks like the whole graph."""
    proto = ModelProto.FromString(model.data)
    graph = proto.graph
    readers = Counter(name for node in graph.node for name in node.input)
    unread: set[str] = set()
    count = 0
    for count, node in enumerate(graph.node[: _BEGINNING[1]], 1):
        readers.subtract(node.input)
        unread = {name for name in unread.union(node.output) if readers[name] > 0}
        if count >= _BEGINNING[0] and len(unread) < 2:
            break
    return _cut(model, 0, count)


def _cut(model: LeanModel, start: int, stop: int) -> LeanModel:
    """Some nodes of a model in a row, and the inputs and outputs that they have."""
    proto = ModelProto.FromString(model.data)
    graph = proto.graph
    del graph.node[stop:], graph.node[:start]
    for ends, used in (
        (graph.input, {name for node in graph.node for name in node.input}),
        (graph.output, {name for node in graph.node for name in node.output}),
    ):
        kept = [end for end in ends if end.name in used]
        del ends[:]
        ends.extend(kept)
    return replace(model, data=proto.SerializeToString())


def _ends(graph: GraphProto) -> tuple[str, ...]:
    """The model's inputs, and those of its outputs that no node makes."""
    weights = {tensor.name for tensor in graph.initializer}  # older models list them as inputs, too
    computed = {name for node in graph.node for name in node.output}
    inputs = [f"input:{info.name}" for info in graph.input if info.name and info.name not in weights]
    outputs = [f"output:{info.name}" for info in graph.output if info.name and info.name not in computed]
    return (*inputs, *outputs)


def _words(graph: GraphProto, flat: LeanModel) -> str:
    """The graph as text: what stands beside the picture of a small one."""
    weights = {tensor.name for tensor in graph.initializer}
    lines = [(tr("input"), str(value)) for value in declared(graph.input) if value.name not in weights]
    for node in sorted(flat.nodes.values(), key=_reading_order):
        depth = (node.scope.count("/") + 2) // 2 if node.scope else 0  # "0/body" is one step inside
        reads = ", ".join(_short(name) or "-" for name in node.inputs)  # "-" is an input that is left out
        makes = ", ".join(_short(name) for name in node.outputs if name)
        lines.append(("  " * depth + _short(node.op), f"{reads} -> {makes}".lstrip()))
    lines += [(tr("output"), str(value)) for value in declared(graph.output)]
    return "\n".join(aligned(lines))


def _reading_order(node: GraphNode) -> list[tuple[bool, int, str]]:
    """The sort key of a node in the text: inner nodes follow the node around them, functions come last."""
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in node.path.split("/")]


def _short(name: str) -> str:
    return name if len(name) <= _NAME else name[: _NAME - 3] + "..."
