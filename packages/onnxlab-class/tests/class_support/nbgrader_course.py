"""A small nbgrader course for tests: making it, submitting to it, and reading its gradebook."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat

from onnxlab.kit.exercise import Exercise
from onnxlab.kit.exercise import lab as lab_record
from onnxlab.kit.outcome import Difference, Finding, Outcome, Status
from onnxlab_class.classroom.course.gradebook import GradebookUpdate, book
from onnxlab_class.classroom.course.nbgrader import Course, course_at
from onnxlab_class.grading.results import Graded
from onnxlab_class.grading.submissions import find

ROOT = Path(__file__).parents[4]
LAB = "lab04_asinh"
EXERCISES = lab_record(LAB).exercises
SCRIPT = "<script>alert(1)</script>"
SETTINGS = """
from pathlib import Path
here = Path(__file__).resolve().parent
c = get_config()
c.CourseDirectory.course_id = "small"
c.CourseDirectory.root = str(here)
c.Exchange.root = str(here / "exchange")
"""


def small_course(folder: Path, assignment: str = LAB, notebook: str = LAB) -> Course:
    """A course with one lab in it, as an instructor might have it."""
    place = folder / "source" / assignment
    place.mkdir(parents=True)
    shutil.copy(ROOT / "solutions" / f"{LAB}.ipynb", place / f"{notebook}.ipynb")
    (folder / "nbgrader_config.py").write_text(SETTINGS)
    course = course_at(folder)
    course.generate(assignment)
    return course


def notebook(kind: str = "solutions", lab: str = LAB) -> nbformat.NotebookNode:
    return nbformat.read(ROOT / kind / f"{lab}.ipynb", 4)


def named(book: nbformat.NotebookNode, name: str) -> nbformat.NotebookNode:
    """The cell that nbgrader knows by a name."""
    return next(cell for cell in book.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == name)


def hand_in(
    folder: Path,
    student: str,
    book: nbformat.NotebookNode | bytes,
    *,
    assignment: str = LAB,
    file: str = f"{LAB}.ipynb",
    when: str | None = "2026-11-20 10:00:00 UTC",
) -> Path:
    """Put a submission where `nbgrader collect` would."""
    place = folder / "submitted" / student / assignment
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    path = place / file
    path.write_bytes(book if isinstance(book, bytes) else json.dumps(book).encode())
    if when is not None:
        (place / "timestamp.txt").write_text(when)
        (place / "submission_secret.txt").write_text(f"secret of {student}")
    return path


def nbgrader(folder: Path, *arguments: str, **environment: str) -> str:
    """Run a command of nbgrader as an instructor would, or as a learner in a folder of their own."""
    own = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "JUPYTER_CONFIG_DIR": str(folder / ".jupyter-config"),
        "JUPYTER_DATA_DIR": str(folder / ".jupyter-data"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=folder,
        env=os.environ | own | environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def points(course: Course, assignment: str = LAB) -> dict[str, dict[str, float]]:
    """For each student the score of each check cell, as formgrader shows it."""
    with course.gradebook() as book:
        return {
            entry.student.id: {grade.name: grade.score for row in entry.notebooks for grade in row.grades}
            for entry in book.assignment_submissions(assignment)
        }


def comments(course: Course, student: str, assignment: str = LAB) -> dict[str, str | None]:
    with course.gradebook() as book:
        entry = book.find_submission(assignment, student)
        return {comment.name: comment.comment for row in entry.notebooks for comment in row.comments}


def root(course: Course) -> Path:
    return Path(course.directory.root)


def outcome_of(exercise: Exercise, status: Status) -> Outcome:
    """An outcome as a judge might return it; its quotations are hostile."""
    passed = status is Status.PASSED
    findings: tuple[Finding, ...] = ()
    if status is Status.INCORRECT:
        shown = Difference(f"x = 3 {SCRIPT}", "1.5", "\x1b[31mnan")
        findings = (
            Finding(exercise.parts[0], True),
            Finding(exercise.parts[-1], False, f"Off by 0.5 {SCRIPT}", "the node `Log`", shown),
        )
    message = f"NameError: {SCRIPT}" if status is Status.ERROR else ""
    return Outcome(exercise.id, status, exercise.points if passed else 0, exercise.points, findings, message)


def graded(course: Course, marks: dict[str, list[Status]]) -> list[Graded]:
    """The ledger's rows for the present files."""
    rows = []
    for submission in find(root(course)).submissions:
        for exercise, status in zip(EXERCISES, marks.get(submission.student, []), strict=False):
            outcome = outcome_of(exercise, status)
            points = (outcome.points, outcome.possible)
            names = (submission.student, submission.lab, exercise.id)
            rows.append(Graded(*names, str(status), *points, submission.digest, outcome.as_json()))
    return rows


def write(course: Course, rows: list[Graded]) -> GradebookUpdate:
    return book(
        root(course),
        find(root(course)).submissions,
        rows,
        picture=lambda model, highlight: "<img alt='a graph'>",
        evidence=lambda name: None,
    )


def grade(course: Course, **marks: list[Status]) -> GradebookUpdate:
    return write(course, graded(course, marks))
