"""The graded copy of a submission that formgrader shows and nbgrader's feedback is made from.

It is built anew from what the student wrote, and holds nothing that could act on whoever opens it: no
outputs, attachments or metadata of theirs, no HTML or links in their prose. nbgrader's names stand where they
belong, also if the student deleted, doubled or renamed the cells.
"""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import nbformat

from onnxlab.authoring.lab_release import HIDDEN_TESTS
from onnxlab.grading.submission_cells import SubmittedCell

__all__ = ["Master", "MasterCell", "Shown", "graded_copy", "inert"]

_MISSING = "# This cell was missing from the submission."
_KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
# What makes prose more than text: a tag, a link, a link's address further down, a command of MathJax.
_ACTIVE = re.compile(r"<(?=[A-Za-z/!?])|\](?=[(:\[])|\\(?=[A-Za-z])")
_ZERO_WIDTH_SPACE = "\u200b"


@dataclass(frozen=True)
class MasterCell:
    """A cell of the lab that nbgrader knows.

    Attributes:
        name: Its name, nbgrader's `grade_id`.
        kind: "code" or "markdown".
        source: Its text in the instructor's version.
        locked: Whether that text counts, whatever a student made of it.
        checksum: What nbgrader calls so.
        points: What it gives; None if it is not graded.
        solution: Whether the student's answer stands in it.
    """

    name: str
    kind: str
    source: str = field(repr=False)
    locked: bool
    checksum: str | None = None
    points: float | None = None
    solution: bool = False


@dataclass(frozen=True)
class Master:
    """The instructor's version of a lab.

    Attributes:
        cells: What nbgrader knows, in order.
        prose: The texts of its other cells: they need no care when a student hands them in.
    """

    cells: Sequence[MasterCell]
    prose: Set[str] = frozenset()


@dataclass(frozen=True)
class Shown:
    """A result, to be shown below a cell.

    Attributes:
        text: As plain text.
        html: As HTML.
    """

    text: str
    html: str


def graded_copy(
    submitted: Sequence[SubmittedCell], master: Master, results: Mapping[str, Shown], note: str = ""
) -> str:
    """Return a notebook with the student's cells and the results, as a file's content.

    Args:
        submitted: The cells as they were handed in; none if they could not be read.
        master: The instructor's version.
        results: What to show below which of its cells.
        note: What stands at the beginning, as plain text.
    """
    known = {each.name: each for each in master.cells}
    last = {cell.grade_id: place for place, cell in enumerate(submitted) if cell.grade_id in known}
    order: list[tuple[str, SubmittedCell | None]] = [
        (cell.grade_id if last.get(cell.grade_id) == place else "", cell)
        for place, cell in enumerate(submitted)
    ]
    _put_back(order, [each.name for each in master.cells])
    cells = [nbformat.v4.new_markdown_cell(f"    {line}") for line in note.splitlines() if line]
    for name, cell in order:
        if name:
            cells.append(_known(known[name], cell, results.get(name)))
        elif cell is not None:
            cells.append(_own(cell, master.prose))
    for number, cell in enumerate(cells, 1):
        cell["id"] = f"cell-{number}"  # a random one would change the file at every run
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=_KERNEL)
    text: str = nbformat.writes(notebook, version=4)
    return text + "\n"


def inert(prose: str) -> str:
    r"""Return Markdown of unknown origin that looks the same and can do nothing: no HTML, links or macros.

    Example:
        >>> inert("a < b <b onclick=x> [here](javascript:x)").replace("\u200b", "~")
        'a < b <~b onclick=x> [here]~(javascript:x)'
    """
    return _ACTIVE.sub(lambda found: found[0] + _ZERO_WIDTH_SPACE, prose)


def _put_back(order: list[tuple[str, SubmittedCell | None]], names: Sequence[str]) -> None:
    """Put cells that are missing behind the one they stood behind."""
    place = 0
    for name in names:
        found = next((at for at, (other, _) in enumerate(order) if other == name), None)
        if found is None:
            order.insert(place, (name, None))
            found = place
        place = found + 1


def _known(master: MasterCell, cell: SubmittedCell | None, shown: Shown | None) -> Any:  # noqa: ANN401
    if master.locked:
        source = HIDDEN_TESTS.sub("", master.source)
    else:
        source = _MISSING if cell is None else cell.source
        source = inert(source) if master.kind == "markdown" else source
    grading: dict[str, object] = {
        "grade": master.points is not None,
        "grade_id": master.name,
        "locked": master.locked,
        "schema_version": 3,
        "solution": master.solution,
        "task": False,
    }
    if master.points is not None:
        grading |= {"points": master.points, "cell_type": master.kind}
    if master.checksum:
        grading["checksum"] = master.checksum
    metadata = {"nbgrader": grading}
    if master.kind != "code":
        return nbformat.v4.new_markdown_cell(source, metadata=metadata)
    data = {"text/html": shown.html, "text/plain": shown.text} if shown else None
    outputs = [nbformat.v4.new_output("display_data", data)] if data else []
    return nbformat.v4.new_code_cell(source, metadata=metadata, outputs=outputs)


def _own(cell: SubmittedCell, prose: Set[str]) -> Any:  # noqa: ANN401
    if cell.kind == "code":
        return nbformat.v4.new_code_cell(cell.source)
    source = cell.source if cell.source in prose else inert(cell.source)
    return nbformat.v4.new_markdown_cell(source)  # raw cells would not be shown
