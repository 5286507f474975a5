"""A page with two models side by side: their graphs, what differs, what was run. It needs no other file."""

from dataclasses import replace
from html import escape
from pathlib import Path

from onnxlab.diagnosis.pair import Pair
from onnxlab.files import cannot_write
from onnxlab.language import spoken_language, tr
from onnxlab.model.load import ModelLike
from onnxlab.notebook.graph.lean_model import read_structure
from onnxlab.notebook.graph.marks import Marks, compare, merge_marks
from onnxlab.notebook.graph.pane import make_pane
from onnxlab.notebook.graph.saved_form import note_html, pictures_html

_ORIGIN = "#862e9c"
_STYLE = """
:root {color-scheme: light dark}
body {font: 15px/1.5 system-ui, sans-serif; margin: 24px auto; max-width: 1500px; padding: 0 16px}
h1 {font-size: 20px} h1 code {font-size: 18px}
table {border-collapse: collapse; margin: 12px 0}
td, th {border: 1px solid #8886; padding: 2px 10px; text-align: left}
li.bad {font-weight: 600} p.tried {opacity: .8}
figure {flex: 1 1 0; min-width: 0; overflow: auto}
.onnxlab-still {max-height: none !important} .onnxlab-still img {width: auto} .onnxlab-hidden {display: none}
figcaption {font-weight: 600; padding: 4px}
@media (prefers-color-scheme: dark) {
  body {background: #1b1b1b; color: #e4e4e4}
  img {filter: invert(0.86) hue-rotate(180deg)}
}
"""


def comparison_page(first: ModelLike, second: ModelLike, names: tuple[str, str], pair: Pair) -> str:
    """Return a comparison of two models as HTML, in which nothing can run.

    Raises:
        ModelNotReadable: One of them cannot be drawn.
    """
    models = zip((first, second), names, strict=True)
    panes = [make_pane(replace(read_structure(model), name=name)) for model, name in models]
    comparison = compare(first, second)
    origin: Marks = {path: {"stroke": _ORIGIN, "rows": [["", tr("diverges here")]]} for path in pair.suspects}
    marks = [
        pane.with_groups(merge_marks(own, extra))
        for pane, own, extra in zip(panes, comparison.marks, ({}, origin), strict=True)
    ]
    whole = [pane.picture(own, grouped=True) for pane, own in zip(panes, marks, strict=True)]
    pictures = zip(whole, panes, marks, strict=True)
    drawn = [drawing for picture, pane, own in pictures if (drawing := picture or pane.part(own))]
    notes = [
        *(tr("diverges here (violet)") for _ in pair.suspects[:1]),
        comparison.text,
        *(
            tr("Of {name} only the part around the first difference is drawn.", name=pane.name)
            for pane, picture in zip(panes, whole, strict=True)
            if picture is None
        ),
    ]
    title = tr("Comparison of two models")
    graphs = (
        pictures_html(title, list(names), panes, drawn, notes)
        if len(drawn) == len(panes)
        else note_html(title, panes, notes)
    )
    findings = "".join(
        f"<li{'' if pair.equal or number else ' class=bad'}>{escape(tr(finding))}</li>"
        for number, finding in enumerate(pair.findings)
    )
    return (
        f'<!doctype html><html lang="{spoken_language()}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:;'
        " style-src 'unsafe-inline'\">"
        f"<title>{escape(' | '.join(names))}</title><style>{_STYLE}</style></head><body>"
        f"<h1><code>{escape(names[0])}</code> | <code>{escape(names[1])}</code></h1>"
        f"<ul>{findings}</ul>{_table(pair)}"
        f'<p class="tried">{escape(tr(pair.tried))}</p>{graphs}</body></html>'
    )


def write_comparison(path: Path, first: Path, second: Path, pair: Pair) -> None:
    """Write a comparison as a page.

    Raises:
        ModelNotReadable: One of the models cannot be drawn.
        CannotWrite: The file cannot be written.
    """
    page = comparison_page(first, second, (first.name, second.name), pair)
    try:
        path.write_text(page, "utf-8")
    except OSError as error:
        raise cannot_write(path, error) from error


def _table(pair: Pair) -> str:
    if not pair.outputs:
        return ""
    heading = ("output", "type and shape", "largest difference", "relative", "")
    rows = [[f"<th>{escape(tr(word))}</th>" for word in heading]]
    rows += [[f"<td>{escape(tr(cell))}</td>" for cell in row] for row in pair.outputs]
    lines = "".join("<tr>" + "".join(row) + "</tr>" for row in rows)
    return f"<table>{lines}</table>"
