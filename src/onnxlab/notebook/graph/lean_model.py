"""A model without its weights, which is what the page gets; each weight is read when somebody opens it.

Drawing a graph needs names, shapes and attributes, not weights. The lean copy of a model keeps small tensors,
points every big one at a numbered placeholder, and gives every node an identifier under which the page and
Python speak of it. A 3 GB model becomes a few hundred bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # protobuf has no types
from google.protobuf.message import Message as Proto
from onnx import FunctionProto, GraphProto, ModelProto, TensorProto

from onnxlab.errors import ModelNotReadable
from onnxlab.files import open_untrusted
from onnxlab.message import Message
from onnxlab.model.graph import GraphNode, function_name, nodes_of, subgraphs, tensor_array
from onnxlab.model.load import ModelLike, load, path_of, require_text

# The metadata entry that carries a node's identifier through Netron's reader.
IDENTIFIER = "onnxlab.id"
# Tensors up to this many bytes travel with the model, so that constants are shown as numbers.
_INLINE = 256
# What a click on a weight fetches at most.
_LARGEST_WEIGHT = 4 << 20

_Body: TypeAlias = GraphProto | FunctionProto


@dataclass(frozen=True)
class ModelSource:
    """A model and where it came from.

    Attributes:
        model: The model; weights that it keeps in another file stay there.
        name: What to call it.
        folder: Where its file lies, if it is a file.
        notes: Problems that do not keep the graph from being drawn.
    """

    model: ModelProto
    name: str = "model"
    folder: Path | None = None
    notes: tuple[str, ...] = ()


def read_structure(model: ModelLike) -> ModelSource:
    """Read a model as far as drawing needs it.

    Raises:
        ModelNotReadable: There is no model, or it is of an unknown kind.
    """
    path = path_of(model) if isinstance(model, str | PathLike) else None
    proto = _parsed(path, model)
    if proto is None:
        proto, path = load(model), None  # knows every other form, and says best what is wrong
    else:
        require_text(proto, path.name if path else "The model")
    graph = proto.graph
    if not (graph.node or graph.input or graph.output):
        raise ModelNotReadable("There is nothing to draw: the model's graph has no nodes, inputs or outputs.")
    if path is None:
        return ModelSource(proto)
    return ModelSource(proto, path.name, path.parent, _missing_files(proto, path.parent))


def _parsed(path: Path | None, model: ModelLike) -> ModelProto | None:
    """The model without its external weights; None where it is no plain ONNX file, bytes or ModelProto."""
    if isinstance(model, ModelProto):
        return model
    try:
        data = path.read_bytes() if path else model
        proto = ModelProto.FromString(data) if isinstance(data, bytes) else None
    except (OSError, ValueError, DecodeError):
        return None
    return proto if proto is not None and proto.HasField("graph") else None


def _missing_files(model: ModelProto, folder: Path) -> tuple[str, ...]:
    """A note for each weights file that the main graph needs and that is not there."""
    locations = {
        entry.value
        for tensor in model.graph.initializer
        if tensor.data_location == TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    notes = []
    for location in sorted(locations):
        try:
            _inside_folder(folder, location).stat()
        except ModelNotReadable as error:
            notes.append(str(error))
        except (OSError, ValueError):
            notes.append(
                Message(
                    "The weights file {path!r} is missing; the graph is complete without it.\n"
                    "Keep the .onnx file and its weights file together in one folder.",
                    path=location[:80],
                )
            )
    return tuple(notes[:3])


@dataclass(frozen=True)
class Weight:
    """Where to read one tensor that the lean copy leaves out: in the model itself, or in a file beside it."""

    tensor: TensorProto = field(repr=False)
    folder: Path | None = None

    def read(self) -> bytes:
        """The tensor's bytes, little-endian, as ONNX stores them.

        Raises:
            ModelNotReadable: The file is missing, too short, too large, or outside the model's folder.
        """
        if self.tensor.data_location != TensorProto.EXTERNAL:
            return _within_limit(self.tensor.raw_data or tensor_array(self.tensor).tobytes())
        entries = {entry.key: entry.value for entry in self.tensor.external_data}
        path = _inside_folder(self.folder, entries.get("location", ""))
        try:
            offset, length = int(entries.get("offset") or 0), int(entries.get("length") or -1)
            with open_untrusted(path) as file:  # a pipe would wait for a writer
                size = file.seek(0, 2)
                length = size - offset if length < 0 else length
                if offset < 0 or offset + length > size:
                    raise ModelNotReadable(
                        "The weights file {path.name} has {size} bytes, fewer than the model says.",
                        path=path,
                        size=size,
                    )
                file.seek(offset)
                return _within_limit(file.read(min(length, _LARGEST_WEIGHT + 1)))
        except ValueError as error:
            raise ModelNotReadable("The model gives a place of a weight that is not a number.") from error
        except OSError as error:
            raise ModelNotReadable(
                "The weights file {path.name} cannot be read: {error.strerror}.", path=path, error=error
            ) from error


@dataclass(frozen=True)
class LeanModel:
    """A model's graph, ready to be drawn.

    Attributes:
        data: The serialised lean copy.
        nodes: Every node by its path, which is its identifier; those of inner graphs and functions included.
        weights: What the placeholders in `data` stand for; placeholder "weight-3" is the fourth.
        operators: Domain and operator of every node.
        origin: The file format and the producer, in Netron's words.
    """

    data: bytes = field(repr=False)
    nodes: dict[str, GraphNode] = field(repr=False)
    weights: tuple[Weight, ...] = field(repr=False)
    operators: frozenset[tuple[str, str]]
    origin: dict[str, str] = field(default_factory=dict)

    def weight(self, placeholder: str) -> Weight:
        """The weight that a placeholder stands for.

        Raises:
            ModelNotReadable: There is no such placeholder.
        """
        number = placeholder.removeprefix("weight-")
        if not (number.isascii() and number.isdigit() and int(number) < len(self.weights)):
            raise ModelNotReadable("The model has no weight {placeholder!r}.", placeholder=placeholder[:80])
        return self.weights[int(number)]


def lean_model(model: ModelProto, folder: Path | None = None) -> LeanModel:
    """Make the lean copy of a model; the model itself stays as it is.

    External data that is not loaded lies in the folder; without one, no file is ever read.
    """
    copy = ModelProto()
    _copy_fields(model, copy, but="graph")
    _copy_fields(model.graph, copy.graph, but="initializer")
    copy.graph.initializer.extend(TensorProto() for _ in model.graph.initializer)
    # Netron guesses a file's format from its content and takes some ONNX models for something else. A model
    # that begins like this is always taken for ONNX; what it really says goes along in `origin`.
    copy.ir_version, copy.producer_name, copy.producer_version = 10, "", ""
    weights: list[Weight] = []
    nodes: dict[str, GraphNode] = {}
    for source, target, own in _bodies(model, copy):
        if isinstance(source, GraphProto) and isinstance(target, GraphProto):
            for a, b in zip(source.initializer, target.initializer, strict=True):
                _slim(a, b, weights, folder)
        for node, twin in zip(own, target.node, strict=True):
            nodes[node.path] = node
            twin.metadata_props.add(key=IDENTIFIER, value=node.path)
            for left, right in zip(node.proto.attribute, twin.attribute, strict=True):
                tensors = (
                    [(left.t, right.t)]
                    if left.HasField("t")
                    else zip(left.tensors, right.tensors, strict=True)
                )
                for a, b in tensors:
                    _slim(a, b, weights, folder)
    operators = frozenset((node.proto.domain, node.proto.op_type) for node in nodes.values())
    origin = {
        "format": f"ONNX v{model.ir_version}",
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
    }
    return LeanModel(copy.SerializeToString(deterministic=True), nodes, tuple(weights), operators, origin)


def _bodies(model: ModelProto, copy: ModelProto) -> Iterator[tuple[_Body, _Body, list[GraphNode]]]:
    """Every graph and function of a model beside its copy, with its nodes."""
    todo: list[tuple[str, _Body, _Body]] = [("", model.graph, copy.graph)]
    todo += [(function_name(f), f, g) for f, g in zip(model.functions, copy.functions, strict=True)]
    while todo:
        scope, source, target = todo.pop(0)
        own = nodes_of(source.node, scope)
        yield source, target, own
        for node, twin in zip(own, target.node, strict=True):
            inner = zip(subgraphs(node.proto), subgraphs(twin), strict=True)
            todo += [(f"{node.path}/{label}", graph, other) for (label, graph), (_, other) in inner]


def _copy_fields(source: Proto, target: Proto, *, but: str) -> None:
    """Copy all fields of a message except one, which may be too large to copy."""
    for descriptor, value in source.ListFields():
        if descriptor.name == but:
            continue
        if hasattr(value, "MergeFrom"):
            getattr(target, descriptor.name).MergeFrom(value)
        else:
            setattr(target, descriptor.name, value)


def _slim(source: TensorProto, target: TensorProto, weights: list[Weight], folder: Path | None) -> None:
    """Fill a tensor's lean copy: whole where it is small, a placeholder otherwise."""
    external = source.data_location == TensorProto.EXTERNAL
    if not external and (source.ByteSize() <= _INLINE or source.data_type == TensorProto.STRING):
        target.CopyFrom(source)
        return
    target.Clear()
    target.name, target.data_type, target.doc_string = source.name, source.data_type, source.doc_string
    target.dims.extend(source.dims)
    target.data_location = TensorProto.EXTERNAL
    target.external_data.add(key="location", value=f"weight-{len(weights)}")
    weights.append(Weight(source, folder))


def _within_limit(data: bytes) -> bytes:
    if len(data) > _LARGEST_WEIGHT:
        raise ModelNotReadable(
            "The weight is larger than {largest_weight} MB, too large to show.",
            largest_weight=_LARGEST_WEIGHT >> 20,
        )
    return data


def _inside_folder(folder: Path | None, location: str) -> Path:
    """The path of a weights file, which has to be in the model's folder and not only reached from there."""
    if folder is None:
        raise ModelNotReadable(
            "The model was given without its file, so its external weights cannot be found.",
            then="Pass the path of the model.",
        )
    root = folder.resolve()
    try:
        path = (root / location).resolve()
    except (OSError, ValueError):  # ValueError: a null character
        path = root
    if not location or root not in path.parents:
        raise ModelNotReadable(
            "The model points outside its own folder for weights: {location!r}. Nothing was read.",
            location=location[:80],
        )
    return path
