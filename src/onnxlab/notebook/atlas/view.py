"""The operator atlas: every ATen operator with its four links, to search and to filter.

In a running notebook it is a widget, which gets the whole atlas as text, each sentence written once; what
stays in the saved notebook is a table of an excerpt.
"""

import functools
import html
import json
from collections.abc import Sequence
from pathlib import Path

import anywidget
import traitlets

from onnxlab.errors import OnnxLabError
from onnxlab.exporters.export import Exporter
from onnxlab.language import script_words, tr
from onnxlab.message import Message
from onnxlab.notebook.outputs import SavedAndLive, hiding_script
from onnxlab.operators import Link, known_operators, links, recording
from onnxlab.tables import Table, table

LINKS = ("PyTorch", "rule", "schema", "kernel", "missing")
"""The columns that follow an operator's name."""

EXCERPT = (
    "relu",
    "silu",
    "upsample_bicubic2d",
    "gelu",
    "asinh",
    "huber_loss",
    "lgamma",
    "bitwise_right_shift",
)
"""What the saved form shows: one operator for each kind of answer."""

_HERE = Path(__file__).parent
_BOTH = "both"


class _AtlasWidget(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget ships no types
    _esm = hiding_script((_HERE / "atlas.js").read_text("utf-8"))
    _css = _HERE / "atlas.css"
    words = traitlets.Dict().tag(sync=True)
    atlas = traitlets.Unicode().tag(sync=True)
    search = traitlets.Unicode().tag(sync=True)
    opset = traitlets.Int().tag(sync=True)
    exporter = traitlets.Unicode().tag(sync=True)
    missing = traitlets.Unicode().tag(sync=True)
    element = traitlets.Unicode().tag(sync=True)


class Atlas(SavedAndLive):
    """The atlas as one cell shows it; made by `atlas`.

    Attributes:
        excerpt: The operators of the saved form, without "aten::".
        opset: The opset it opens with.
        exporters: The exporters it opens with.
        element: The element type it opens with, or "" for any.
    """

    def __init__(
        self,
        search: str,
        excerpt: Sequence[str],
        opset: int,
        exporter: str | None,
        missing: str,
        element: str,
    ) -> None:
        self.excerpt, self.opset, self.element = tuple(excerpt), opset, element
        self.exporters = tuple(Exporter) if exporter is None else (Exporter(exporter),)
        self._widget = _AtlasWidget(
            words=script_words(),
            atlas=_translated(),
            search=search,
            opset=opset,
            exporter=_BOTH if exporter is None else exporter,
            missing=missing,
            element=element,
        )

    def rows(self) -> list[dict[str, str]]:
        """Return the rows of the saved form."""
        rows = []
        for name in self.excerpt:
            for exporter in self.exporters:
                chain = links(f"aten::{name}", exporter.value, self.opset)
                rows.append({"operator": name, "exporter": exporter.value, **marked(chain, self.element)})
        return rows

    def saved(self) -> str:
        """The excerpt as HTML."""
        inside = self._table()._repr_html_()
        return f'<style>{_style()}</style><div class="onnxlab-atlas saved">{inside}</div>'

    def _table(self) -> Table:
        settings = f"opset {self.opset}" + f", {self.element}" * bool(self.element)
        return table(
            self.rows(),
            ["operator", "exporter", *LINKS],
            caption=Message("Operator atlas, {settings}: an excerpt", settings=settings),
        )

    def _ipython_display_(self) -> None:
        self.show()

    def __repr__(self) -> str:
        return repr(self._table())


def atlas(
    search: str = "",
    *,
    opset: int = 20,
    exporter: str | None = None,
    missing: str = "",
    element: str = "",
    excerpt: Sequence[str] | None = None,
) -> Atlas:
    """Show which link each ATen operator misses on its way to ONNX Runtime.

    It shows what was recorded with the versions that the course is tested with.

    Args:
        search: What to search for at the beginning: part of an ATen or ONNX operator's name.
        opset: Where the slider stands at the beginning.
        exporter: "TorchScript", "torch.export", or None for both.
        missing: Show only operators that miss this link: "operator", "rule", "schema", "kernel"; "none"
            for those that miss nothing; "unknown" where that is not known; "" for all.
        element: The element type to ask the kernels for, such as "int16"; "" for any.
        excerpt: The operators that stay in the saved notebook; by default one for each kind of answer,
            or what is searched for.

    Returns:
        The atlas, which a notebook shows when it is the last expression of a cell.

    Raises:
        OnnxLabError: An argument is none of the known ones.

    >>> atlas("asinh", opset=8, exporter="TorchScript").rows()[0]["missing"]
    '\u2717 rule'
    """
    for setting, allowed in (
        (exporter, (None, *(kind.value for kind in Exporter))),
        (missing, ("", "none", "operator", "rule", "schema", "kernel", "unknown")),
        (element, ("", *recording()["elements"])),
        (opset, range(recording()["opsets"][0], recording()["opsets"][1] + 1)),
    ):
        if setting not in allowed:
            choices = ", ".join(repr(value) for value in allowed)
            raise OnnxLabError(
                "The atlas does not know {setting!r}.",
                then="Use one of {choices}.",
                setting=setting,
                choices=choices,
            )
    if excerpt is None:
        exact = search.removeprefix("aten::")
        excerpt = (exact,) if f"aten::{exact}" in known_operators() else EXCERPT
    unknown = [name for name in excerpt if f"aten::{name}" not in known_operators()]
    if unknown:
        raise OnnxLabError(
            "PyTorch has no operator {escape!r}.",
            then="Search for a part of its name in the atlas.",
            escape=html.escape(unknown[0]),
        )
    return Atlas(search, excerpt, opset, exporter, missing, element)


def marked(chain: Sequence[Link], element: str = "") -> dict[str, str]:
    """Return the cells of an operator's row, each with a mark.

    >>> marked(links("aten::asinh", "torch.export", 20), "double")["kernel"]
    '\u2717 no kernel for double: Asinh'
    """
    *before, kernel = chain
    if without := kernel.lacks.get(element):
        kernel = Link(
            "\u2717", Message("no kernel for {element}: {without}", element=element, without=without), {}
        )
    named = dict(zip(("operator", *LINKS[1:4]), (*before, kernel), strict=True))
    missing = next((name for name, link in named.items() if link.mark == "\u2717"), "")
    nothing = Message("? unknown") if any(link.mark == "?" for link in named.values()) else "\u2713 none"
    cells = {
        column: f"{link.mark} {link.text}" for column, link in zip(LINKS[:4], named.values(), strict=True)
    }
    return {**cells, "missing": f"\u2717 {missing}" if missing else nothing}


def _translated() -> str:
    """Return the whole atlas as JSON, in the language of the notebook."""
    texts = {name: [tr(text) for text in recording()[name]] for name in ("columns", "texts")}
    return json.dumps(recording() | texts, separators=(",", ":"))


@functools.cache
def _style() -> str:
    """The end of the style sheet: what the saved form needs. The rest is the widget's and may change."""
    sheet = (_HERE / "atlas.css").read_text("utf-8")
    return sheet[sheet.index("/* The saved form") :]
