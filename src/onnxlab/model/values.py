"""What a graph says about its values: names, element types, shapes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import onnx

from onnxlab.errors import ModelNotReadable
from onnxlab.model.distance import Array
from onnxlab.plain_text import plain

__all__ = ["Dims", "Value", "declared", "initializers", "tensor_array"]

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


def tensor_array(tensor: onnx.TensorProto) -> Array:
    """Return what a tensor holds.

    Raises:
        ModelNotReadable: Its content does not fit its type and shape: the file is damaged.

    Example:
        >>> tensor_array(onnx.TensorProto(name="w", data_type=1, dims=[2], raw_data=b"abc"))
        Traceback (most recent call last):
        ...
        onnxlab.errors.ModelNotReadable: The tensor 'w' cannot be read: its content is no float32[2].
        buffer size must be a multiple of element size
        Export the model again, or fetch the complete file.
    """
    try:
        found: Array = onnx.numpy_helper.to_array(tensor)
    except Exception as error:  # ONNX and NumPy raise many kinds here
        kind = plain(Value("", _dtype(tensor.data_type), tuple(tensor.dims)).type, 80)
        name = plain(tensor.name, 80)
        msg = f"The tensor {name!r} cannot be read: its content is no {kind}."
        then = "Export the model again, or fetch the complete file."
        raise ModelNotReadable(msg, plain(error, 200), then) from error
    return found


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
    if elem_type not in onnx.TensorProto.DataType.values():
        return f"type {elem_type}"  # of a newer format, or a damaged file
    name = str(onnx.TensorProto.DataType.Name(elem_type)).lower()
    return {"float": "float32", "double": "float64", "undefined": "?"}.get(name, name)
