"""The class's grades as a table for a spreadsheet or a learning platform, and the counts of a run."""

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from onnxlab.files import write_atomically
from onnxlab.grading.results import Graded
from onnxlab.labs.kit.outcome import Status
from onnxlab.plain_text import guarded, many, plain

__all__ = ["NOT_GRADED", "NOT_SUBMITTED", "Counts", "count", "result_text", "write_grades"]

NOT_SUBMITTED = "not submitted"
NOT_GRADED = "not graded"  # the grader failed: no mark, and so no total
_MARKS = {True: "\u2713", False: "\u2717", None: "\u2013"}
_POSSIBLE = ("possible in labs handed in", "possible in all labs")


@dataclass(frozen=True)
class Counts:
    """What a run, and those before it in the same folder, came to.

    Attributes:
        students: How many students have rows.
        submissions: How many submissions.
        statuses: How many exercises stand how.
        failed: How many submissions could not be graded.
    """

    students: int
    submissions: int
    statuses: dict[Status, int]
    failed: int = 0

    def line(self) -> str:
        """Return the counts as one line.

        Example:
            >>> Counts(2, 2, {Status.PASSED: 7, Status.ERROR: 1}).line()
            '2 submissions of 2 students; exercises: 7 passed, 1 error'
        """
        text = f"{many(self.submissions, 'submission')} of {many(self.students, 'student')}"
        shown = [f"{self.statuses[each]} {each}" for each in Status if self.statuses.get(each)]
        if shown:
            text += f"; exercises: {', '.join(shown)}"
        if self.failed:
            text += f"; {many(self.failed, 'submission')} not graded (the grader failed; run it again)"
        return text


def count(rows: Iterable[Graded], failures: Collection[tuple[str, str]] = ()) -> Counts:
    """Count rows.

    Args:
        rows: The rows, one for each student and exercise.
        failures: The students and labs that could not be graded.
    """
    statuses: Counter[Status] = Counter()
    submissions: set[tuple[str, str]] = set()
    for row in rows:
        statuses[Status(row.status)] += 1
        submissions.add((row.student, row.lab))
    students = {student for student, _ in submissions}
    return Counts(len(students), len(submissions), dict(statuses), len(failures))


def write_grades(path: Path, rows: Iterable[Graded], failures: Collection[tuple[str, str]] = ()) -> None:
    """Write grades.csv: for each student the total, each lab's points, each exercise's points and status.

    Beside the total stands what is possible in the labs that the student handed in, as on the student's page,
    and in all labs that anybody did. A lab that only others handed in counts 0 and stands as "not submitted".
    Where the grader failed, the points are left empty, and so is the total: nobody gets a mark that they did
    not earn. A name that a spreadsheet would take for a formula gets an apostrophe before it.

    Args:
        path: The file.
        rows: The rows, by student.
        failures: The students and labs that could not be graded.
    """
    labs: dict[str, dict[str, int]] = {}  # what each exercise can give
    students: dict[str, dict[str, tuple[int, str]]] = {student: {} for student, _ in failures}
    for row in rows:
        labs.setdefault(row.lab, {}).setdefault(row.exercise, row.possible)
        students.setdefault(row.student, {})[row.exercise] = (row.points, row.status)
    lost: dict[str, set[str]] = {}
    for student, lab in failures:
        lost.setdefault(student, set()).add(lab)
        labs.setdefault(lab, {})
    ordered = sorted(labs)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["student", "total", *_POSSIBLE, *_headings(labs, ordered)])
    possible = {lab: sum(each.values()) for lab, each in labs.items()}
    for student in sorted(students, key=lambda name: name.encode("utf-8", "surrogatepass")):
        marks = students[student]
        cells, total = _cells(marks, labs, ordered, lost.get(student, set()))
        own = sum(points for lab, points in possible.items() if not marks.keys().isdisjoint(labs[lab]))
        sums = ["", ""] if student in lost else [total, own]
        writer.writerow([guarded(student), *sums, sum(possible.values()), *cells])
    write_atomically(path, text.getvalue())


def result_text(row: Graded) -> str:
    """Return what a student reads about an exercise, as plain text: a line for each thing said."""
    outcome = row.outcome
    findings = [each for each in outcome.get("findings") or [] if isinstance(each, dict)]
    lines = [row.status, outcome.get("message")]
    if outcome.get("where"):
        lines.append(f"In your code, {outcome['where']}")
    lines += [f"{_MARKS.get(each.get('holds'), '')} {each.get('title', '')}" for each in findings]
    failed = next((each for each in findings if each.get("holds") is False), None)
    if failed:
        lines.append(failed.get("message"))
        difference = failed.get("difference")
        if isinstance(difference, dict):
            lines += [f"  for          {difference.get('given', '')}"]
            lines += [f"  right is     {difference.get('expected', '')}"]
            lines += [f"  yours gives  {difference.get('got', '')}"]
        if failed.get("look_at"):
            lines.append(f"Look at: {failed['look_at']}")
    return "\n".join(plain(line) for line in lines if line)


def _headings(labs: dict[str, dict[str, int]], ordered: list[str]) -> list[str]:
    exercises = [exercise for lab in ordered for exercise in labs[lab]]
    return [*ordered, *(name for each in exercises for name in (each, f"{each} status"))]


def _cells(
    marks: dict[str, tuple[int, str]], labs: dict[str, dict[str, int]], ordered: list[str], lost: set[str]
) -> tuple[list[object], int]:
    points_of_labs: list[object] = []
    of_exercises: list[object] = []
    total = 0
    for lab in ordered:
        if lab in lost:
            points_of_labs.append("")
            of_exercises += ["", NOT_GRADED] * len(labs[lab])
            continue
        found = [marks.get(exercise, (0, NOT_SUBMITTED)) for exercise in labs[lab]]
        points_of_labs.append(sum(points for points, _ in found))
        of_exercises += [cell for pair in found for cell in pair]
        total += sum(points for points, _ in found)
    return [*points_of_labs, *of_exercises], total
