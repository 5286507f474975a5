"""Exporters write the paths of source files into a model; a model to be shared should not carry them."""

from collections.abc import Iterable

import onnx

from onnxlab.facts.nodes import subgraphs

__all__ = ["strip_origins"]


def strip_origins(model: onnx.ModelProto) -> None:
    """Remove, in place, what says where the model's source stood: metadata and the stacks of nodes.

    Example:
        >>> node = onnx.helper.make_node("Relu", ["x"], ["y"])
        >>> node.metadata_props.add(key="pkg.torch.onnx.stack_trace", value="File ...").key
        'pkg.torch.onnx.stack_trace'
        >>> model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], []))
        >>> strip_origins(model)
        >>> len(model.graph.node[0].metadata_props)
        0
    """
    del model.metadata_props[:]
    _strip_graph(model.graph)
    for function in model.functions:
        del function.metadata_props[:]
        _strip_values(function.value_info)
        _strip_nodes(function.node)


def _strip_graph(graph: onnx.GraphProto) -> None:
    del graph.metadata_props[:]
    for values in (graph.input, graph.output, graph.value_info, graph.initializer):
        _strip_values(values)
    _strip_nodes(graph.node)


def _strip_nodes(nodes: Iterable[onnx.NodeProto]) -> None:
    for node in nodes:
        del node.metadata_props[:]
        node.doc_string = ""  # with verbose=True the TorchScript exporter writes the stack here
        for _, graph in subgraphs(node):
            _strip_graph(graph)


def _strip_values(values: Iterable[onnx.ValueInfoProto | onnx.TensorProto]) -> None:
    for value in values:
        del value.metadata_props[:]
