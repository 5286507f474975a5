"""Marks drawn onto a graph: highlighted borders, values inside nodes, the differences of two models.

A mark belongs to one node and is plain data that marks.js paints, in the live frame and in the picture
alike: `stroke` colours the border, `rows` are texts inside the node, `fill` is the background of these texts.
"""

import difflib
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias, TypeGuard

from onnxlab.errors import ModelNotReadable, OnnxLabError
from onnxlab.language import joined, tr
from onnxlab.model.diff import GraphDiff, diff
from onnxlab.model.graph import GraphNode
from onnxlab.model.load import ModelLike

Marks: TypeAlias = dict[str, dict[str, Any]]
"""Marks by the path of their node, or by "input:x" and "output:y"."""

Highlight: TypeAlias = str | Iterable[str] | Mapping[str, str] | None
"""Operators or names of nodes or values; as a mapping, with a CSS colour for each."""

Values: TypeAlias = Mapping[str, Any] | None
"""A number, shape or text for names of nodes or values."""

_HIGHLIGHT = "#e8590c"
_DIVERGING = "#c92a2a"
_DIFFERENCE = {"removed": "#e03131", "added": "#2f9e44", "changed": "#f08c00"}
_COLOUR = re.compile(r"[#\w(),.%\s/-]{1,64}")
# Numbers are coloured by their logarithm: not at all at 1e-7, the noise of float32, and fully at 0.1.
_FAINT, _FULL = -7.0, -1.0
_TOLERANCE, _JUMP = 1e-5, 10.0


def highlight_marks(nodes: Mapping[str, GraphNode], highlight: Highlight, ends: Iterable[str] = ()) -> Marks:
    """Colour the border of every node, and of every input and output with a box, as "input:x", that is named.

    Raises:
        OnnxLabError: A colour is not a colour.
    """
    marks: Marks = {}
    for name, colour in _colours(highlight).items():
        if not _COLOUR.fullmatch(colour):
            raise OnnxLabError(
                "{colour!r} is not a CSS colour.",
                then='Give a name such as "orange" or a number such as "#e8590c".',
                colour=colour,
            )
        for path, node in nodes.items():
            if name in _names(node):
                marks[path] = {"stroke": colour}
        for end in ends:
            if name == end.partition(":")[2]:
                marks[end] = {"stroke": colour}
    return marks


def value_marks(nodes: Mapping[str, GraphNode], values: Values) -> Marks:
    """Write values into their nodes, larger numbers in a stronger colour; mark the first that diverges."""
    marks: Marks = {}
    for path, node in nodes.items():
        own = {node.name: values[node.name]} if values and node.name and node.name in values else {}
        own |= {name: values[name] for name in node.outputs if name and values and name in values}
        if own:
            label = len(own) > 1
            rows = [[name if label else "", _text(value)] for name, value in own.items()]
            size = max((abs(float(v)) for v in own.values() if _is_number(v)), default=None, key=_nan_last)
            marks[path] = {"rows": rows} | ({} if size is None else {"size": size, "fill": _fill(size)})
    first = _first_diverging(nodes, marks)
    if first is not None:
        marks[first]["stroke"] = _DIVERGING
    return marks


def merge_marks(*layers: Marks) -> Marks:
    """Merge marks; where two set the same property of a node, the later one wins."""
    merged: Marks = {}
    for marks in layers:
        for path, mark in marks.items():
            merged[path] = merged.get(path, {}) | mark
    return merged


def group_marks(members: Mapping[str, Iterable[str]], marks: Marks) -> Marks:
    """What is marked inside a group shows on the group: a border, and the largest of the numbers."""
    groups: Marks = {}
    for path, inside in members.items():
        own = [marks[member] for member in inside if member in marks]
        strokes = [mark["stroke"] for mark in own if "stroke" in mark]
        sizes = [mark["size"] for mark in own if "size" in mark]
        if strokes:
            groups.setdefault(path, {})["stroke"] = strokes[0]
        if sizes:
            largest = max(sizes, key=_nan_last)
            rows = [["largest inside", _text(largest)]]
            groups.setdefault(path, {}).update(rows=rows, fill=_fill(largest), size=largest)
    return groups


@dataclass(frozen=True)
class Comparison:
    """What differs between two models: as marks of each model's nodes, and as text.

    Attributes:
        pairs: The path of the second model's node for each node of the first model that has a counterpart.
    """

    marks: tuple[Marks, Marks]
    pairs: dict[str, str]
    text: str


def compare(first: ModelLike, second: ModelLike) -> Comparison:
    """Compare two models, with their weights.

    Where the weights cannot be read, the comparison is empty and its text says why.
    """
    try:
        difference = diff(first, second)
    except ModelNotReadable as error:
        return Comparison(({}, {}), {}, joined(" ", [tr("The models were not compared."), tr(str(error))]))
    return Comparison(
        (_difference_marks(difference.before), _difference_marks(difference.after)),
        _pairs(difference),
        _difference_text(difference),
    )


def names_of(nodes: Mapping[str, GraphNode]) -> set[str]:
    """Operators, names, paths and outputs of nodes: what they can be called by."""
    return {name for node in nodes.values() for name in _names(node)}


def unknown_names(existing: Collection[str], names: Iterable[str]) -> list[str]:
    """Return a note for each name that does not exist in the graph, with names that are spelt alike."""
    notes = []
    for name in names:
        if name not in existing:
            near = ", ".join(difflib.get_close_matches(name, sorted(existing), 3))
            notes.append(
                tr("Nothing in the graph is called {name!r}; near: {near}.", name=name, near=near)
                if near
                else tr("Nothing in the graph is called {name!r}.", name=name)
            )
    return notes


def _colours(highlight: Highlight) -> dict[str, str]:
    if highlight is None:
        return {}
    if isinstance(highlight, Mapping):
        return {str(name): str(colour) for name, colour in highlight.items()}
    return dict.fromkeys([highlight] if isinstance(highlight, str) else map(str, highlight), _HIGHLIGHT)


def _names(node: GraphNode) -> set[str]:
    return {node.op, node.name, *node.outputs, node.path} - {""}


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)


def _nan_last(size: float) -> float:
    return math.inf if math.isnan(size) else size


def _text(value: object) -> str:
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if _is_number(value):
        return f"{float(value):.2g}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "\u00d7".join("?" if dim is None else str(dim) for dim in value) or "scalar"
    return str(value)[:40]


def _fill(size: float) -> str:
    if math.isnan(size) or math.isinf(size):
        share = 1.0
    else:
        share = 0.0 if size == 0 else (math.log10(size) - _FAINT) / (_FULL - _FAINT)
    return f"rgba(224, 49, 49, {0.06 + 0.64 * min(1.0, max(0.0, share)):.2f})"


def _first_diverging(nodes: Mapping[str, GraphNode], marks: Marks) -> str | None:
    """The first node whose number stands out: above float32's noise, and ten times that of all it reads.

    Where no number is below the tolerance, they are of another kind (times, counts) and none diverges.
    """
    if not any(mark.get("size", math.inf) <= _TOLERANCE for mark in marks.values()):
        return None
    sizes: dict[str, float] = {}
    for path, node in nodes.items():
        size = marks.get(path, {}).get("size")
        read = max((sizes.get(name, 0.0) for name in node.inputs), default=0.0)
        if size is not None and not size <= max(_TOLERANCE, _JUMP * read):
            return path
        sizes.update(dict.fromkeys(node.outputs, read if size is None else size))
    return None


def _difference_marks(states: Mapping[str, str]) -> Marks:
    return {path: {"stroke": _DIFFERENCE[state]} for path, state in states.items() if state in _DIFFERENCE}


def _pairs(difference: GraphDiff) -> dict[str, str]:
    return dict(difference.same) | {change.before.path: change.after.path for change in difference.changed}


def _difference_text(difference: GraphDiff) -> str:
    words = {"removed": tr("removed (red)"), "added": tr("added (green)"), "changed": tr("changed (orange)")}
    legend = [word for kind, word in words.items() if getattr(difference, kind)]
    heading = joined(": ", [joined(", ", legend), ""]).rstrip(" ")
    return "\n".join([*([heading] if legend else []), tr(str(difference))])
