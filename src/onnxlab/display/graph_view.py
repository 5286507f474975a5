"""`graph()`: a model as a living Netron graph in the notebook, and as a picture in the saved file."""

import gzip
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from IPython.display import display

from onnxlab.display import netron_files
from onnxlab.display.graph_html import message_html, note_html, picture_html
from onnxlab.display.lean_model import LeanModel, lean_model
from onnxlab.display.model_source import read_structure
from onnxlab.display.static_picture import Picture, PictureFailed, draw_picture
from onnxlab.errors import OnnxLabError
from onnxlab.facts.graph import GraphNode, ModelLike

__all__ = ["GraphMessage", "GraphView", "graph"]

# Larger graphs have no still picture: it would be neither readable nor small.
_PICTURE_NODES = 60
_LOWEST, _HIGHEST = 160, 480
_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


class GraphView(anywidget.AnyWidget):
    """A model's graph in a cell's output.

    Attributes:
        selected: The node that was clicked last, or None.
    """

    _esm = (resources.files("onnxlab.display") / "graph_widget.js").read_text("utf-8")
    _kit = traitlets.Unicode().tag(sync=True)
    _height = traitlets.Int(_HIGHEST).tag(sync=True)
    _marks = traitlets.List().tag(sync=True)
    _selected = traitlets.List().tag(sync=True)
    _wanted = traitlets.Unicode().tag(sync=True)

    def __init__(self, lean: LeanModel, name: str, nodes: int, height: int | None = None) -> None:
        self._panes = [lean]
        self._name, self._nodes = name, nodes
        self._picture = _picture(lean, {})
        if height is None:
            height = _HIGHEST if self._picture is None else self._picture.height + 60
            height = max(_LOWEST, min(_HIGHEST, height))
        super().__init__(_kit=netron_files.bundle().key, _height=height, _marks=[{}])
        self.on_msg(self._answer)

    @property
    def selected(self) -> GraphNode | None:
        """The node that was clicked last."""
        match self._selected:
            case [int(pane), str(key)] if 0 <= pane < len(self._panes):
                return self._panes[pane].nodes.get(key)
        return None

    def __repr__(self) -> str:
        inner = len(self._panes[0].nodes) - self._nodes
        return f"Graph({self._name}, {_count(self._nodes)}{f' and {inner} inside them' if inner else ''})"

    def _ipython_display_(self) -> None:
        """Two outputs: the picture, which stays in the file, and the live graph, which hides it while it is there."""
        lean, summary = self._panes[0], repr(self)
        html = (
            note_html(summary, lean) if self._picture is None else picture_html(summary, lean, self._picture)
        )
        display({"text/html": html, "text/plain": summary}, raw=True)
        view = {"version_major": 2, "version_minor": 1, "model_id": self.model_id}
        display({_WIDGET_VIEW: view}, raw=True)

    def _answer(self, _widget: object, message: Mapping[str, Any], _buffers: object) -> None:
        """Answer a question of the page: Netron's files, a model, a weight."""
        request = {"request": message.get("request")}
        try:
            kind, pane = message["kind"], self._panes[message.get("pane", 0)]
            buffers = {
                "kit": lambda: [netron_files.bundle().data],
                "model": lambda: [
                    pane.data,
                    gzip.compress(netron_files.operator_table(pane.operators).encode(), 1, mtime=0),
                ],
                "weight": lambda: [pane.weight(message["location"]).read()],
            }[kind]()
            self.send({**request, "name": Path(self._name).stem}, buffers)
        except OnnxLabError as error:
            self.send({**request, "error": str(error)})


class GraphMessage:
    """What is shown in a graph's place where there is no graph to show."""

    selected = None

    def __init__(self, error: OnnxLabError) -> None:
        self._text = str(error)

    def __repr__(self) -> str:
        return self._text

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": message_html(self._text), "text/plain": self._text}


def graph(model: ModelLike, *, height: int | None = None) -> GraphView | GraphMessage:
    """Show a model's graph.

    Args:
        model: A path, a model's bytes, an onnx.ModelProto, a torch.onnx.ONNXProgram or an Export.
        height: Height in pixels; by default as high as the graph, within limits.

    Returns:
        An object that a notebook shows as a live graph; a message where the model cannot be read.
    """
    try:
        source = read_structure(model)
        lean = lean_model(source.model, source.folder)
        return GraphView(lean, source.name, len(source.model.graph.node), height)
    except OnnxLabError as error:
        return GraphMessage(error)


def _picture(lean: LeanModel, marks: Mapping[str, Mapping[str, Any]]) -> Picture | None:
    if len(lean.nodes) > _PICTURE_NODES:
        return None
    try:
        return draw_picture(lean, marks)
    except PictureFailed:
        return None


def _count(nodes: int) -> str:
    return f"{nodes:,} node{'' if nodes == 1 else 's'}"
