"""What a graph contains: operators, values and their shapes, who feeds which input."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx

from onnxlab.errors import UnknownValue
from onnxlab.model.load import ModelLike, load
from onnxlab.model.nodes import GraphNode, function_name, nodes_of, op_types, outline, reads, subgraphs, walk
from onnxlab.model.values import Dims, Value, declared, initializers

__all__ = [
    "Dims",
    "GraphNode",
    "GraphSummary",
    "ModelLike",
    "Value",
    "dims",
    "edges",
    "load",
    "op_types",
    "outline",
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
        >>> from onnxlab.history import recorded_graph
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


def edges(model: ModelLike) -> tuple[dict[str, GraphNode], dict[str, list[str]]]:
    """Return who makes each value of the main graph, and what each of its nodes reads.

    A node with a Loop, If or Scan body also reads what the body reads from outside.

    Returns:
        The maker of each value, by the value's name; the values read, by the node's path.

    Example:
        >>> from onnxlab.history import recorded_graph
        >>> makers, read = edges(recorded_graph("1.8.1", "silu_9"))
        >>> {name: node.op for name, node in makers.items()}, read
        ({'1': 'Sigmoid', '2': 'Mul'}, {'0': ['input'], '1': ['input', '1']})
    """
    nodes = nodes_of(load(model).graph.node)
    makers = {name: node for node in nodes for name in node.outputs if name}
    return makers, {node.path: reads(node.proto) for node in nodes}


def value(model: ModelLike, name: str) -> Value:
    """Return what the file says about a value; an unknown type is "?" and an unknown rank None.

    Raises:
        UnknownValue: If the graph has no such value.

    Example:
        >>> from onnxlab.history import recorded_graph
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
        >>> from onnxlab.history import recorded_graph
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
