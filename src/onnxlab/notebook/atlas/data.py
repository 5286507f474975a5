"""The atlas as text for the browser: every operator, exporter and opset, each sentence written once."""

import functools
import json
from collections.abc import Hashable
from typing import Any

import onnx

from onnxlab.exporters.export import Exporter
from onnxlab.notebook.language import said
from onnxlab.operators.schemas import ELEMENT_TYPES
from onnxlab.operators.support import Link, State, Support, known_operators, support

__all__ = ["LINKS", "OPSETS", "marked", "packed"]

LINKS = ("PyTorch", "rule", "schema", "kernel", "missing")
"""The columns that follow an operator's name."""

_MARKS = {State.YES: "\u2713", State.PART: "~", State.NO: "\u2717", State.UNKNOWN: "?"}
OPSETS = tuple(range(7, onnx.defs.onnx_opset_version() + 1))
"""The opsets of the slider: from the oldest that an exporter writes to the newest that onnx knows."""


def marked(found: Support, element: str = "") -> dict[str, str]:
    """Return the cells of an operator's row, each with a mark.

    Args:
        found: The links.
        element: The element type that the kernels are asked for; "" for any.

    >>> marked(support("aten::asinh", Exporter.TORCH_EXPORT, 20), "double")["kernel"]
    '\u2717 no kernel for double: Asinh'
    """
    kernel = found.kernel
    lacking = kernel.lacks.get(element)
    if lacking:
        kernel = Link(State.NO, f"no kernel for {element}: {', '.join(lacking)}")
    links = dict(zip(LINKS[:4], (found.operator, found.rule, found.schema, kernel), strict=True))
    missing = found.missing or ("kernel" if kernel.state is State.NO else "")
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
            "columns": [said(name) for name in LINKS],
            "elements": ELEMENT_TYPES,
            "texts": [said(text) for text in texts.values],
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
                found = support(name, exporter, opset)
                here = [
                    links(_row(link, texts))
                    for link in (found.operator, found.rule, found.schema, found.kernel)
                ]
                here.append(texts(", ".join(found.writes)))
                if not spans or spans[-1][1:] != here:
                    spans.append([opset, *here])
            by_exporter.append(spans)
        operators.append([name.removeprefix("aten::"), *by_exporter])
    return texts, links, operators


def _row(link: Link, texts: "_Numbered") -> Hashable:
    lacks = tuple((element, texts(", ".join(without))) for element, without in link.lacks.items())
    return (link.state, texts(link.text), lacks)


class _Numbered:
    """Numbers for values: the same value, the same number."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def __call__(self, value: Hashable) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    @property
    def values(self) -> list[Any]:
        return list(self._numbers)
