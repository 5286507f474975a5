"""The recording of the operator atlas that the course ships: src/onnxlab/assets/recorded/atlas.json."""

import importlib.metadata
import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import onnx

from measurements.atlas.schemas import ELEMENT_TYPES, Link, State
from measurements.atlas.support import known_operators, support
from onnxlab.exporters.export import Exporter

__all__ = ["RECORDING", "recorded", "versions"]

RECORDING = Path(__file__).parents[2] / "src" / "onnxlab" / "assets" / "recorded" / "atlas.json"
_MARKS = {State.YES: "\u2713", State.PART: "~", State.NO: "\u2717", State.UNKNOWN: "?"}
# From the oldest opset that an exporter writes to the newest that onnx knows.
_OPSETS = range(7, onnx.defs.onnx_opset_version() + 1)


def versions() -> dict[str, str]:
    """Return the installed versions that the atlas depends on."""
    packages = ("torch", "onnx", "onnxruntime", "onnxscript")
    return {package: importlib.metadata.version(package).partition("+")[0] for package in packages}


def recorded() -> str:
    """Return the atlas of the installed packages in the form of the file. It takes seconds.

    Every operator has for each exporter a list of [from which opset, links], and an entry only where the
    links change.
    """
    texts, links, operators = _Numbered(), _Numbered(), []
    for name in known_operators():
        by_exporter = [_spans(name, exporter, texts, links) for exporter in Exporter]
        operators.append([name.removeprefix("aten::"), *by_exporter])
    data = {
        "versions": versions(),
        "opsets": [_OPSETS[0], _OPSETS[-1]],
        "exporters": [exporter.value for exporter in Exporter],
        "columns": ["PyTorch", "rule", "schema", "kernel", "missing"],
        "elements": ELEMENT_TYPES,
        "texts": texts.values,
        "links": [[_MARKS[state], text, dict(lacks)] for state, text, lacks in links.values],
        "operators": operators,
    }
    return json.dumps(data, separators=(",", ":")) + "\n"


def _spans(name: str, exporter: Exporter, texts: "_Numbered", links: "_Numbered") -> list[list[int]]:
    spans: list[list[int]] = []
    for opset in _OPSETS:
        found = support(name, exporter, opset)
        chain = (found.operator, found.rule, found.schema, found.kernel)
        numbers = [*(links(_row(link, texts)) for link in chain), texts(", ".join(found.writes))]
        if not spans or spans[-1][1:] != numbers:
            spans.append([opset, *numbers])
    return spans


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
