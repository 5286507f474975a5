"""A model's graph as one image tag, for pages that are not notebooks."""

import base64
from collections.abc import Sequence
from html import escape

from onnxlab.display.graph_html import operators
from onnxlab.display.graph_pane import make_pane
from onnxlab.display.model_source import read_structure

__all__ = ["graph_image"]


def graph_image(model: bytes, highlight: Sequence[str] = ()) -> str:
    """Draw a model as a still picture in which nothing can run or load anything.

    Args:
        model: The model.
        highlight: Operators or names to highlight.

    Returns:
        An `<img>` tag; a line of text where the graph is too large for a picture.

    Raises:
        ModelNotReadable: If it is no model that can be drawn.
    """
    pane = make_pane(read_structure(model))
    marks = pane.with_groups(pane.highlighted(list(highlight) or None))
    picture = pane.picture(marks, grouped=True)
    told = escape(operators(pane.flat))
    if picture is None:
        return f"<p>{told}</p>"
    data = base64.b64encode(picture.svg.encode()).decode()
    return f'<img alt="{told}" width="{picture.width}" src="data:image/svg+xml;base64,{data}">'
