"""The HTML that a graph leaves in the saved notebook: picture, note or message. Every word of a model is escaped."""

import base64
from collections import Counter
from html import escape

from onnxlab.display.lean_model import LeanModel
from onnxlab.display.static_picture import Picture

__all__ = ["message_html", "note_html", "picture_html"]

# While the live graph of the next output is there, the picture is not; where a notebook is opened without a
# kernel, the next output says "Error displaying widget", which is not, either. JupyterLab and Notebook 7 share
# these class names. On a dark page the picture's light colours are turned round.
_STYLE = """<style>
.jp-OutputArea-child:has(.onnxlab-still):has(+ .jp-OutputArea-child iframe.onnxlab-graph[data-status=ready]) {display: none}
.jp-OutputArea-child:has(.onnxlab-still) + .jp-OutputArea-child:has(.jupyter-widgets:empty) {display: none}
[data-jp-theme-light=false] img.onnxlab-still {filter: invert(0.86) hue-rotate(180deg)}
</style>"""


def picture_html(summary: str, model: LeanModel, picture: Picture) -> str:
    """The picture as an image, so that nothing in it can run or load anything."""
    data = base64.b64encode(picture.svg.encode()).decode()
    alt = escape(f"{summary}: {operators(model)}", quote=True)
    return (
        f'{_STYLE}<div style="max-height: 480px; overflow: auto">'
        f'<img class="onnxlab-still" alt="{alt}" width="{picture.width}" src="data:image/svg+xml;base64,{data}"></div>'
    )


def note_html(summary: str, model: LeanModel) -> str:
    """What stands in the file in place of a picture of a large graph."""
    text = (
        f"{summary}: {operators(model)}. Too large for a still picture; run the cell to see the live graph."
    )
    return f'{_STYLE}<div class="onnxlab-still">{escape(text)}</div>'


def message_html(text: str) -> str:
    """A message in a graph's place."""
    return f'<div class="onnxlab-message" style="border-left: 4px solid #d22; padding: 8px 12px; white-space: pre-wrap">{escape(text)}</div>'


def operators(model: LeanModel, most: int = 12) -> str:
    """The operators of a model with their numbers, the most frequent first."""
    counts = Counter(node.op for node in model.nodes.values())
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    words = [f"{number} {name}" for name, number in ranked[:most]]
    rest = len(ranked) - most
    return ", ".join(words) + (f" and {rest} more operators" if rest > 0 else "")
