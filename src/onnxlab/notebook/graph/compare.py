"""Two models side by side: what was removed, added and changed, as colours and as text below."""

from collections.abc import Mapping
from dataclasses import dataclass

from onnxlab.errors import ModelNotReadable
from onnxlab.model.diff import GraphDiff, diff
from onnxlab.model.load import ModelLike
from onnxlab.notebook.graph.marks import Marks
from onnxlab.notebook.language import said

__all__ = ["Comparison", "compare"]

_COLOURS = {"removed": "#e03131", "added": "#2f9e44", "changed": "#f08c00"}


@dataclass(frozen=True)
class Comparison:
    """What a difference looks like.

    Attributes:
        marks: The marks of the nodes of each model.
        pairs: For each node of the first model that has a counterpart, the path of it.
        text: The difference in words.
    """

    marks: tuple[Marks, Marks]
    pairs: dict[str, str]
    text: str


def compare(first: ModelLike, second: ModelLike) -> Comparison:
    """Compare two models, with their weights.

    Where the weights cannot be read, the comparison is empty and its text says why.
    """
    try:
        found = diff(first, second)
    except ModelNotReadable as error:
        return Comparison(({}, {}), {}, f"{said('The models were not compared.')} {said(str(error))}")
    return Comparison((_marks(found.before), _marks(found.after)), _pairs(found), _text(found))


def _marks(states: Mapping[str, str]) -> Marks:
    return {path: {"stroke": _COLOURS[state]} for path, state in states.items() if state in _COLOURS}


def _pairs(found: GraphDiff) -> dict[str, str]:
    return dict(found.same) | {change.before.path: change.after.path for change in found.changed}


def _text(found: GraphDiff) -> str:
    colours = [("removed", "red"), ("added", "green"), ("changed", "orange")]
    legend = [said(f"{kind} ({colour})") for kind, colour in colours if getattr(found, kind)]
    return "\n".join([*([", ".join(legend) + ":"] if legend else []), *map(said, str(found).split("\n"))])
