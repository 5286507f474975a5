"""Groups above the nodes of a large model: the modules of the network it was exported from.

Exporters leave behind where a node comes from: torch.export's in the metadata, TorchScript's and others' in
the node's name ("/layers.0/attn/MatMul").
"""

import ast
from dataclasses import dataclass, field

from onnx import GraphProto, NodeProto

__all__ = ["Group", "group_tree", "module_path", "preparations", "read_by"]

_NAME_SCOPES, _CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"
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
    kept = {entry.key: entry.value for entry in node.metadata_props if entry.key in (_NAME_SCOPES, _CLASSES)}
    names, kinds = _strings(kept.get(_NAME_SCOPES)), _strings(kept.get(_CLASSES))
    if names:
        # The first is the model itself, the last the operation inside the innermost module.
        kinds = kinds if len(kinds) == len(names) else [""] * len(names)
        return [
            (name, kind.rpartition(".")[2])
            for name, kind in list(zip(names, kinds, strict=True))[1:-1]
            if name
        ]
    parts = [part for part in node.name.split("/")[:-1] if part]
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
    """The positions of nodes that read nothing but weights: they belong to whoever reads them."""
    known = {tensor.name for tensor in graph.initializer}
    found = set()
    for position, node in enumerate(graph.node):
        if read_by(node) <= known and not node.op_type.startswith(("Random", "Multinomial")):
            found.add(position)
            known.update(node.output)
    results = {info.name for info in graph.output}
    return {position for position in found if results.isdisjoint(graph.node[position].output)}


def _simplify(group: Group) -> None:
    """Replace every group of a single node by that node."""
    for place, member in enumerate(group.members):
        if isinstance(member, Group):
            _simplify(member)
            if len(member.members) == 1:
                group.members[place] = member.members[0]


def read_by(node: NodeProto) -> set[str]:
    """What a node reads, also from within the graphs it carries."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            own = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
            own |= {name for inner in graph.node for name in inner.output}
            names |= {name for inner in graph.node for name in read_by(inner)} - own
    return names
