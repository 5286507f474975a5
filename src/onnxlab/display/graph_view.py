"""`graph()`: a model as a living Netron graph in the notebook, and as a picture in the saved file."""

from onnxlab.display.graph_html import message_html
from onnxlab.display.graph_marks import Highlight, Values
from onnxlab.display.graph_widget import GraphView, Pane
from onnxlab.display.lean_model import lean_model
from onnxlab.display.model_source import read_structure
from onnxlab.errors import OnnxLabError
from onnxlab.facts.graph import ModelLike

__all__ = ["GraphMessage", "graph"]


class GraphMessage:
    """What is shown in a graph's place where there is no graph to show."""

    selected = None

    def __init__(self, error: OnnxLabError) -> None:
        self._text = str(error)

    def __repr__(self) -> str:
        return self._text

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": message_html(self._text), "text/plain": self._text}


def graph(
    model: ModelLike,
    *,
    highlight: Highlight = None,
    values: Values = None,
    height: int | None = None,
) -> GraphView | GraphMessage:
    """Show a model's graph.

    Args:
        model: A path, a model's bytes, an onnx.ModelProto, a torch.onnx.ONNXProgram or an Export.
        highlight: Operators, or names of nodes or values, to highlight; as a mapping, with a colour for each.
        values: A number, shape or text for names of nodes or values, written into the nodes; numbers are
            coloured by their size, and the first node whose number jumps has a red border.
        height: Height in pixels; by default as high as the graph, within limits.

    Returns:
        An object that a notebook shows as a live graph; a message where the model cannot be read.
    """
    try:
        source = read_structure(model)
        lean = lean_model(source.model, source.folder)
        pane = Pane(source.name, lean, len(source.model.graph.node), {})
        return GraphView([pane], highlight=highlight, values=values, height=height, notes=source.notes)
    except OnnxLabError as error:
        return GraphMessage(error)
