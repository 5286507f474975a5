"""What a graph says about its values: names, element types, shapes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import onnx

__all__ = ["Dims", "Value", "declared", "initializers"]

Dims: TypeAlias = tuple[int | str | None, ...]
"""A shape: a number, a symbolic name, or None for an axis about which nothing is said."""


@dataclass(frozen=True)
class Value:
    """A value of a graph: an input, an output, an initializer, or one in between.

    Attributes:
        name: Its name.
        dtype: NumPy's name of the element type; for a sequence, optional or map, ONNX's description; "?"
            where the file says nothing.
        dims: Its shape, or None where the rank is not known.
    """

    name: str
    dtype: str
    dims: Dims | None

    @property
    def type(self) -> str:
        """Element type and shape, as in "float32[batch, 3]"."""
        shape = "..." if self.dims is None else ", ".join("?" if d is None else str(d) for d in self.dims)
        return f"{self.dtype}[{shape}]"

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"


def declared(infos: Sequence[onnx.ValueInfoProto]) -> tuple[Value, ...]:
    """Return values as a graph declares them.

    Example:
        >>> info = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 3, None])
        >>> [str(value) for value in declared([info])]
        ['x: float32[batch, 3, ?]']
    """
    return tuple(_declared(info) for info in infos)


def initializers(graph: onnx.GraphProto) -> tuple[Value, ...]:
    """Return a graph's weights, without their content.

    Example:
        >>> weight = onnx.helper.make_tensor("w", onnx.TensorProto.INT64, [2], [1, 2])
        >>> [str(value) for value in initializers(onnx.GraphProto(initializer=[weight]))]
        ['w: int64[2]']
    """
    dense = [(tensor.name, tensor.data_type, tensor.dims) for tensor in graph.initializer]
    sparse = [(t.values.name, t.values.data_type, t.dims) for t in graph.sparse_initializer]
    return tuple(Value(name, _dtype(kind), tuple(dims)) for name, kind, dims in dense + sparse)


def _declared(info: onnx.ValueInfoProto) -> Value:
    kind = info.type.WhichOneof("value")
    if kind is None:
        return Value(info.name, "?", None)
    if kind != "tensor_type":
        return Value(info.name, onnx.helper.printable_type(info.type), None)
    tensor = info.type.tensor_type
    if not tensor.HasField("shape"):
        return Value(info.name, _dtype(tensor.elem_type), None)
    shape = tuple(
        axis.dim_value if axis.HasField("dim_value") else axis.dim_param or None for axis in tensor.shape.dim
    )
    return Value(info.name, _dtype(tensor.elem_type), shape)


def _dtype(elem_type: int) -> str:
    name = str(onnx.TensorProto.DataType.Name(elem_type)).lower()
    return {"float": "float32", "double": "float64", "undefined": "?"}.get(name, name)
