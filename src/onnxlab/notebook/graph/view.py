"""`graph()`: a model as a live Netron graph in the notebook, and as a picture in the saved file.

The view answers the requests of the notebook's page (page/widget.js), and sends it what changes.
"""

import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import anywidget
import traitlets

from onnxlab.errors import OnnxLabError
from onnxlab.language import GRAPH_NAMES, script_words, tr
from onnxlab.model.graph import GraphNode
from onnxlab.model.load import ModelLike
from onnxlab.notebook.graph import netron_files
from onnxlab.notebook.graph.lean_model import LeanModel, read_structure
from onnxlab.notebook.graph.marks import (
    Comparison,
    Highlight,
    Marks,
    Values,
    compare,
    merge_marks,
    names_of,
    unknown_names,
    value_marks,
)
from onnxlab.notebook.graph.pane import Pane, make_pane
from onnxlab.notebook.graph.saved_form import message_html, note_html, pictures_html, saved_structure
from onnxlab.notebook.outputs import display_saved_and_live, hiding_script

_LOWEST, _HIGHEST = 160, 480  # pixels
_LARGEST_SENT = 1 << 20  # bytes, before compression; a larger model is sent when the page asks for it


class _Assigned(traitlets.Any):  # type: ignore[misc]  # traitlets' classes are untyped
    """Notifies at every assignment: what is assigned may be the list that was there, changed in place."""

    def set(self, obj: traitlets.HasTraits, value: object) -> None:
        obj._trait_values[self.name] = object()  # equal to nothing
        super().set(obj, value)


class GraphView(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget ships no types
    """One graph, or two side by side, in a cell's output.

    Attributes:
        highlight: The operators and names that are highlighted, with their colours if a mapping; may be set.
        values: What is written into the nodes; may be set at any time.
    """

    highlight: Any = _Assigned()
    values: Any = _Assigned()

    _esm = hiding_script(netron_files.own_file("widget.js"))
    _pictures = traitlets.List().tag(sync=True)
    _sent = traitlets.List().tag(sync=True)
    _kit = traitlets.Unicode().tag(sync=True)
    _height = traitlets.Int(_HIGHEST).tag(sync=True)
    _groups = traitlets.List().tag(sync=True)
    _pairs = traitlets.Dict().tag(sync=True)
    _titles = traitlets.List().tag(sync=True)
    _notes = traitlets.List().tag(sync=True)
    _words = traitlets.Unicode().tag(sync=True)
    _translations = traitlets.Dict().tag(sync=True)
    _marks = traitlets.List().tag(sync=True)
    _selected = traitlets.List().tag(sync=True)
    _to_select = traitlets.List().tag(sync=True)

    def __init__(
        self,
        panes: Sequence[Pane],
        *,
        highlight: Highlight,
        values: Values,
        height: int | None,
        comparison: Comparison | None,
        notes: Sequence[str],
    ) -> None:
        self._panes = list(panes)
        self._own_notes = [*notes, *([comparison.text] if comparison else [])]
        self._difference: Sequence[Marks] = comparison.marks if comparison else [{}]
        self.highlight, self.values = highlight, values
        all_marks = self._all_marks()
        pictures = [pane.picture(own, grouped=True) for pane, own in zip(self._panes, all_marks, strict=True)]
        self._saved_pictures = [picture for picture in pictures if picture]
        first = [
            picture or pane.beginning(own)
            for picture, pane, own in zip(pictures, self._panes, all_marks, strict=True)
        ]
        if height is None:
            highest = max((picture.height + 40 for picture in self._saved_pictures), default=_HIGHEST)
            height = max(_LOWEST, min(_HIGHEST, highest))
        super().__init__(
            _kit=netron_files.bundle().key,
            _sent=[_sent(pane) for pane in self._panes],
            _pictures=[picture.address if picture else "" for picture in first],
            _height=height,
            _titles=_titles(self._panes),
            _pairs=comparison.pairs if comparison else {},
            _notes=self._all_notes(),
            _words=self._panes[0].words if len(self._panes) == 1 else "",
            _translations=script_words(),
            _marks=all_marks,
            _groups=[pane.groups.top if pane.groups else 0 for pane in self._panes],
        )
        self.on_msg(self._answer)

    @property
    def selected(self) -> GraphNode | None:
        """The node that was clicked last; of two graphs side by side, in the one where it was clicked."""
        match self._selected:
            case [int(pane), str(path)] if 0 <= pane < len(self._panes):
                return self._panes[pane].node(path)
        return None

    @traitlets.observe("highlight", "values")  # type: ignore[untyped-decorator]  # as traitlets has it
    def _mark_again(self, _change: object) -> None:
        self._marks, self._notes = self._all_marks(), self._all_notes()

    def select(self, name: str) -> GraphNode:
        """Select a node on the page and scroll to it.

        Args:
            name: The node's name, one of its outputs, its path or its operator; the first such node is taken.

        Raises:
            OnnxLabError: There is no such node.
        """
        for number, pane in enumerate(self._panes):
            for path, node in pane.model(grouped=True).nodes.items():
                if name in (path, node.name, *node.outputs, node.op):
                    self._selected = [number, path]
                    self._to_select = [number, path, len(self._to_select) and self._to_select[2] + 1]
                    return node
        raise OnnxLabError(unknown_names(names_of(self._panes[0].flat.nodes), [name])[0])

    def __repr__(self) -> str:
        return f"Graph({' | '.join(map(str, self._panes))})"

    def _ipython_display_(self) -> None:
        """Two outputs: the picture, which stays in the file, and the live graph, which hides the picture."""
        text = "\n".join([repr(self), *self._notes])
        structure = saved_structure(self._panes, self._marks, self._pairs, self._height)
        display_saved_and_live(self._saved(self._words), text, self, structure)

    def _repr_html_(self) -> str:
        """The picture without words beside it, for whatever shows a graph inside of something else."""
        return self._saved("")

    def _saved(self, words: str) -> str:
        pictures = self._saved_pictures
        if len(pictures) == len(self._panes):
            return pictures_html(repr(self), self._titles, self._panes, pictures, self._notes, words)
        return note_html(repr(self), self._panes, self._notes)

    def _all_marks(self) -> list[Marks]:
        return [
            pane.with_groups(
                merge_marks(
                    difference, value_marks(pane.flat.nodes, self.values), pane.highlighted(self.highlight)
                )
            )
            for pane, difference in zip(self._panes, self._difference, strict=True)
        ]

    def _all_notes(self) -> list[str]:
        names = {name for pane in self._panes for name in pane.names()}
        node_names = {name for pane in self._panes for name in names_of(pane.flat.nodes)}
        highlighted = [self.highlight] if isinstance(self.highlight, str) else list(self.highlight or ())
        unknown = [*unknown_names(names, highlighted), *unknown_names(node_names, self.values or ())]
        return [*unknown, *self._own_notes]

    def _answer(self, _widget: object, message: Mapping[str, Any], _buffers: object) -> None:
        """Answer a request of the page: for Netron's files, a model or a weight."""
        answer: dict[str, Any] = {"request": message.get("request")}
        contents: dict[str, Callable[[Pane], list[bytes]]] = {
            "kit": lambda _: [netron_files.bundle().data],
            "model": lambda pane: _model_buffers(pane.model(grouped=bool(message.get("grouped")))),
            "weight": lambda pane: [pane.flat.weight(str(message.get("location"))).read()],
        }
        buffers: list[bytes] = []
        try:
            pane, content = self._panes[message.get("pane", 0)], contents[message["kind"]]
        except (KeyError, IndexError, TypeError) as error:
            self.send({**answer, "error": f"The page asked for something unknown: {error!r}"})
            return
        try:
            answer |= _about(pane)
            buffers = content(pane)
        except OnnxLabError as error:
            answer["error"] = tr(str(error))
        except Exception as error:
            # The page must not wait for ever; the traceback is for the kernel's log.
            self.send(
                {**answer, "error": tr("This graph met a fault of ONNX Lab itself: {error!r}", error=error)}
            )
            raise
        self.send(answer, buffers)


class GraphMessage:
    """The message in place of a graph that cannot be shown."""

    selected = None

    def __init__(self, error: OnnxLabError) -> None:
        self._text = tr(str(error))

    def __repr__(self) -> str:
        return self._text

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": message_html(self._text), "text/plain": self._text}


def graph(
    model: ModelLike,
    other: ModelLike | None = None,
    *,
    highlight: Highlight = None,
    values: Values = None,
    groups: bool | None = None,
    height: int | None = None,
    names: Sequence[str] = (),
) -> GraphView | GraphMessage:
    """Show a model's graph, or two models' graphs side by side with what differs between them.

    Args:
        model: A path, a model's bytes, an onnx.ModelProto, a torch.onnx.ONNXProgram or an Export.
        other: A second model. Red is what only the first has, green what only the second has, orange what
            both have but not alike; the same is said as text below. A click selects the counterpart, too.
        highlight: Operators, or names of nodes, values, inputs or outputs, to highlight; as a mapping, with a
            colour for each.
        values: A number, shape or text for names of nodes or values, written into the nodes; numbers are
            coloured by their size, and the first node whose number jumps has a red border.
        groups: Whether the nodes are first seen as groups, one for each module of the network, that open on
            a click; by default in models of more than a hundred nodes.
        height: Height in pixels; by default as high as the graph, within limits.
        names: What to call the models; by default their files' names.

    Returns:
        An object that a notebook shows as a live graph; a message where the model cannot be read.
    """
    try:
        sources = [read_structure(source) for source in ([model] if other is None else [model, other])]
        named = zip(sources, names, strict=False)
        sources = [replace(source, name=name) for source, name in named] + sources[len(names) :]
        sources = [replace(source, name=tr(source.name, GRAPH_NAMES)) for source in sources]
        panes = [make_pane(source, groups) for source in sources]
        comparison = None if other is None else compare(model, other)
        return GraphView(
            panes,
            highlight=highlight,
            values=values,
            height=height,
            comparison=comparison,
            notes=[tr(note) for source in sources for note in source.notes],
        )
    except OnnxLabError as error:
        return GraphMessage(error)


def _titles(panes: Sequence[Pane]) -> list[str]:
    """The titles above the graphs, if there are two."""
    names = [pane.name for pane in panes]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, 1)]
    return names if len(names) > 1 else []


def _about(pane: Pane) -> dict[str, Any]:
    return {"name": PurePath(pane.name).stem, "origin": pane.flat.origin, "size": len(pane.flat.nodes)}


def _sent(pane: Pane) -> dict[str, Any] | None:
    """A small model, which the page has at once: it need not ask, which a busy kernel would answer late."""
    model = pane.model(grouped=True)
    if len(model.data) > _LARGEST_SENT:
        return None
    return {**_about(pane), "buffers": _model_buffers(model)}


def _model_buffers(model: LeanModel) -> list[bytes]:
    operators = netron_files.operator_table(model.operators).encode()
    return [gzip.compress(data, 1, mtime=0) for data in (model.data, operators)]
