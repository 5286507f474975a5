"""A copy of a model with one node for each group, its contents as a graph in an attribute.

That is what Netron already knows how to open and close on a click.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from onnxlab.display.graph_groups import Group, group_tree, preparations, read_by
from onnxlab.display.lean_model import IDENTIFIER, LeanModel
from onnxlab.facts.graph import GraphNode

__all__ = ["GROUP", "GroupedModel", "grouped_model"]

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
    """Make a copy of a lean model with a node for each module; None where the nodes name no modules."""
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
        self.reads = [read_by(node) for node in self.nodes]
        self.readers = Counter(name for reads in self.reads for name in reads)
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
        made = {name: None for p in inside for name in self.nodes[p].output if name}
        reads = Counter(name for p in inside for name in self.reads[p])
        inputs = [
            name
            for name in reads
            if name not in made and name not in self.weights and name not in self.makers
        ]
        outputs = [n for n in made if n in self.results or self.readers[n] > reads[n]]
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
