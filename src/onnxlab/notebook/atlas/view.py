"""The operator atlas: every ATen operator with its four links, to search and to filter.

In a running notebook it is a widget; what stays in the saved one is a table of an excerpt.
"""

import html
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import traitlets

from onnxlab.errors import OnnxLabError
from onnxlab.exporters.export import Exporter
from onnxlab.notebook.atlas.data import LINKS, OPSETS, marked, packed
from onnxlab.notebook.predict.widget import PredictionWidget, SavedAndLive
from onnxlab.notebook.tables import Table, table
from onnxlab.operators.schemas import ELEMENT_TYPES
from onnxlab.operators.support import known_operators, support

__all__ = ["EXCERPT", "Atlas", "atlas"]

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


class _AtlasWidget(PredictionWidget):
    _esm = _HERE / "atlas.js"
    _css = _HERE / "atlas.css"
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
            atlas=packed(),
            search=search,
            opset=opset,
            exporter=_BOTH if exporter is None else exporter,
            missing=missing,
            element=element,
        )

    def rows(self) -> list[dict[str, str]]:
        """Return the rows of the saved form."""
        found = []
        for name in self.excerpt:
            for exporter in self.exporters:
                links = marked(support(f"aten::{name}", exporter, self.opset), self.element)
                found.append({"operator": name, "exporter": exporter.value, **links})
        return found

    def saved(self) -> str:
        """The excerpt as HTML."""
        inside = self._table()._repr_html_()
        return f'<style>{_style()}</style><div class="onnxlab-atlas saved">{inside}</div>'

    def _table(self) -> Table:
        asked = f"opset {self.opset}" + f", {self.element}" * bool(self.element)
        return table(
            self.rows(), ["operator", "exporter", *LINKS], caption=f"Operator atlas, {asked}: an excerpt"
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

    The first call reads the installed registries, which takes seconds; the next ones are immediate.

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
    for given, allowed in (
        (exporter, (None, *(each.value for each in Exporter))),
        (missing, ("", "none", "operator", "rule", "schema", "kernel", "unknown")),
        (element, ("", *ELEMENT_TYPES)),
        (opset, OPSETS),
    ):
        if given not in allowed:
            known = ", ".join(repr(each) for each in allowed)
            msg = f"The atlas does not know {given!r}."
            raise OnnxLabError(msg, then=f"Use one of {known}.")
    if excerpt is None:
        exact = search.removeprefix("aten::")
        excerpt = (exact,) if f"aten::{exact}" in known_operators() else EXCERPT
    unknown = [name for name in excerpt if f"aten::{name.partition('.')[0]}" not in known_operators()]
    if unknown:
        msg = f"PyTorch has no operator {html.escape(unknown[0])!r}."
        raise OnnxLabError(msg, then="Search for a part of its name in the atlas.")
    return Atlas(search, excerpt, opset, exporter, missing, element)


@lru_cache(maxsize=1)
def _style() -> str:
    """The end of the style sheet: what the saved form needs. The rest is the widget's and may change."""
    sheet = (_HERE / "atlas.css").read_text("utf-8")
    return sheet[sheet.index("/* The saved form") :]
