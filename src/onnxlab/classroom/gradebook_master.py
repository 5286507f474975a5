"""What nbgrader knows of a lab: the notebook that it is, and its cells as the instructor wrote them."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnxlab.authoring.notebooks import NotebookUnreadable, read
from onnxlab.classroom.gradebook_notebook import Master, MasterCell
from onnxlab.classroom.nbgrader_course import Course
from onnxlab.labs.exercise import exercises_of

if TYPE_CHECKING:
    from nbgrader.api import Gradebook

__all__ = ["KnownLab", "check_cell", "master_of", "notebook_of"]

# A learner has all labs in one folder, where nbgrader has one for each: the course's links follow that.
_WITHIN = re.compile(r"\]\((lab\d\d_\w+)\.ipynb\)")
_ACROSS = re.compile(r"\]\(\.\./(lab\d\d_\w+)/\1\.ipynb\)")


@dataclass(frozen=True)
class KnownLab:
    """A lab as a notebook of an assignment.

    Attributes:
        notebook: The notebook's name there.
        content: Its cells.
    """

    notebook: str
    content: Master


def check_cell(exercise: str) -> str:
    """Return nbgrader's name for the cell that checks an exercise.

    Example:
        >>> check_cell("asinh-symbolic")
        'check-asinh-symbolic'
    """
    return f"check-{exercise}"


def master_of(course: Course, book: "Gradebook", assignment: str, lab: str) -> KnownLab | str:
    """Find a lab in an assignment, by the cells that check its exercises: files may have any name.

    Returns:
        The lab; or why it is not there.
    """
    from nbgrader.api import MissingEntry

    try:
        notebooks = book.find_assignment(assignment).notebooks
    except MissingEntry:
        return (
            f"The gradebook has no assignment {assignment!r}: run nbgrader generate_assignment {assignment}."
        )
    wanted = {check_cell(each.id) for each in exercises_of(lab)}
    for notebook in notebooks:
        if wanted & {each.name for each in notebook.grade_cells}:
            return KnownLab(notebook.name, _content(course, assignment, notebook))
    return f"The assignment {assignment!r} has no cells that check the exercises of {lab}."


def notebook_of(submission: Any, name: str) -> Any:  # noqa: ANN401 - nbgrader has no types
    """Return one notebook of a submission in the gradebook."""
    return next(each for each in submission.notebooks if each.name == name)


def _content(course: Course, assignment: str, notebook: Any) -> Master:  # noqa: ANN401
    order, prose = _source(course, assignment, notebook.name)
    points = {each.name: float(each.max_score) for each in notebook.grade_cells}
    solutions = {each.name for each in notebook.solution_cells}
    cells = [
        MasterCell(
            each.name,
            each.cell_type,
            each.source or "",
            bool(each.locked),
            each.checksum,
            points.get(each.name),
            each.name in solutions,
        )
        for each in notebook.source_cells
    ]
    cells.sort(key=lambda cell: order.get(cell.name, len(order)))
    return Master(cells, prose)


def _source(course: Course, assignment: str, name: str) -> tuple[dict[str, int], frozenset[str]]:
    """The order of the named cells in the instructor's file, and its prose as learners may have it."""
    try:
        notebook = read(course.folder("source", ".", assignment) / f"{name}.ipynb")
    except NotebookUnreadable:
        return {}, frozenset()
    names = [cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in notebook["cells"]]
    order = {each: place for place, each in enumerate(names) if each}
    texts = {cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "markdown"}
    return order, frozenset(each for text in texts for each in (text, *_with_other_links(text)))


def _with_other_links(text: str) -> tuple[str, str]:
    """The same text, its links leading from one assignment's folder to the next, and within one folder."""
    return _WITHIN.sub(r"](../\1/\1.ipynb)", text), _ACROSS.sub(r"](\1.ipynb)", text)
