"""The grader's results into nbgrader's gradebook, through nbgrader's API, as if nbgrader had graded.

A submission is written in two steps: the graded copy and what belongs to it into `autograded/`, then points
and comments in one transaction. What fails halfway is written by the next run: the ledger keeps the results,
and writing the same twice changes nothing. Scores, comments and extra credit that a person gave stay.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxlab.authoring.notebooks import NotebookUnreadable, read
from onnxlab.classroom.course.graded_copy import (
    Master,
    MasterCell,
    check_cell,
    comment,
    handed_in_at,
    write_copy,
)
from onnxlab.classroom.course.nbgrader import SETTINGS, Course, CourseUnusable, course_at
from onnxlab.grading.reports.feedback import Picture, remembering
from onnxlab.grading.results import Graded
from onnxlab.grading.submissions import Submission
from onnxlab.labs.kit.exercise import exercises_of
from onnxlab.labs.kit.outcome import Evidence

if TYPE_CHECKING:
    from datetime import datetime

    from nbgrader.api import Gradebook

__all__ = ["Booked", "book", "check_course"]

# A learner has all labs in one folder, where nbgrader has one for each: the course's links follow that.
_WITHIN = re.compile(r"\]\((lab\d\d_\w+)\.ipynb\)")
_ACROSS = re.compile(r"\]\(\.\./(lab\d\d_\w+)/\1\.ipynb\)")


@dataclass(frozen=True)
class Booked:
    """What was written.

    Attributes:
        submissions: How many submissions are in the gradebook.
        skipped: What is not, with the reason, by student and lab.
    """

    submissions: int
    skipped: tuple[tuple[str, str, str], ...]


def check_course(folder: Path) -> None:
    """Make sure, before hours of grading, that there is a gradebook to write into.

    Raises:
        ClassroomMissing: If nbgrader is not installed.
        CourseUnusable: If the folder is no course of nbgrader with an assignment in its gradebook.
    """
    course = course_at(folder)
    place = str(course.directory.db_url)
    if place.startswith("sqlite:///") and not Path(place.removeprefix("sqlite:///")).exists():
        if (folder / SETTINGS).exists():
            msg = f"The course in {folder} has no gradebook."
            raise CourseUnusable(msg, "", f"Make it, with the labs, with: onnxlab class init {folder}")
        msg = f"{folder} is not nbgrader's course directory: it has no {SETTINGS} and no gradebook."
        then = "Name that directory; or leave --gradebook out: the marks are in --out either way."
        raise CourseUnusable(msg, "", then)
    with course.gradebook() as open_book:
        if not open_book.assignments:
            msg = f"The gradebook of {folder} has no assignments."
            raise CourseUnusable(msg, "", "Run nbgrader generate_assignment for each, then this again.")


def book(
    folder: Path,
    submissions: Sequence[Submission],
    rows: Iterable[Graded],
    *,
    picture: Picture,
    kept: Callable[[str], Evidence | None],
) -> Booked:
    """Write results into the gradebook of a course.

    Args:
        folder: nbgrader's course directory.
        submissions: What was found in its `submitted/`.
        rows: The results, by student and lab. A submission without any as it is now is left alone.
        picture: Draws a model.
        kept: Reads the graphs of a file's name.

    Raises:
        CourseUnusable: If the gradebook cannot be written: it is locked, or the disk is full.
        CannotWrite: If a graded copy cannot be written.
    """
    course = course_at(folder)
    drawing = remembering(picture)
    found = {(each.student, each.lab, each.digest): each for each in submissions}
    written, skipped = 0, []
    with course.gradebook() as open_book:
        writing = _Writing(course, open_book, drawing, kept)
        for key, group in groupby(rows, key=lambda row: (row.student, row.lab, row.digest)):
            if (submission := found.get(key)) is None:
                continue
            reason = writing.write(submission, list(group))
            if reason:
                skipped.append((submission.student, submission.lab, reason))
            else:
                written += 1
    return Booked(written, tuple(skipped))


class _Writing:
    """One run's writing into one gradebook."""

    def __init__(
        self, course: Course, book: "Gradebook", picture: Picture, kept: Callable[[str], Evidence | None]
    ) -> None:
        self._course, self._book, self._picture, self._kept = course, book, picture, kept
        self._master = cache(lambda assignment, lab: _master_of(course, book, assignment, lab))

    def write(self, submission: Submission, rows: list[Graded]) -> str:
        """Write one submission's results; return why not, if nbgrader has no place for them."""
        from nbgrader.api import InvalidEntry
        from sqlalchemy.exc import SQLAlchemyError

        assignment = submission.path.parent.name
        place = self._course.folder("submitted", submission.student, assignment)
        if submission.path.resolve().parent != place.resolve():
            return f"It does not lie in {place.parent.parent.name}/<student>/<assignment>/."
        try:
            submission.student.encode()
        except UnicodeEncodeError:
            return "The student's name is no text that a database takes."
        try:
            master = self._master(assignment, submission.lab)
            if isinstance(master, str):
                return master
            stamp = handed_in_at(place)
            folder = self._course.folder("autograded", submission.student, assignment)
            if not write_copy(folder, submission, rows, master, self._picture, self._kept):
                return "It was handed in again while it was graded: run the same command again."
            self._record(submission, rows, assignment, master, stamp)
        except (SQLAlchemyError, InvalidEntry) as error:
            self._book.db.rollback()
            raise _interrupted(error) from None
        return ""

    def _record(
        self,
        submission: Submission,
        rows: list[Graded],
        assignment: str,
        master: Master,
        stamp: "datetime | None",
    ) -> None:
        student = submission.student
        self._book.update_or_create_student(student)
        entry = self._book.update_or_create_submission(assignment, student)
        notebook = next(each for each in entry.notebooks if each.name == master.notebook)
        again = entry.timestamp != stamp
        entry.timestamp = stamp
        checks = {check_cell(row.exercise): row for row in rows}
        for grade in notebook.grades:
            row = checks.get(grade.name)
            score = None if row is None else grade.max_score * row.points / row.possible
            if row is None and not again:
                continue  # a cell of the instructor's own, graded by nbgrader or by hand
            changed = again or grade.auto_score != score
            grade.auto_score = score
            if score is None or (grade.manual_score is not None and changed):
                grade.needs_manual_grade = True  # a person's score may be about other work
            elif grade.manual_score is None:
                grade.needs_manual_grade = False
        comments = {row.exercise: comment(row) for row in rows}
        for each in notebook.comments:
            if each.name in comments or again:
                each.auto_comment = comments.get(each.name)
        self._book.db.commit()
        self._penalty(entry, notebook, assignment, student, master.notebook)

    def _penalty(self, entry: Any, notebook: Any, assignment: str, student: str, name: str) -> None:  # noqa: ANN401
        """Let nbgrader's plugin say what being late costs."""
        late = entry.assignment.duedate is not None and entry.total_seconds_late > 0
        if not late and notebook.late_submission_penalty is None:
            return
        import nbformat
        from nbgrader.preprocessors import AssignLatePenalties

        resources = {"notebook": name, "assignment": assignment, "student": student}
        resources["db_url"] = self._course.directory.db_url
        settings = self._course.settings
        try:
            AssignLatePenalties(config=settings).preprocess(
                nbformat.v4.new_notebook(), {"nbgrader": resources}
            )
        except Exception as error:  # the plugin can be the instructor's own
            raise _interrupted(error) from None
        self._book.db.expire_all()


def _interrupted(error: Exception) -> CourseUnusable:
    reason = str(getattr(error, "orig", None) or error).splitlines()[0][:200]
    msg = f"The gradebook could not be written: {reason}."
    return CourseUnusable(
        msg, "The results are safe in --out.", "Run the same command again: nothing is graded twice."
    )


def _master_of(course: Course, book: "Gradebook", assignment: str, lab: str) -> Master | str:
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
            return _content(course, assignment, notebook)
    return f"The assignment {assignment!r} has no cells that check the exercises of {lab}."


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
    return Master(notebook.name, cells, prose)


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
