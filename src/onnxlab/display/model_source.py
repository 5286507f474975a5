"""The structure of a model, from every form in which it can be given, without reading weights beside it."""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from google.protobuf.message import DecodeError
from onnx import ModelProto

from onnxlab.facts.graph import ModelLike, load

__all__ = ["ModelSource", "read_structure"]


@dataclass(frozen=True)
class ModelSource:
    """A model and where it came from.

    Attributes:
        model: The model; weights that it keeps in another file stay there.
        name: What to call it.
        folder: Where its file lies, if it is a file.
    """

    model: ModelProto
    name: str = "model"
    folder: Path | None = None


def read_structure(model: ModelLike) -> ModelSource:
    """Read a model as far as drawing needs it.

    Raises:
        ModelNotReadable: There is no model, or not of a kind that is known.
    """
    if isinstance(model, ModelProto):
        return ModelSource(model)
    path = Path(model) if isinstance(model, str | PathLike) else None
    try:
        data = path.read_bytes() if path else model
        proto = ModelProto.FromString(data) if isinstance(data, bytes) else None
    except (OSError, ValueError, DecodeError):
        proto = None
    if proto is not None and proto.HasField("graph"):
        return ModelSource(proto, path.name, path.parent) if path else ModelSource(proto)
    # The common loader knows every other form, and says best what is wrong.
    return ModelSource(load(model))
