"""Groups above the nodes of a large model: the modules of the network it was exported from.

Exporters leave behind where a node comes from: torch.export's in the metadata, TorchScript's and others' in
the node's name ("/layers.0/attn/MatMul"). A copy of the model has one node for each group, its contents as
a graph in an attribute. That is what Netron already knows how to open and close on a click.
"""

import ast
from collections import Counter
from dataclasses import dataclass, field, replace

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # protobuf has no types
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from onnxlab.model.graph import GraphNode, names_read, reads
from onnxlab.notebook.graph.lean_model import IDENTIFIER, LeanModel

_NAME_SCOPES, _CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"
# Modules deeper than this count as part of the one around them: each is three messages deep in the model with
# groups, and protobuf reads a hundred.
_DEEPEST = 16
# A group that holds more than this share of the nodes is dissolved while fewer than this many would be seen.
_DOMINANT, _FEW = 0.6, 12


@dataclass
class Group:
    """A module: its nodes and the modules inside it, in the order in which they first appear.

    Attributes:
        name: The module's full name, such as "layers.0.attn"; empty for the whole model.
        title: Its name inside the module around it: "attn".
        kind: The module's class, where it is known.
        members: Positions of nodes in the main graph, and groups.
    """

    name: str
    title: str = ""
    kind: str = ""
    members: "list[int | Group]" = field(default_factory=list)

    def positions(self) -> list[int]:
        """The positions of all nodes in it, at any depth."""
        nested = [[m] if isinstance(m, int) else m.positions() for m in self.members]
        return [position for positions in nested for position in positions]


def module_path(node: NodeProto) -> list[tuple[str, str]]:
    """Name and class of each module around a node, from the outside in.

    Example:
        >>> module_path(NodeProto(name="/layers.0/attn/MatMul"))
        [('layers.0', ''), ('layers.0/attn', '')]
    """
    properties = {
        entry.key: entry.value for entry in node.metadata_props if entry.key in (_NAME_SCOPES, _CLASSES)
    }
    names, kinds = _strings(properties.get(_NAME_SCOPES)), _strings(properties.get(_CLASSES))
    if names:
        # The first is the model itself, the last the operation inside the innermost module.
        kinds = kinds if len(kinds) == len(names) else [""] * len(names)
        return [
            (name, kind.rpartition(".")[2])
            for name, kind in list(zip(names, kinds, strict=True))[1:-1][:_DEEPEST]
            if name
        ]
    parts = [part for part in node.name.split("/")[:-1] if part][:_DEEPEST]
    return [("/".join(parts[: depth + 1]), "") for depth in range(len(parts))]


def group_tree(graph: GraphProto) -> Group:
    """Sort the nodes of a graph into the modules they come from, but for nodes that only prepare weights."""
    nodes = list(graph.node)
    root = Group("")
    groups: dict[tuple[str, ...], Group] = {(): root}
    prepared = preparations(graph)
    for position in range(len(nodes)):
        if position in prepared:
            continue
        parent = root
        key: tuple[str, ...] = ()
        for name, kind in module_path(nodes[position]):
            key = (*key, name)
            if key not in groups:
                outer = key[-2] if len(key) > 1 else ""
                groups[key] = Group(name, name.removeprefix(outer).lstrip("./") or name, kind)
                parent.members.append(groups[key])
            parent = groups[key]
        parent.members.append(position)
    _simplify(root)
    while len(root.members) < _FEW:
        largest = max(
            (m for m in root.members if isinstance(m, Group)), key=lambda g: len(g.positions()), default=None
        )
        if largest is None or len(largest.positions()) < _DOMINANT * len(nodes):
            break
        place = root.members.index(largest)
        root.members[place : place + 1] = largest.members
    return root


def _strings(text: str | None) -> list[str]:
    """A list of strings as Python writes it."""
    try:
        value = ast.literal_eval(text) if text and len(text) < 10_000 else []
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else []


def preparations(graph: GraphProto) -> set[int]:
    """The positions of nodes that read only weights: they belong to the nodes that read their outputs."""
    constants = {tensor.name for tensor in graph.initializer}
    prepared = set()
    for position, node in enumerate(graph.node):
        if constants.issuperset(reads(node)) and not node.op_type.startswith(("Random", "Multinomial")):
            prepared.add(position)
            constants.update(node.output)
    results = {info.name for info in graph.output}
    return {position for position in prepared if results.isdisjoint(graph.node[position].output)}


def _simplify(group: Group) -> None:
    """Replace every group of a single node by that node."""
    for place, member in enumerate(group.members):
        if isinstance(member, Group):
            _simplify(member)
            if len(member.members) == 1:
                group.members[place] = member.members[0]


# How the path of a group begins in a lean model.
GROUP = "group:"
_DOMAIN = "onnxlab.group"


@dataclass(frozen=True)
class GroupedModel:
    """A lean model whose main graph consists of groups, and of nodes that are in none.

    Attributes:
        lean: The model; its nodes are those of the model without groups, and the groups.
        members: The paths of the nodes in each group, at any depth, by the path of the group.
        top: The number of nodes and groups of the main graph.
    """

    lean: LeanModel = field(repr=False)
    members: dict[str, list[str]] = field(repr=False)
    top: int


def grouped_model(model: LeanModel) -> GroupedModel | None:
    """Make a copy of a lean model with a node for each module.

    None where the nodes name no modules, or with bodies inside modules more deeply than protobuf reads.
    """
    proto = ModelProto.FromString(model.data)
    tree = group_tree(proto.graph)
    if not any(isinstance(member, Group) for member in tree.members):
        return None
    writer = _Writer(proto.graph)
    graph = GraphProto()
    graph.CopyFrom(proto.graph)
    del graph.node[:]
    writer.fill(graph, tree)
    proto.graph.CopyFrom(graph)
    members = {path: [str(p) for p in group.positions()] for path, group in writer.groups.items()}
    entries = {node.path: node for node in writer.entries}
    data = proto.SerializeToString(deterministic=True)
    try:
        ModelProto.FromString(data)
    except DecodeError:
        return None
    lean = replace(model, data=data, nodes={**model.nodes, **entries})
    return GroupedModel(lean, members, len(graph.node))


class _Writer:
    """Writes a tree of groups as graphs within graphs."""

    def __init__(self, graph: GraphProto) -> None:
        self.nodes = list(graph.node)
        self.groups: dict[str, Group] = {}
        self.entries: list[GraphNode] = []
        self.types = {info.name: info for info in [*graph.value_info, *graph.input, *graph.output]}
        self.weights = {tensor.name for tensor in graph.initializer}
        prepared = preparations(graph)
        self.makers = {name: p for p in prepared for name in self.nodes[p].output}
        self.reads = [names_read(node) for node in self.nodes]
        self.readers = Counter(name for names in self.reads for name in names)
        self.results = {info.name for info in graph.output}

    def fill(self, graph: GraphProto, group: Group) -> None:
        """Put a group's members into a graph."""
        direct = [member for member in group.members if isinstance(member, int)]
        for member in [*self._prepared_for(direct), *group.members]:
            if isinstance(member, int):
                graph.node.add().CopyFrom(self.nodes[member])
            else:
                self._add_group(graph.node.add(), member)
        declared = {info.name for info in [*graph.input, *graph.output, *graph.value_info]}
        for name in dict.fromkeys(n for node in graph.node for n in (*node.input, *node.output)):
            if name in self.types and name not in declared:
                graph.value_info.add().CopyFrom(self.types[name])

    def _prepared_for(self, positions: list[int]) -> list[int]:
        """What prepares weights for these nodes, in order; each group that reads it has its own copy."""
        needed: set[int] = set()
        todo = list(positions)
        while todo:
            makers = {self.makers[name] for name in self.reads[todo.pop()] if name in self.makers}
            todo.extend(makers - needed)
            needed |= makers
        return sorted(needed)

    def _add_group(self, node: NodeProto, group: Group) -> None:
        inside = group.positions()
        computed = {name: None for p in inside for name in self.nodes[p].output if name}
        read = Counter(name for p in inside for name in self.reads[p])
        inputs = [
            name
            for name in read
            if name not in computed and name not in self.weights and name not in self.makers
        ]
        outputs = [n for n in computed if n in self.results or self.readers[n] > read[n]]
        path = f"{GROUP}{len(self.groups)}"
        self.groups[path] = group
        node.op_type, node.name, node.domain = _undotted(group.title), group.name, _DOMAIN
        node.input.extend(inputs)
        node.output.extend(outputs)
        node.metadata_props.add(key=IDENTIFIER, value=path)
        self.entries.append(GraphNode(path, group.title, group.name, tuple(inputs), tuple(outputs), node))
        contents = node.attribute.add(name="contents", type=5)  # AttributeProto.GRAPH
        contents.g.name = _undotted(
            f"{group.kind}, {len(inside)} nodes" if group.kind else f"{len(inside)} nodes"
        )
        contents.g.input.extend(self.types.get(name, ValueInfoProto(name=name)) for name in inputs)
        contents.g.output.extend(self.types.get(name, ValueInfoProto(name=name)) for name in outputs)
        self.fill(contents.g, group)


def _undotted(text: str) -> str:
    """Netron shows what follows the last dot of an operator's name; U+2024 looks like one and is none."""
    return text.replace(".", "\u2024")
