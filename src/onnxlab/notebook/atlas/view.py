"""The operator atlas: every ATen operator with its four links, to search and to filter.

In a running notebook it is a widget, which gets the whole atlas as text, each sentence written once; what
stays in the saved notebook is a table of an excerpt.
"""

import functools
import html
import json
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import anywidget
import onnx
import traitlets

from onnxlab.errors import OnnxLabError
from onnxlab.exporters.export import Exporter
from onnxlab.notebook.language import script_words, tr
from onnxlab.notebook.outputs import SavedAndLive, hiding_script
from onnxlab.notebook.tables import Table, table
from onnxlab.operators.schemas import ELEMENT_TYPES, Link, State
from onnxlab.operators.support import Support, known_operators, support

LINKS = ("PyTorch", "rule", "schema", "kernel", "missing")
"""The columns that follow an operator's name."""

_MARKS = {State.YES: "\u2713", State.PART: "~", State.NO: "\u2717", State.UNKNOWN: "?"}
OPSETS = tuple(range(7, onnx.defs.onnx_opset_version() + 1))
"""The opsets of the slider: from the oldest that an exporter writes to the newest that onnx knows."""

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
            atlas=packed(),
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
                links = marked(support(f"aten::{name}", exporter, self.opset), self.element)
                rows.append({"operator": name, "exporter": exporter.value, **links})
        return rows

    def saved(self) -> str:
        """The excerpt as HTML."""
        inside = self._table()._repr_html_()
        return f'<style>{_style()}</style><div class="onnxlab-atlas saved">{inside}</div>'

    def _table(self) -> Table:
        settings = f"opset {self.opset}" + f", {self.element}" * bool(self.element)
        return table(
            self.rows(), ["operator", "exporter", *LINKS], caption=f"Operator atlas, {settings}: an excerpt"
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
    for setting, allowed in (
        (exporter, (None, *(kind.value for kind in Exporter))),
        (missing, ("", "none", "operator", "rule", "schema", "kernel", "unknown")),
        (element, ("", *ELEMENT_TYPES)),
        (opset, OPSETS),
    ):
        if setting not in allowed:
            choices = ", ".join(repr(value) for value in allowed)
            raise OnnxLabError(f"The atlas does not know {setting!r}.", then=f"Use one of {choices}.")
    if excerpt is None:
        exact = search.removeprefix("aten::")
        excerpt = (exact,) if f"aten::{exact}" in known_operators() else EXCERPT
    unknown = [name for name in excerpt if f"aten::{name.partition('.')[0]}" not in known_operators()]
    if unknown:
        raise OnnxLabError(
            f"PyTorch has no operator {html.escape(unknown[0])!r}.",
            then="Search for a part of its name in the atlas.",
        )
    return Atlas(search, excerpt, opset, exporter, missing, element)


def marked(supported: Support, element: str = "") -> dict[str, str]:
    """Return the cells of an operator's row, each with a mark.

    Args:
        supported: The links.
        element: The element type that the kernels are asked for; "" for any.

    >>> marked(support("aten::asinh", Exporter.TORCH_EXPORT, 20), "double")["kernel"]
    '\u2717 no kernel for double: Asinh'
    """
    kernel = supported.kernel
    lacking = kernel.lacks.get(element)
    if lacking:
        kernel = Link(State.NO, f"no kernel for {element}: {', '.join(lacking)}")
    links = dict(zip(LINKS[:4], (supported.operator, supported.rule, supported.schema, kernel), strict=True))
    missing = supported.missing or ("kernel" if kernel.state is State.NO else "")
    unknown = any(link.state is State.UNKNOWN for link in links.values())
    nothing = "? unknown" if unknown else "\u2713 none"
    cells = {name: f"{_MARKS[link.state]} {link.text}" for name, link in links.items()}
    return {**cells, "missing": f"\u2717 {missing}" if missing else nothing}


def packed() -> str:
    """Return the whole atlas as JSON, in the language of the notebook; seconds at the first call.

    Every operator has for each exporter a list of [from which opset, links], and an entry only where the
    links change.
    """
    texts, links, operators = _numbered()
    return json.dumps(
        {
            "opsets": [OPSETS[0], OPSETS[-1]],
            "exporters": [exporter.value for exporter in Exporter],
            "columns": [tr(name) for name in LINKS],
            "elements": ELEMENT_TYPES,
            "texts": [tr(text) for text in texts.values],
            "links": [[_MARKS[state], text, dict(lacks)] for state, text, lacks in links.values],
            "operators": operators,
        },
        separators=(",", ":"),
    )


@functools.cache
def _numbered() -> tuple["_Numbered", "_Numbered", list[list[Any]]]:
    texts, links = _Numbered(), _Numbered()
    operators: list[list[Any]] = []
    for name in known_operators():
        by_exporter = []
        for exporter in Exporter:
            spans: list[list[int]] = []
            for opset in OPSETS:
                supported = support(name, exporter, opset)
                numbers = [
                    links(_row(link, texts))
                    for link in (supported.operator, supported.rule, supported.schema, supported.kernel)
                ]
                numbers.append(texts(", ".join(supported.writes)))
                if not spans or spans[-1][1:] != numbers:
                    spans.append([opset, *numbers])
            by_exporter.append(spans)
        operators.append([name.removeprefix("aten::"), *by_exporter])
    return texts, links, operators


def _row(link: Link, texts: "_Numbered") -> Hashable:
    lacks = tuple((element, texts(", ".join(without))) for element, without in link.lacks.items())
    return (link.state, texts(link.text), lacks)


class _Numbered:
    """Numbers values in the order in which they first come: equal values have the same number."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def __call__(self, value: Hashable) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    @property
    def values(self) -> list[Any]:
        return list(self._numbers)


@functools.cache
def _style() -> str:
    """The end of the style sheet: what the saved form needs. The rest is the widget's and may change."""
    sheet = (_HERE / "atlas.css").read_text("utf-8")
    return sheet[sheet.index("/* The saved form") :]
