"""Tokens that identify values by how they are computed, so that graphs with other names can be compared."""

import hashlib
from collections import ChainMap
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TypeAlias, TypeVar

import numpy as np
import onnx

from onnxlab.model.graph import GraphNode, nodes_of, tensor_array

T = TypeVar("T")
Token: TypeAlias = Hashable
"""Identifies a value: two values with equal tokens are the same value."""

Body: TypeAlias = onnx.GraphProto | onnx.FunctionProto

_LARGEST_OPSET = 2**31 - 1  # of a schema lookup in ONNX; a file may have a larger number

_CONSTANTS = {
    ("value_int", onnx.AttributeProto.INT): onnx.TensorProto.INT64,
    ("value_ints", onnx.AttributeProto.INTS): onnx.TensorProto.INT64,
    ("value_float", onnx.AttributeProto.FLOAT): onnx.TensorProto.FLOAT,
    ("value_floats", onnx.AttributeProto.FLOATS): onnx.TensorProto.FLOAT,
}
"""The element type of each short attribute of a Constant node."""


@dataclass(frozen=True)
class Scope:
    """The nodes of one graph or function body, and the values that exist before the first of them runs.

    Attributes:
        nodes: Its own nodes, without those of subgraphs.
        tokens: The tokens of inputs, weights, and values of the enclosing graphs, by name.
        weights: The tensors of this graph and of the enclosing ones, by name.
        opsets: The operator set of each domain; it decides the defaults of attributes that a node omits.
    """

    nodes: Sequence[GraphNode]
    tokens: Mapping[str, Token]
    weights: Mapping[str, onnx.TensorProto] = field(default_factory=dict)
    opsets: Mapping[str, int] = field(default_factory=dict)

    def token(self, name: str) -> Token:
        """Return a value's token; None for an omitted input or output."""
        return self.tokens.get(name, ("unknown", name)) if name else None

    @cached_property
    def makers(self) -> Mapping[str, tuple[GraphNode, int]]:
        """The node that makes each value, and as which of its outputs."""
        return {
            name: (node, number)
            for node in reversed(self.nodes)
            for number, name in reversed(list(enumerate(node.outputs)))
        }

    def inner(self, body: Body, path: str, inputs: Mapping[str, Token]) -> "Scope":
        """Return the scope of a body at a path inside this one, given the tokens of its inputs."""
        # Layered, not copied: in a graph of a thousand Ifs, two thousand bodies see all its values.
        tokens, weights = layered(self.tokens), layered(self.weights)
        tokens.update(inputs)
        if isinstance(body, onnx.GraphProto):
            for tensor in body.initializer:
                tokens[tensor.name], weights[tensor.name] = tensor_token(tensor), tensor
            tokens.update({s.values.name: ("sparse", s.SerializeToString()) for s in body.sparse_initializer})
        return Scope(nodes_of(body.node, path), tokens, weights, self.opsets)


def layered(outer: Mapping[str, T]) -> ChainMap[str, T]:
    """Return a mapping that can get new names without changing, or copying, that of the enclosing graphs."""
    return outer.new_child() if isinstance(outer, ChainMap) else ChainMap({}, dict(outer))


def tensor_token(tensor: onnx.TensorProto) -> Token:
    """Return a tensor's token, made of its type, shape and content, not its name.

    Example:
        >>> a, b = (onnx.helper.make_tensor(name, 1, [2], [1.0, 2.0]) for name in "ab")
        >>> tensor_token(a) == tensor_token(b)
        True
    """
    array = tensor_array(tensor)
    # A view, not a copy: a tensor can be larger than the memory that is left.
    content = (
        repr(array.tolist()).encode() if array.dtype == object else array.reshape(-1).view(np.uint8).data
    )
    return "tensor", tensor.data_type, tuple(tensor.dims), hashlib.sha256(content).digest()


def plain_attributes(node: onnx.NodeProto, opsets: Mapping[str, int]) -> dict[str, Token]:
    """Return a node's attributes, except for graphs, in a form that can be compared.

    Attributes with their default value are left out: one exporter writes them, the other does not.

    Example:
        >>> pool = onnx.helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], ceil_mode=0)
        >>> plain_attributes(pool, {"": 18}).keys()
        dict_keys(['kernel_shape'])
    """
    attributes: dict[str, Token] = {}
    defaults = _defaults(node.op_type, opsets.get(node.domain, 0), node.domain)
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.TENSOR:
            attributes[attribute.name] = tensor_token(attribute.t)
        elif attribute.type not in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
            content = _content(attribute)
            if defaults.get(attribute.name) != content:
                attributes[attribute.name] = content
    return attributes


@cache
def _defaults(op_type: str, opset: int, domain: str) -> dict[str, bytes]:
    if not 0 < opset <= _LARGEST_OPSET or not onnx.defs.has(op_type, opset, domain):
        return {}
    attributes = onnx.defs.get_schema(op_type, opset, domain).attributes
    return {name: _content(attribute.default_value) for name, attribute in attributes.items()}


def _content(attribute: onnx.AttributeProto) -> bytes:
    bare = onnx.AttributeProto()
    bare.CopyFrom(attribute)
    bare.ClearField("doc_string")
    content: bytes = bare.SerializeToString(deterministic=True)
    return content


def constant_token(node: GraphNode) -> Token | None:
    """Return the token of a Constant node's tensor, as for an initializer; None for any other node.

    Example:
        >>> [two] = nodes_of([onnx.helper.make_node("Constant", [], ["c"], value_float=2.0)])
        >>> constant_token(two) == tensor_token(onnx.helper.make_tensor("two", 1, [], [2.0]))
        True
    """
    if node.op != "Constant" or len(node.proto.attribute) != 1:
        return None
    attribute = node.proto.attribute[0]
    if attribute.ref_attr_name:  # in a function: each call gives its own value
        return None
    if attribute.name == "value":
        return tensor_token(attribute.t)
    kind = _CONSTANTS.get((attribute.name, attribute.type))
    if kind is None:
        return None
    value = onnx.helper.get_attribute_value(attribute)
    dims = [len(value)] if attribute.name.endswith("s") else []
    return tensor_token(onnx.helper.make_tensor("", kind, dims, value if dims else [value]))
