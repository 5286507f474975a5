"""A graph's structure in the saved notebook: what a page without a kernel needs to show the graph alive."""

import base64
import math
from collections.abc import Sequence
from typing import Any

from google.protobuf.message import Message  # type: ignore[import-untyped]  # protobuf has no types
from onnx import ModelProto, TensorProto

from onnxlab.notebook.graph.lean_model import IDENTIFIER, LeanModel
from onnxlab.notebook.graph.marks import Marks
from onnxlab.notebook.graph.pane import Pane

__all__ = ["STRUCTURE", "saved_structure"]

STRUCTURE = "application/vnd.onnxlab.graph+json"
"""The MIME type; a front end that does not know it shows the HTML of the same output."""

_LARGEST = 200_000  # characters: a graph that takes more is alive in a running notebook only
# Up to so many floating-point numbers are shown. More are weights, of which another processor may compute
# the last digit differently: a saved notebook would then not be what a run of it shows.
_NUMBERS = 4
_CONTENT = ("raw_data", "float_data", "double_data", "int32_data")
_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)


def saved_structure(
    panes: Sequence[Pane], marks: Sequence[Marks], pairs: dict[str, str], height: int
) -> dict[str, Any]:
    """Return the models without weights and all that the page is told of them, under `STRUCTURE`.

    The same on every run and in every language: texts stand in the HTML of the same output.

    Args:
        panes: The models, one or two.
        marks: What is drawn onto each.
        pairs: Of two models, the nodes that are counterparts, by their paths.
        height: Height of the frame in pixels.

    Returns:
        One entry for an output's data; none where the models are too large to be kept in a notebook.
    """
    saved: list[dict[str, Any]] = [
        {
            "nodes": len(pane.flat.nodes),
            "groups": pane.groups.top if pane.groups else 0,
            "format": pane.flat.origin["format"],
            "operators": sorted(map(list, pane.flat.operators)),
            "models": [
                _encoded(pane.model(grouped=grouped)) for grouped in [False, *([True] if pane.groups else [])]
            ],
            "marks": {path: {k: v for k, v in mark.items() if k != "size"} for path, mark in own.items()},
        }
        for pane, own in zip(panes, marks, strict=True)
    ]
    if sum(len(model) for pane in saved for model in pane["models"]) > _LARGEST:
        return {}
    return {STRUCTURE: {"height": height, "panes": saved, "pairs": pairs}}


def _encoded(model: LeanModel) -> str:
    structure = ModelProto.FromString(model.data)
    _strip(structure)
    return base64.b64encode(structure.SerializeToString(deterministic=True)).decode()


def _strip(message: Message) -> None:
    """Drop, in a message and all inside it, what is not drawn: notes (source lines of a machine), weights."""
    for name in {"metadata_props", "doc_string"} & set(message.DESCRIPTOR.fields_by_name):
        kept = [entry for entry in getattr(message, name) if getattr(entry, "key", "") == IDENTIFIER]
        message.ClearField(name)
        if kept:
            message.metadata_props.extend(kept)
    if isinstance(message, TensorProto) and _is_weight(message):
        for name in _CONTENT:
            message.ClearField(name)
        message.data_location = TensorProto.EXTERNAL
        message.external_data.add(key="location", value="weight")
    for field, content in message.ListFields():
        if field.message_type is not None:
            for part in content if field.is_repeated else [content]:
                _strip(part)


def _is_weight(tensor: TensorProto) -> bool:
    count = math.prod(tensor.dims)
    return tensor.data_type in _FLOATS and not tensor.external_data and count > _NUMBERS
