"""What answers of several labs share: edits of ONNX graphs, and values of symbolic functions."""

import torch
from onnx import numpy_helper


def weights(graph):
    """Return the initializers of a graph as arrays, by name."""
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}


def replace_nodes(graph, nodes):
    """Give a graph other nodes."""
    nodes = list(nodes)
    del graph.node[:]
    graph.node.extend(nodes)


def drop_attribute(node, name):
    """Remove an attribute of a node, if it has it."""
    attributes = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend(attributes)


def constant(g, value, dtype=None):
    """Write a Constant: of int64 for a whole number, of float32 for another, or of the type that is given."""
    return g.op("Constant", value_t=torch.tensor(value, dtype=dtype))
