"""What a graph contains: operators, values and their shapes, who feeds which input, what differs.

The parts live in `loading`, `nodes`, `values` and `graph_diff`; this module is their common face.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx

from onnxlab.errors import UnknownValue
from onnxlab.facts.graph_diff import Change, GraphDiff, NodeChange, diff
from onnxlab.facts.loading import ModelLike, load
from onnxlab.facts.nodes import GraphNode, function_name, nodes_of, op_types, outline, subgraphs, walk
from onnxlab.facts.values import Dims, Value, declared, initializers

__all__ = [
    "Change",
    "Dims",
    "GraphDiff",
    "GraphNode",
    "GraphSummary",
    "ModelLike",
    "NodeChange",
    "Value",
    "consumers",
    "diff",
    "dims",
    "load",
    "op_types",
    "outline",
    "producer",
    "summary",
    "value",
    "walk",
]


@dataclass(frozen=True)
class GraphSummary:
    """What a model consists of.

    Attributes:
        ir_version: The version of the file format.
        opsets: The operator set of each domain; the ONNX domain is called "ai.onnx".
        inputs: Declared inputs, including initializers that a caller may override.
        outputs: Declared outputs.
        initializers: The weights of the main graph, without their values.
        nodes: The nodes of the main graph.
        functions: Names of the model-local functions.
        producer: The program that wrote the file, with its version.
    """

    ir_version: int
    opsets: Mapping[str, int]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    initializers: tuple[Value, ...]
    nodes: tuple[GraphNode, ...]
    functions: tuple[str, ...]
    producer: str


def summary(model: ModelLike) -> GraphSummary:
    """Return the parts of a model as plain data.

    Example:
        >>> from onnxlab.facts.history import recorded_graph
        >>> found = summary(recorded_graph("1.8.1", "model_dynamic_0_dict"))
        >>> [str(value) for value in found.inputs + found.outputs]
        ['in: float32[batch, 3, 10, 10]', 'out: float32[batch, 3, 8, 8]']
        >>> dict(found.opsets), [node.op for node in found.nodes]
        ({'ai.onnx': 9}, ['Conv'])
    """
    proto = load(model)
    return GraphSummary(
        ir_version=proto.ir_version,
        opsets={opset.domain or "ai.onnx": opset.version for opset in proto.opset_import},
        inputs=declared(proto.graph.input),
        outputs=declared(proto.graph.output),
        initializers=initializers(proto.graph),
        nodes=tuple(nodes_of(proto.graph.node)),
        functions=tuple(function_name(function) for function in proto.functions),
        producer=f"{proto.producer_name} {proto.producer_version}".strip(),
    )


def producer(model: ModelLike, name: str) -> GraphNode | None:
    """Return the node that makes a value, or None for an input or initializer.

    Raises:
        UnknownValue: If the graph has no such value.

    Example:
        >>> from onnxlab.facts.history import recorded_graph
        >>> producer(recorded_graph("1.8.1", "model_static"), "out").op
        'Conv'
    """
    proto = load(model)
    for node in walk(proto, functions=False):
        if name and name in node.outputs:
            return node
    _require(proto, name)
    return None


def consumers(model: ModelLike, name: str) -> list[GraphNode]:
    """Return the nodes that read a value, also those inside Loop, If and Scan bodies.

    Raises:
        UnknownValue: If the graph has no such value.

    Example:
        >>> from onnxlab.facts.history import recorded_graph
        >>> [node.op for node in consumers(recorded_graph("1.8.1", "model_static"), "in")]
        ['Conv']
    """
    proto = load(model)
    _require(proto, name)
    return [node for node in walk(proto, functions=False) if name and name in node.inputs]


def value(model: ModelLike, name: str) -> Value:
    """Return what the file says about a value; an unknown type is "?" and an unknown rank None.

    Raises:
        UnknownValue: If the graph has no such value.

    Example:
        >>> from onnxlab.facts.history import recorded_graph
        >>> str(value(recorded_graph("1.8.1", "model_static"), "conv.weight"))
        'conv.weight: float32[3, 3, 3, 3]'
    """
    proto = load(model)
    for graph in _graphs(proto.graph):
        known = declared([*graph.input, *graph.output, *graph.value_info]) + initializers(graph)
        for found in known:
            if found.name == name:
                return found
    _require(proto, name)
    return Value(name, "?", None)


def dims(model: ModelLike, name: str) -> Dims | None:
    """Return the shape the file gives for a value, or None where it gives none.

    Raises:
        UnknownValue: If the graph has no such value.

    Example:
        >>> from onnxlab.facts.history import recorded_graph
        >>> dims(recorded_graph("1.8.1", "model_dynamic_0_dict"), "in")
        ('batch', 3, 10, 10)
    """
    return value(model, name).dims


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for _, inner in subgraphs(node):
            yield from _graphs(inner)


def _require(proto: onnx.ModelProto, name: str) -> None:
    known: set[str] = set()
    for graph in _graphs(proto.graph):
        known |= {info.name for info in graph.input} | {tensor.name for tensor in initializers(graph)}
        known |= {output for node in graph.node for output in node.output if output}
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        msg = f"The graph has no value named {name!r}."
        raise UnknownValue(msg, f"It has {', '.join(near or sorted(known)[:5])}.")
