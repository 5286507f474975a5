"""Every node of a model: those of the main graph, of Loop, If and Scan bodies, and of local functions."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import onnx

from onnxlab.model.load import ModelLike, load

__all__ = [
    "GraphNode",
    "function_name",
    "nodes_of",
    "op_types",
    "operator",
    "outline",
    "reads",
    "subgraphs",
    "walk",
]


@dataclass(frozen=True)
class GraphNode:
    """A node and where it stands.

    Attributes:
        path: Its place: "3" is the fourth node of the main graph, "3/body/0" the first node of that node's
            `body`, "mylib::gelu/0" the first node of a model-local function.
        op: The operator, with its domain when that is not the ONNX domain: "Conv", "com.microsoft::Gelu".
        name: The node's name; may be empty.
        inputs: Names of the values it reads; an empty string is an omitted optional input.
        outputs: Names of the values it makes.
        proto: The node itself.
    """

    path: str
    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    proto: onnx.NodeProto = field(repr=False, compare=False)

    @property
    def scope(self) -> str:
        """The path of the graph it stands in; empty for the main graph."""
        return self.path.rpartition("/")[0]

    @property
    def label(self) -> str:
        """A short name for messages: the node's name, else its first output."""
        return self.name or next((output for output in self.outputs if output), self.path)

    def __str__(self) -> str:
        return f"{self.op} {self.label}" + (f" in {self.scope}" if self.scope else "")


def operator(node: onnx.NodeProto) -> str:
    """Return the operator's name, with the domain in front when it is a foreign one.

    Example:
        >>> operator(onnx.helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft"))
        'com.microsoft::Gelu'
    """
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"


def function_name(function: onnx.FunctionProto) -> str:
    """Return the name under which nodes call a model-local function, with its overload where it has one.

    Example:
        >>> function_name(onnx.FunctionProto(domain="mylib", name="gelu"))
        'mylib::gelu'
    """
    overload = f":{function.overload}" if function.overload else ""
    return f"{function.domain}::{function.name}{overload}"


def subgraphs(node: onnx.NodeProto) -> list[tuple[str, onnx.GraphProto]]:
    """Return the graphs a node carries in its attributes, each with the attribute's name.

    Example:
        >>> subgraphs(onnx.helper.make_node("Relu", ["x"], ["y"]))
        []
    """
    found: list[tuple[str, onnx.GraphProto]] = []
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            found.append((attribute.name, attribute.g))
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            found += [(f"{attribute.name}[{i}]", graph) for i, graph in enumerate(attribute.graphs)]
    return found


def reads(node: onnx.NodeProto) -> list[str]:
    """Return the values a node reads, also from within the graphs it carries; each once.

    Example:
        >>> reads(onnx.helper.make_node("Clip", ["x", "", "x"], ["y"]))
        ['x']
    """
    names = dict.fromkeys(name for name in node.input if name)
    for _, graph in subgraphs(node):
        own = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
        own |= {name for inner in graph.node for name in inner.output}
        names |= dict.fromkeys(name for inner in graph.node for name in reads(inner) if name not in own)
    return list(names)


def nodes_of(nodes: Iterable[onnx.NodeProto], scope: str = "") -> list[GraphNode]:
    """Return one graph's nodes, in order, without those of its subgraphs.

    Example:
        >>> [node.path for node in nodes_of([onnx.helper.make_node("Relu", ["x"], ["y"])], "3/body")]
        ['3/body/0']
    """
    prefix = f"{scope}/" if scope else ""
    return [
        GraphNode(f"{prefix}{i}", operator(node), node.name, tuple(node.input), tuple(node.output), node)
        for i, node in enumerate(nodes)
    ]


def walk(model: ModelLike, *, functions: bool = True) -> Iterator[GraphNode]:
    """Visit every node of a model: each node before the nodes of its subgraphs, then the local functions.

    Args:
        model: The model.
        functions: Whether to visit the bodies of model-local functions, too.

    Yields:
        The nodes with their paths.

    Example:
        >>> from onnxlab.history import recorded_graph
        >>> [(node.path, node.op) for node in walk(recorded_graph("1.8.1", "if_script"))][-5:]
        [('4', 'If'), ('4/then_branch/0', 'Constant'), ('4/then_branch/1', 'Mul'), \
('4/else_branch/0', 'Constant'), ('4/else_branch/1', 'Sub')]
    """
    proto = load(model)
    yield from _walk(proto.graph.node, "")
    if functions:
        for function in proto.functions:
            yield from _walk(function.node, function_name(function))


def _walk(nodes: Iterable[onnx.NodeProto], scope: str) -> Iterator[GraphNode]:
    for node in nodes_of(nodes, scope):
        yield node
        for label, graph in subgraphs(node.proto):
            yield from _walk(graph.node, f"{node.path}/{label}")


def op_types(model: ModelLike) -> list[str]:
    """Return the operators of the main graph, in order; foreign ones with their domain.

    Example:
        >>> from onnxlab.history import recorded_graph
        >>> op_types(recorded_graph("1.8.1", "model_2_script"))
        ['Constant', 'Constant', 'Loop']
    """
    return [operator(node) for node in load(model).graph.node]


def outline(model: ModelLike) -> list[str]:
    """Return the operators of the main graph with the insides of subgraphs and local functions in braces.

    Example:
        >>> from onnxlab.history import recorded_graph
        >>> outline(recorded_graph("1.8.1", "model_2_script"))
        ['Constant', 'Constant', 'Loop{body: Conv, Cast}']
    """
    proto = load(model)
    functions = {function_name(function): function for function in proto.functions}
    return [_outline(node, functions) for node in proto.graph.node]


def _outline(node: onnx.NodeProto, functions: dict[str, onnx.FunctionProto]) -> str:
    op = operator(node)
    parts = [
        f"{label}: " + ", ".join(_outline(inner, functions) for inner in graph.node)
        for label, graph in subgraphs(node)
    ]
    called = f"{node.domain}::{node.op_type}" + (f":{node.overload}" if node.overload else "")
    if called in functions:
        # A function must not call itself; leaving it out on the way down keeps a broken model from looping.
        others = {name: body for name, body in functions.items() if name != called}
        parts.append("function: " + ", ".join(_outline(inner, others) for inner in functions[called].node))
    return f"{op}{{{'; '.join(parts)}}}" if parts else op
