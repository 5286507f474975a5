"""A model file as the diagnosis reads it: its structure without its weights, and each weight as an array.

A file of a stranger is read, not run: names, sizes and offsets in it are checked before they are used.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import onnx
import onnx.inliner

from onnxlab.errors import ModelNotReadable
from onnxlab.files import open_untrusted
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.model.graph import graphs, tensor_array
from onnxlab.model.load import load_alone, tensors
from onnxlab.plain_text import plain

_MOST_NODES = 200_000
_LARGE = 4096
"""Bytes from which on a weight is left out of the structure, and compared with the others."""


@dataclass(frozen=True)
class StoredTensor:
    """A weight of the file.

    Attributes:
        name: Its name.
        dtype: NumPy's name of its element type, or ONNX's where NumPy has none.
        dims: Its shape.
        size: Its bytes.
        array: Its content; None where it cannot be read.
        problem: Why it cannot be read.
        operator: The operator whose attribute it is; "" for a weight of the graph.
    """

    name: str
    dtype: str
    dims: tuple[int, ...]
    size: int
    array: Array | None = field(repr=False, compare=False)
    problem: str = ""
    operator: str = ""

    @property
    def label(self) -> str:
        """Name, type and shape."""
        return f"{plain(self.name, 60)} {self.dtype}{list(self.dims)}"

    def values_not_finite(self) -> set[str]:
        """Return which of NaN, inf and -inf it holds."""
        if self.array is None or "float" not in self.dtype:
            return set()
        array = self.array if self.array.dtype.kind == "f" else self.array.astype(np.float32)
        if np.isfinite(array).all():
            return set()
        held = {"NaN": np.isnan(array), "inf": np.isposinf(array), "-inf": np.isneginf(array)}
        return {name for name, where in held.items() if where.any()}


@dataclass(frozen=True)
class ModelFile:
    """A model file.

    Attributes:
        path: The file.
        size: Its bytes, without files of external data.
        model: Its structure: weights of more than some kilobytes are emptied.
        flat: The same with the bodies of its functions in place of their calls.
        tensors: Its weights of at least that size, and all that cannot be read or are not finite.
    """

    path: Path
    size: int
    model: onnx.ModelProto = field(repr=False)
    flat: onnx.ModelProto = field(repr=False)
    tensors: tuple[StoredTensor, ...] = field(repr=False)

    def graphs(self) -> Iterator[onnx.GraphProto]:
        """Visit the main graph and every subgraph, with the bodies of functions where they are called."""
        return graphs(self.flat.graph)

    @cached_property
    def nodes(self) -> list[onnx.NodeProto]:
        """The nodes of these graphs."""
        return [node for graph in self.graphs() for node in graph.node]


def read_model_file(path: Path) -> ModelFile:
    """Read a file.

    Raises:
        ModelNotReadable: If there is no such file, or it is not an ONNX model.
    """
    model = load_alone(path)
    size, folder = path.stat().st_size, path.absolute().parent.resolve()
    stored: list[StoredTensor] = []
    for tensor, node in tensors(model.graph):
        weight = _stored(tensor, folder, node)
        large = weight.size >= _LARGE or bool(weight.problem)
        if large or weight.values_not_finite():
            stored.append(weight)
            if large and tensor.data_location != onnx.TensorProto.EXTERNAL:
                _empty(tensor)
    stored += [weight for weight in _unnamed(model, folder) if weight.values_not_finite()]
    return ModelFile(path, size, model, _inlined(model), tuple(stored))


def _unnamed(model: onnx.ModelProto, folder: Path) -> Iterator[StoredTensor]:
    """Read the weights that are no tensor of the main graph: sparse, in a function, or numbers of a node."""
    owners = [*graphs(model.graph), *(onnx.GraphProto(node=function.node) for function in model.functions)]
    for number, graph in enumerate(owners):
        yield from (_stored(sparse.values, folder) for sparse in graph.sparse_initializer)
        if number >= len(owners) - len(model.functions):
            yield from (_stored(tensor, folder, node) for tensor, node in tensors(graph))
        for node in (node for node in graph.node if node.op_type == "Constant"):
            for attribute in node.attribute:
                if numbers := [attribute.f] if attribute.name == "value_float" else [*attribute.floats]:
                    array = np.array(numbers, np.float32)
                    yield StoredTensor(node.output[0], "float32", array.shape, array.nbytes, array)


def _inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with the bodies of its functions in place of their calls.

    It is the model itself where that cannot be done: a stranger's functions may call themselves, or each
    other so often that no memory holds the result.
    """
    calls = {
        (function.domain, function.name, function.overload): Counter(
            (node.domain, node.op_type, node.overload)
            for graph in graphs(onnx.GraphProto(node=function.node))
            for node in graph.node
        )
        for function in model.functions
    }
    if not calls:
        return model
    try:
        sizes: dict[tuple[str, str, str], int] = {}
        for name in TopologicalSorter(calls).static_order():
            inner = calls.get(name, Counter())
            sizes[name] = sum(count * sizes.get(called, 1) for called, count in inner.items()) or 1
        all_nodes = (node for graph in graphs(model.graph) for node in graph.node)
        if sum(sizes.get((node.domain, node.op_type, node.overload), 1) for node in all_nodes) > _MOST_NODES:
            return model
        return onnx.inliner.inline_local_functions(model)
    except Exception:  # a circle of calls, or a function that onnx refuses
        return model


def _stored(tensor: onnx.TensorProto, folder: Path, node: onnx.NodeProto | None = None) -> StoredTensor:
    dims = tuple(tensor.dims)
    # A Constant's tensor has no name of its own.
    name = tensor.name or ("" if node is None else next(iter(node.output), ""))
    try:
        kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
        dtype, size = kind.name, int(np.prod(dims, dtype=object)) * kind.itemsize
    except Exception:  # a type of a newer format, or one without a kind in NumPy
        return StoredTensor(name, f"type {tensor.data_type}", dims, 0, None)
    array, problem = None, ""
    try:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            array = _external(tensor, folder, kind, size)
        else:
            array = tensor_array(tensor) if size >= _LARGE or "float" in dtype else None
    except (ModelNotReadable, OSError, ValueError) as error:
        # The checker reports a small one.
        if size >= _LARGE or tensor.data_location == onnx.TensorProto.EXTERNAL:
            problem = plain(str(getattr(error, "strerror", None) or error).splitlines()[0], 200)
    return StoredTensor(name, dtype, dims, size, array, problem, "" if node is None else node.op_type)


def _external(
    tensor: onnx.TensorProto, folder: Path, kind: "np.dtype[np.generic]", size: int
) -> Array | None:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    shown = plain(location, 80)
    path = (folder / location).resolve()
    if not location or not path.is_relative_to(folder) or path == folder:
        raise ModelNotReadable("its file {shown!r} lies outside the model's folder", shown=shown)
    if not (offset := entries.get("offset", "0")).isdecimal():
        raise ModelNotReadable("its offset {offset!r} is no whole number", offset=plain(offset, 40))
    offset = int(offset)
    try:
        with open_untrusted(path) as file:
            there = file.seek(0, 2)
            if offset < 0 or offset + size > there:
                raise ModelNotReadable(
                    "its file {shown!r} has {there:,} bytes, and {offset:,} are needed",
                    shown=shown,
                    there=there,
                    offset=offset + size,
                )
            # Mapped, not read: a file larger than the memory can be compared piece by piece.
            return np.memmap(file, kind, "r", offset, tuple(tensor.dims)) if size else None
    except FileNotFoundError:
        raise ModelNotReadable("its file {shown!r} is missing", shown=shown) from None


def _empty(tensor: onnx.TensorProto) -> None:
    """Point a tensor to a file that nobody reads, so that its type and shape stay."""
    for name in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
        tensor.ClearField(name)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights")


def twins(tensors: tuple[StoredTensor, ...]) -> list[tuple[StoredTensor, StoredTensor, str]]:
    """Return the pairs of weights with one content: "equal", or "transposed" for matrices."""
    groups: dict[tuple[str, int], list[StoredTensor]] = defaultdict(list)
    for tensor in tensors:
        if tensor.array is not None:
            groups[tensor.dtype, tensor.size].append(tensor)
    pairs: list[tuple[StoredTensor, StoredTensor, str]] = []
    for group in (group for group in groups.values() if len(group) > 1):
        first: dict[tuple[bytes, tuple[int, ...]], StoredTensor] = {}
        for tensor in group:
            array = tensor.array
            assert array is not None
            key = (_digest(array), tensor.dims)
            turned = (_digest(array.T), tensor.dims[::-1]) if array.ndim == 2 else key
            if key in first:
                pairs.append((first[key], tensor, Message("equal")))
            elif turned in first:
                pairs.append((first[turned], tensor, Message("transposed")))
            else:
                first[key] = tensor
    return pairs


def _digest(array: Array) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).digest()


def repeated_axes(array: Array) -> tuple[int, ...]:
    """Return the axes along which an array repeats one slice.

    Example:
        >>> repeated_axes(np.tile(np.arange(3), (4, 1)))
        (0,)
    """
    return tuple(axis for axis, length in enumerate(array.shape) if length > 1 and _repeats(array, axis))


def _repeats(array: Array, axis: int) -> bool:
    first = array.take([0], axis)
    last = array.take([-1], axis)  # nearly always enough to say no, without a pass over all of it
    return bool(np.array_equal(first, last) and (array == first).all())
