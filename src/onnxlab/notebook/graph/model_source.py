"""The structure of a model, from every form in which it can be given, without reading weights beside it."""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # protobuf has no types
from onnx import ModelProto, TensorProto

from onnxlab.errors import ModelNotReadable
from onnxlab.model.load import ModelLike, load, path_of, require_text
from onnxlab.notebook.graph.lean_model import inside_folder

__all__ = ["ModelSource", "read_structure"]


@dataclass(frozen=True)
class ModelSource:
    """A model and where it came from.

    Attributes:
        model: The model; weights that it keeps in another file stay there.
        name: What to call it.
        folder: Where its file lies, if it is a file.
        notes: What is amiss, although the graph can be drawn.
    """

    model: ModelProto
    name: str = "model"
    folder: Path | None = None
    notes: tuple[str, ...] = ()


def read_structure(model: ModelLike) -> ModelSource:
    """Read a model as far as drawing needs it.

    Raises:
        ModelNotReadable: There is no model, or not of a kind that is known.
    """
    path = path_of(model) if isinstance(model, str | PathLike) else None
    proto = _parsed(path, model)
    if proto is None:
        proto, path = load(model), None  # knows every other form, and says best what is wrong
    else:
        require_text(proto, path.name if path else "The model")
    graph = proto.graph
    if not (graph.node or graph.input or graph.output):
        msg = "There is nothing to draw: the model's graph has no nodes, inputs or outputs."
        raise ModelNotReadable(msg)
    if path is None:
        return ModelSource(proto)
    return ModelSource(proto, path.name, path.parent, _missing_files(proto, path.parent))


def _parsed(path: Path | None, model: ModelLike) -> ModelProto | None:
    """The model without its external weights, where it can be had without more ado."""
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
            inside_folder(folder, location).stat()
        except ModelNotReadable as error:
            notes.append(str(error))
        except (OSError, ValueError):
            notes.append(
                f"The weights file {location[:80]!r} is missing; the graph is complete without it.\n"
                "Keep the .onnx file and its weights file together in one folder."
            )
    return tuple(notes[:3])
