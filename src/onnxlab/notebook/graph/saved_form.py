"""What a graph leaves in the saved notebook: pictures as HTML, and its structure as data.

A code host shows the pictures; the web site makes a live graph of the structure. In the HTML, every word that
comes from a model is escaped.
"""

import base64
import math
from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any

from google.protobuf.message import Message as Proto  # type: ignore[import-untyped]  # protobuf has no types
from onnx import ModelProto, TensorProto

from onnxlab.language import tr
from onnxlab.notebook.graph.lean_model import IDENTIFIER, LeanModel, read_structure
from onnxlab.notebook.graph.marks import Marks
from onnxlab.notebook.graph.pane import Pane, make_pane
from onnxlab.notebook.graph.static_picture import Picture

# While the live graph of the next output is there, the picture is not; where a notebook is opened without a
# kernel, the next output has nothing but an error to show and is not there, either. JupyterLab and Notebook 7
# share these class names. On a dark page the picture's light colours are inverted.
_STYLE = (
    "<style>\n"
    ".jp-OutputArea-child:has(.onnxlab-still)"
    ":has(+ .jp-OutputArea-child iframe.onnxlab-graph[data-status=ready]) {display: none}\n"
    ".jp-OutputArea-child:has(.onnxlab-still)"
    " + .jp-OutputArea-child > .jupyter-widgets:not(:has(*)) {display: none}\n"
    "[data-jp-theme-light=false] .onnxlab-still img {filter: invert(0.86) hue-rotate(180deg)}\n"
    "</style>"
)
_BESIDE = (
    "margin: 0; align-self: center; min-width: 0; white-space: pre-wrap; line-height: 1.5; "
    "font-family: monospace"
)
_BOX = "border-left: 4px solid {}; padding: 6px 12px; white-space: pre-wrap"
STRUCTURE = "application/vnd.onnxlab.graph+json"
"""The MIME type; a front end that does not know it shows the HTML of the same output."""

_LARGEST = 200_000  # characters: a graph that takes more is alive in a running notebook only
# Up to so many floating-point numbers are shown. More are weights, of which another processor may compute
# the last digit differently: a saved notebook would then not be what a run of it shows.
_NUMBERS = 4
_OPERATORS = 12  # that are named; the others are counted
_CONTENT = ("raw_data", "float_data", "double_data", "int32_data")
_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
# A higher picture is shrunk to this height, but not below this part of its size, where its words stop being
# readable; what then does not fit is counted below it.
_HEIGHT, _SMALLEST = 800, 0.6


def pictures_html(
    summary: str,
    titles: Sequence[str],
    panes: Sequence[Pane],
    pictures: Sequence[Picture],
    notes: Sequence[str],
    words: str = "",
) -> str:
    """Pictures as images, so that nothing in them can run or load anything.

    Each has a title if there are several; the only one may have the model in words beside it. The notes stand
    below.
    """
    captions = [f"<figcaption>{escape(title)}</figcaption>" for title in titles] or [""] * len(panes)
    figures = "".join(
        f'<figure style="margin: 0">{caption}{_image(pane, picture)}</figure>'
        for caption, pane, picture in zip(captions, panes, pictures, strict=True)
    )
    beside = f'<pre style="{_BESIDE}">{escape(words)}</pre>' if words else ""
    box = f"display: flex; gap: 16px; max-height: {_HEIGHT + 8}px; overflow: auto"
    hidden = [line for pane, picture in zip(panes, pictures, strict=True) if (line := _hidden(pane, picture))]
    return _still(f' title="{escape(summary)}"', box, figures + beside, notes, hidden)


def note_html(summary: str, panes: Sequence[Pane], notes: Sequence[str]) -> str:
    """What stands in the file in place of a picture of a large graph."""
    large = tr("There is no still picture of a graph this large; run the cell to see it.")
    lines = [summary, *(operators(pane.flat) for pane in panes), large]
    content = "".join(f'<p style="margin: 0">{escape(line)}</p>' for line in lines)
    return _still("", _BOX.format("#888"), content, notes)


def message_html(text: str) -> str:
    """A message in a graph's place."""
    return f'<div class="onnxlab-message" style="{_BOX.format("#d22")}">{escape(text)}</div>'


def operators(model: LeanModel) -> str:
    """The operators of a model with their numbers, the most frequent first."""
    counts = Counter(node.op for node in model.nodes.values())
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    words = [f"{number} {name[:40]}" for name, number in ranked[:_OPERATORS]]
    rest = len(ranked) - _OPERATORS
    return ", ".join(words) + (tr(" and {rest} more operators", rest=rest) if rest > 0 else "")


def model_image(model: bytes, highlight: Sequence[str] = ()) -> str:
    """Draw a model as one image tag, in which nothing can run, for pages that are not notebooks.

    Where the graph is too large for a picture, it is a line of text.

    Raises:
        ModelNotReadable: If it is no model that can be drawn.
    """
    pane = make_pane(read_structure(model))
    marks = pane.with_groups(pane.highlighted(list(highlight) or None))
    picture = pane.picture(marks, grouped=True)
    return f"<p>{escape(operators(pane.flat))}</p>" if picture is None else _image(pane, picture)


def saved_structure(
    panes: Sequence[Pane], marks: Sequence[Marks], pairs: dict[str, str], height: int
) -> dict[str, Any]:
    """Return the models without weights and the rest of the live graph's state, under `STRUCTURE`.

    It is the same on every run and in every language: texts stand in the HTML of the same output.

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


def _image(pane: Pane, picture: Picture) -> str:
    alt = escape(tr("Graph of {graph}: {operators}", graph=pane.name, operators=operators(pane.flat)))
    width = round(picture.width * _scale(picture))
    return f'<img alt="{alt}" width="{width}" src="{picture.address}">'


def _scale(picture: Picture) -> float:
    return min(1.0, max(_SMALLEST, _HEIGHT / picture.height))


def _hidden(pane: Pane, picture: Picture) -> str:
    """A line below a picture that is cut off: how many nodes are out of sight."""
    below = sum(bottom * _scale(picture) > _HEIGHT for bottom in picture.bottoms)
    if not below:
        return ""
    follow = tr("1 more node follows") if below == 1 else tr("{below} more nodes follow", below=below)
    return tr(
        "{follow} further down in the picture of {graph}: scroll inside it.", follow=follow, graph=pane.name
    )


def _still(
    attributes: str, style: str, content: str, notes: Sequence[str], hidden: Sequence[str] = ()
) -> str:
    """A picture, or what stands in its place, and lines below it; those about the picture have a class."""
    kinds = [*(' class="onnxlab-hidden"' for _ in hidden), *("" for _ in notes)]
    below = "".join(
        f'<pre{kind} style="{_BOX.format("#e8590c")}">{escape(line)}</pre>'
        for kind, line in zip(kinds, [*hidden, *notes], strict=True)
    )
    return f'{_STYLE}<div class="onnxlab-still"{attributes} style="{style}">{content}</div>{below}'


def _encoded(model: LeanModel) -> str:
    structure = ModelProto.FromString(model.data)
    _strip(structure)
    return base64.b64encode(structure.SerializeToString(deterministic=True)).decode()


def _strip(message: Proto) -> None:
    """Drop from a message, at any depth, what is not drawn: notes (source lines of a machine) and weights."""
    for name in {"metadata_props", "doc_string"} & set(message.DESCRIPTOR.fields_by_name):
        identifiers = [entry for entry in getattr(message, name) if getattr(entry, "key", "") == IDENTIFIER]
        message.ClearField(name)
        if identifiers:
            message.metadata_props.extend(identifiers)
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
