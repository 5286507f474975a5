"""The operator atlas: every ATen operator with its four links, for each exporter and opset, as recorded.

The links lead from a PyTorch operator to a running model: PyTorch has the operator, the exporter has a rule
for it, ONNX defines what the rule writes, and ONNX Runtime has a CPU kernel for that. They are computed
from the installed packages by `python -m measurements.atlas`; a test compares a sample with those packages.
"""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Link:
    """One link of the chain from an operator to a running model, with the reason in a few words.

    Attributes:
        mark: Whether it holds: a check mark, a cross, "~" for in part, "?" for unknown.
        lacks: For the kernel: the element types that ONNX allows and no kernel accepts, each with the
            operators that lack it.
    """

    mark: str
    text: str
    lacks: Mapping[str, str]


@functools.cache
def recording() -> dict[str, Any]:
    """Return the recorded atlas, in the form that the browser reads.

    Each operator has for each exporter a list of [from which opset, the numbers of its links and texts].
    """
    text = files(__package__).joinpath("assets/recorded/atlas.json").read_text("utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


@functools.cache
def known_operators() -> tuple[str, ...]:
    """Return every ATen operator of the recording, without overloads.

    Example:
        >>> {"aten::asinh", "aten::relu_", "aten::__interpolate"} <= set(known_operators())
        True
    """
    return tuple(f"aten::{name}" for name, *_ in recording()["operators"])


def links(operator: str, exporter: str, opset: int) -> tuple[Link, Link, Link, Link]:
    """Return the four links of a known operator: the operator itself, its rule, the schema and the kernel.

    The exporter is "TorchScript" or "torch.export".

    Example:
        >>> [link.mark + " " + link.text for link in links("aten::asinh", "TorchScript", 8)][1:3]
        ['\u2717 no rule', '\u2717 Asinh only since 9']
    """
    data = recording()
    _, *by_exporter = data["operators"][known_operators().index(operator)]
    spans = by_exporter[data["exporters"].index(exporter)]
    numbers = [span for span in spans if span[0] <= opset][-1][1:5]
    texts = data["texts"]
    return tuple(  # type: ignore[return-value]  # four numbers
        Link(mark, texts[text], {element: texts[lacking] for element, lacking in lacks.items()})
        for mark, text, lacks in (data["links"][number] for number in numbers)
    )
