"""The HTML that a graph leaves in the saved notebook. Every word that comes from a model is escaped."""

import base64
from collections import Counter
from collections.abc import Sequence
from html import escape

from onnxlab.display.graph_pane import Pane
from onnxlab.display.lean_model import LeanModel
from onnxlab.display.static_picture import Picture

__all__ = ["message_html", "note_html", "operators", "pictures_html"]

# While the live graph of the next output is there, the picture is not; where a notebook is opened without a
# kernel, the next output has nothing but an error to show and is not there, either. JupyterLab and Notebook 7
# share these class names. On a dark page the picture's light colours are turned round.
_STYLE = (
    "<style>\n"
    ".jp-OutputArea-child:has(.onnxlab-still)"
    ":has(+ .jp-OutputArea-child iframe.onnxlab-graph[data-status=ready]) {display: none}\n"
    ".jp-OutputArea-child:has(.onnxlab-still)"
    " + .jp-OutputArea-child > .jupyter-widgets:not(:has(*)) {display: none}\n"
    "[data-jp-theme-light=false] .onnxlab-still img {filter: invert(0.86) hue-rotate(180deg)}\n"
    "</style>"
)
_BOX = "border-left: 4px solid {}; padding: 6px 12px; white-space: pre-wrap"


def pictures_html(
    summary: str,
    titles: Sequence[str],
    panes: Sequence[Pane],
    pictures: Sequence[Picture],
    notes: Sequence[str] = (),
) -> str:
    """Pictures as images, so that nothing in them can run or load anything.

    Args:
        summary: One line about all of them.
        titles: What to write above each picture, if anything.
        panes: The models.
        pictures: The picture of each.
        notes: What else there is to say.
    """
    figures = "".join(
        f'<figure style="margin: 0">{_caption(title)}{_image(pane, picture)}</figure>'
        for title, pane, picture in zip(titles or [""] * len(panes), panes, pictures, strict=True)
    )
    box = "display: flex; gap: 16px; max-height: 800px; overflow: auto"
    return _still(f' title="{escape(summary)}"', box, figures, notes)


def note_html(summary: str, panes: Sequence[Pane], notes: Sequence[str] = ()) -> str:
    """What stands in the file in place of a picture of a large graph."""
    counts = "; ".join(operators(pane.flat) for pane in panes)
    text = f"{summary}: {counts}. There is no still picture of a graph this large; run the cell to see it."
    return _still("", _BOX.format("#888"), escape(text), notes)


def message_html(text: str) -> str:
    """A message in a graph's place."""
    return f'<div class="onnxlab-message" style="{_BOX.format("#d22")}">{escape(text)}</div>'


def operators(model: LeanModel, most: int = 12) -> str:
    """The operators of a model with their numbers, the most frequent first."""
    counts = Counter(node.op for node in model.nodes.values())
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    words = [f"{number} {name[:40]}" for name, number in ranked[:most]]
    rest = len(ranked) - most
    return ", ".join(words) + (f" and {rest} more operators" if rest > 0 else "")


def _image(pane: Pane, picture: Picture) -> str:
    data = base64.b64encode(picture.svg.encode()).decode()
    alt = escape(f"Graph of {pane.name}: {operators(pane.flat)}")
    return f'<img alt="{alt}" width="{picture.width}" src="data:image/svg+xml;base64,{data}">'


def _caption(title: str) -> str:
    return f"<figcaption>{escape(title)}</figcaption>" if title else ""


def _still(attributes: str, style: str, content: str, notes: Sequence[str]) -> str:
    box = f'<div class="onnxlab-still"{attributes} style="{style}">{content}</div>'
    return (
        _STYLE
        + box
        + "".join(f'<pre style="{_BOX.format("#e8590c")}">{escape(note)}</pre>' for note in notes)
    )
