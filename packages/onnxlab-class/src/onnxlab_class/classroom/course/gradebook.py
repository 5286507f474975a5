"""Writes the grader's results into nbgrader's gradebook, through nbgrader's API, as if nbgrader had graded.

Each submission is written in two steps: its graded copy into `autograded/`, then its points and comments in
one transaction. If a run fails halfway, the next one writes the rest: the ledger keeps the results, and
writing them twice changes nothing. Scores, comments and extra credit that a person gave stay.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxlab.course.notebooks import NotebookUnreadable, read
from onnxlab.kit.exercise import lab as lab_record
from onnxlab.kit.outcome import Evidence
from onnxlab_class.classroom.course.graded_copy import ReleasedLab, check_cell, comment, write_copy
from onnxlab_class.classroom.course.nbgrader import SETTINGS, Course, CourseUnusable, course_at
from onnxlab_class.grading.reports import Picture, remembering
from onnxlab_class.grading.results import Graded
from onnxlab_class.grading.submissions import NotebookUnreadable as SubmissionUnreadable
from onnxlab_class.grading.submissions import Submission
from onnxlab_class.grading.submissions import read as read_submission

if TYPE_CHECKING:
    from datetime import datetime

    from nbgrader.api import Gradebook


@dataclass(frozen=True)
class GradebookUpdate:
    """What `book` has written.

    Attributes:
        submissions: How many submissions are in the gradebook.
        skipped: Student, lab and reason of each submission that is not.
    """

    submissions: int
    skipped: tuple[tuple[str, str, str], ...]


def check_course(folder: Path) -> None:
    """Check, before hours of grading, that there is a gradebook to write into.

    Raises:
        ClassroomMissing: If nbgrader is not installed.
        CourseUnusable: If the folder is no course of nbgrader with an assignment in its gradebook.
    """
    course = course_at(folder)
    database = str(course.directory.db_url)
    if database.startswith("sqlite:///") and not Path(database.removeprefix("sqlite:///")).exists():
        if (folder / SETTINGS).exists():
            raise CourseUnusable(
                f"The course in {folder} has no gradebook.",
                "",
                f"Make it, with the labs, with: onnxlab class init {folder}",
            )
        msg = f"{folder} is not nbgrader's course directory: it has no {SETTINGS} and no gradebook."
        then = "Name that directory; or leave --gradebook out: the marks are in --out either way."
        raise CourseUnusable(msg, "", then)
    with course.gradebook() as open_book:
        if not open_book.assignments:
            raise CourseUnusable(
                f"The gradebook of {folder} has no assignments.",
                "",
                "Run nbgrader generate_assignment for each, then this again.",
            )


def book(
    folder: Path,
    submissions: Sequence[Submission],
    rows: Iterable[Graded],
    *,
    picture: Picture,
    evidence: Callable[[str], Evidence | None],
) -> GradebookUpdate:
    """Write results into the gradebook of a course.

    Args:
        folder: nbgrader's course directory.
        submissions: The submissions in its `submitted/`.
        rows: The results, by student and lab. Results of an older file of a submission are passed over.
        picture: Draws a model.
        evidence: Reads the recorded graphs of a result.

    Raises:
        CourseUnusable: If the gradebook cannot be written: it is locked, or the disk is full.
        CannotWrite: If a graded copy cannot be written.
    """
    course = course_at(folder)
    drawing = remembering(picture)
    by_key = {(file.student, file.lab, file.digest): file for file in submissions}
    written, skipped = 0, []
    with course.gradebook() as open_book:
        writing = _Writing(course, open_book, drawing, evidence)
        for key, group in groupby(rows, key=lambda row: (row.student, row.lab, row.digest)):
            if (submission := by_key.get(key)) is None:
                continue
            reason = writing.write(submission, list(group))
            if reason:
                skipped.append((submission.student, submission.lab, reason))
            else:
                written += 1
    return GradebookUpdate(written, tuple(skipped))


class _Writing:
    """Writes the submissions of one run into one open gradebook."""

    def __init__(
        self, course: Course, book: "Gradebook", picture: Picture, evidence: Callable[[str], Evidence | None]
    ) -> None:
        self._course, self._book, self._picture, self._evidence = course, book, picture, evidence
        self._lab = cache(lambda assignment, lab: _released(course, book, assignment, lab))

    def write(self, submission: Submission, rows: list[Graded]) -> str:
        """Write one submission's results; return the reason if that is not possible, else ""."""
        from nbgrader.api import InvalidEntry
        from sqlalchemy.exc import SQLAlchemyError

        student, assignment = submission.student, submission.path.parent.name
        assignment_folder = self._course.folder("submitted", student, assignment)
        if submission.path.resolve().parent != assignment_folder.resolve():
            return f"It does not lie in {assignment_folder.parent.parent.name}/<student>/<assignment>/."
        try:
            student.encode()
        except UnicodeEncodeError:
            return "The student's name is no text that a database takes."
        try:
            lab = self._lab(assignment, submission.lab)
            if isinstance(lab, str):
                return lab
            stamp = _handed_in_at(assignment_folder)
            folder = self._course.folder("autograded", student, assignment)
            if not write_copy(folder, submission, rows, lab, self._picture, self._evidence):
                return "It was handed in again while it was graded: run the same command again."
            self._book.update_or_create_student(student)
            entry = self._book.update_or_create_submission(assignment, student)
            notebook = next(row for row in entry.notebooks if row.name == lab.name)
            resubmitted = entry.timestamp != stamp
            entry.timestamp = stamp
            _record(notebook, rows, resubmitted=resubmitted)
            self._book.db.commit()
            late = entry.assignment.duedate is not None and entry.total_seconds_late > 0
            if late or notebook.late_submission_penalty is not None:
                self._penalty({"notebook": lab.name, "assignment": assignment, "student": student})
        except (SQLAlchemyError, InvalidEntry) as error:
            self._book.db.rollback()
            raise _interrupted(error) from None
        return ""

    def _penalty(self, names: dict[str, str]) -> None:
        """Let nbgrader's plugin set the penalty for a late submission."""
        from nbformat.v4 import new_notebook
        from nbgrader.preprocessors import AssignLatePenalties

        resources = {"nbgrader": names | {"db_url": self._course.directory.db_url}}
        try:
            AssignLatePenalties(config=self._course.settings).preprocess(new_notebook(), resources)
        except Exception as error:  # the plugin can be the instructor's own
            raise _interrupted(error) from None
        self._book.db.expire_all()


def _record(notebook: Any, rows: list[Graded], *, resubmitted: bool) -> None:  # noqa: ANN401 - a row of nbgrader's
    """Set points and comments in the gradebook's rows of a submitted notebook.

    Args:
        notebook: The notebook in the gradebook.
        rows: The results.
        resubmitted: Whether the gradebook has another time for the submission.
    """
    checks = {check_cell(row.exercise): row for row in rows}
    for grade in notebook.grades:
        row = checks.get(grade.name)
        score = None if row is None else grade.max_score * row.points / row.possible
        if row is None and not resubmitted:
            continue  # a cell of the instructor's own, graded by nbgrader or by hand
        changed = resubmitted or grade.auto_score != score
        grade.auto_score = score
        if score is None or (grade.manual_score is not None and changed):
            grade.needs_manual_grade = True  # a person's score may be about other work
        elif grade.manual_score is None:
            grade.needs_manual_grade = False
    comments = {row.exercise: comment(row) for row in rows}
    for entry in notebook.comments:
        if entry.name in comments or resubmitted:
            entry.auto_comment = comments.get(entry.name)


def _handed_in_at(folder: Path) -> "datetime | None":
    """Return the time in a submission's timestamp.txt; None if there is no valid one."""
    from nbgrader.utils import parse_utc

    try:
        text = read_submission(folder / "timestamp.txt").decode().strip()
        time: datetime | None = parse_utc(text) if text else None
    except (SubmissionUnreadable, ValueError, OverflowError, TypeError):
        return None
    return time


def _interrupted(error: Exception) -> CourseUnusable:
    reason = str(getattr(error, "orig", None) or error).splitlines()[0][:200]
    msg = f"The gradebook could not be written: {reason}."
    return CourseUnusable(
        msg, "The results are safe in --out.", "Run the same command again: nothing is graded twice."
    )


def _released(course: Course, book: "Gradebook", assignment: str, lab: str) -> ReleasedLab | str:
    """Return a lab of an assignment, known by its check cells; or the reason why there is none."""
    from nbgrader.api import MissingEntry

    generate = f"run nbgrader generate_assignment {assignment}"
    try:
        notebooks = book.find_assignment(assignment).notebooks
    except MissingEntry:
        return f"The gradebook has no assignment {assignment!r}: {generate}."
    check_cells = {check_cell(exercise.id) for exercise in lab_record(lab).exercises}
    for notebook in notebooks:
        if check_cells & {cell.name for cell in notebook.grade_cells}:
            try:
                path = course.folder("release", ".", assignment) / f"{notebook.name}.ipynb"
                return ReleasedLab.of(notebook.name, read(path))
            except NotebookUnreadable:
                return f"The lab as it was released is not in {path.parent}: {generate}."
    return f"The assignment {assignment!r} has no cells that check the exercises of {lab}."
