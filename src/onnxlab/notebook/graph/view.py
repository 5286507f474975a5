"""`graph()`: a model as a living Netron graph in the notebook, and as a picture in the saved file."""

from collections.abc import Sequence
from dataclasses import replace

from onnxlab.errors import OnnxLabError
from onnxlab.model.load import ModelLike
from onnxlab.notebook.graph.compare import compare
from onnxlab.notebook.graph.html import message_html
from onnxlab.notebook.graph.marks import Highlight, Values
from onnxlab.notebook.graph.model_source import read_structure
from onnxlab.notebook.graph.pane import make_pane
from onnxlab.notebook.graph.widget import GraphView
from onnxlab.notebook.language import said

__all__ = ["GraphMessage", "graph"]


class GraphMessage:
    """What is shown in a graph's place where there is no graph to show."""

    selected = None

    def __init__(self, error: OnnxLabError) -> None:
        self._text = said(str(error))

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
        sources = [read_structure(one) for one in ([model] if other is None else [model, other])]
        named = zip(sources, names, strict=False)
        sources = [replace(source, name=name) for source, name in named] + sources[len(names) :]
        sources = [replace(source, name=said(source.name)) for source in sources]
        panes = [make_pane(source, groups) for source in sources]
        comparison = None if other is None else compare(model, other)
        return GraphView(
            panes,
            highlight=highlight,
            values=values,
            height=height,
            comparison=comparison,
            notes=[said(note) for source in sources for note in source.notes],
        )
    except OnnxLabError as error:
        return GraphMessage(error)
