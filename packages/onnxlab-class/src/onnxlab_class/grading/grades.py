"""Grades: the table grades.csv, the counts of a run, and a class's standing with each exercise."""

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxlab.errors import UnknownExercise
from onnxlab.files import write_atomically
from onnxlab.kit.exercise import lab as lab_record
from onnxlab.kit.outcome import Status
from onnxlab.language import tr
from onnxlab.plain_text import aligned, escape_formula, plain, pluralise
from onnxlab_class.grading.results import Graded
from onnxlab_class.grading.submissions import NOT_SUBMITTED

NOT_GRADED = "not graded"  # the grader failed: no points, and so no total
_MOST_MISTAKES = 3  # that are shown for an exercise
_VALUE = re.compile(r"'[^' ]{1,80}'|[-+]?\d[\d.,]*(?:e[-+]?\d+)?", re.IGNORECASE)
_POSSIBLE = ("possible in labs handed in", "possible in all labs")


@dataclass(frozen=True)
class Counts:
    """The totals of all results in an output folder.

    Attributes:
        students: How many students have rows.
        submissions: How many submissions.
        statuses: How many exercises have each status.
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
            '2 submissions, 2 students; exercises: 7 passed, 1 error'
        """
        text = f"{pluralise(self.submissions, 'submission')}, {pluralise(self.students, 'student')}"
        if any(self.statuses.values()):
            text += f"; exercises: {_in_words(self.statuses)}"
        if self.failed:
            text += f"; not graded, as the grader failed: {self.failed:,}"
        return text


def count(rows: Iterable[Graded], failures: Collection[tuple[str, str]] = ()) -> Counts:
    """Count rows, and the students and labs that could not be graded."""
    statuses: Counter[Status] = Counter()
    submissions: set[tuple[str, str]] = set()
    for row in rows:
        statuses[Status(row.status)] += 1
        submissions.add((row.student, row.lab))
    students = {student for student, _ in submissions}
    return Counts(len(students), len(submissions), dict(statuses), len(failures))


def write_grades(
    path: Path,
    rows: Iterable[Graded],
    failures: Collection[tuple[str, str]] = (),
    without: Mapping[str, str] | None = None,
) -> None:
    """Write grades.csv: for each student the total, each lab's points, each exercise's points and status.

    Two columns after the total have the points that are possible in the labs that the student handed in, and
    in all labs that anybody handed in. A lab that only others handed in counts 0 and is "not submitted".
    Where the grader failed, the points and the total are empty: nobody gets a mark that they did not earn.
    A name that a spreadsheet would read as a formula gets an apostrophe before it. `failures` are the
    students and labs that could not be graded, `without` the students without a submission, as in `Intake`.
    """
    without = without or {}
    labs: dict[str, dict[str, int]] = {}  # the possible points of each exercise
    students: dict[str, dict[str, tuple[int, str]]] = {student: {} for student, _ in failures}
    students |= {student: {} for student in without}
    for row in rows:
        labs.setdefault(row.lab, {}).setdefault(row.exercise, row.possible)
        students.setdefault(row.student, {})[row.exercise] = (row.points, row.status)
    failed: dict[str, set[str]] = {}
    for student, lab in failures:
        failed.setdefault(student, set()).add(lab)
        # Also where nobody's submission of this lab was graded: what is possible must not depend on others.
        labs.setdefault(lab, _possible_points(lab))
    ordered = sorted(labs)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["student", "total", *_POSSIBLE, *_headings(labs, ordered)])
    possible = {lab: sum(exercises.values()) for lab, exercises in labs.items()}
    for student in sorted(students, key=lambda name: name.encode("utf-8", "surrogatepass")):
        marks = students[student]
        missing = NOT_SUBMITTED if marks else without.get(student, NOT_SUBMITTED)
        cells, total = _cells(marks, labs, ordered, failed.get(student, set()), missing)
        own = sum(points for lab, points in possible.items() if not marks.keys().isdisjoint(labs[lab]))
        unknown = student in failed or (not marks and missing != NOT_SUBMITTED)
        sums = ["", ""] if unknown else [total, own]
        writer.writerow([escape_formula(student), *sums, sum(possible.values()), *cells])
    write_atomically(path, text.getvalue())


def _possible_points(name: str) -> dict[str, int]:
    """Return the points of a lab's exercises; none for a lab that the course does not have."""
    try:
        return {exercise.id: exercise.points for exercise in lab_record(name).exercises}
    except UnknownExercise:
        return {}


def _headings(labs: dict[str, dict[str, int]], ordered: list[str]) -> list[str]:
    exercises = [exercise for lab in ordered for exercise in labs[lab]]
    return [*ordered, *(heading for name in exercises for heading in (name, f"{name} status"))]


def _cells(
    marks: dict[str, tuple[int, str]],
    labs: dict[str, dict[str, int]],
    ordered: list[str],
    failed: set[str],
    missing: str,
) -> tuple[list[object], int]:
    lab_cells: list[object] = []
    exercise_cells: list[object] = []
    total = 0
    for lab in ordered:
        if lab in failed:
            lab_cells.append("")
            exercise_cells += ["", NOT_GRADED] * len(labs[lab])
            continue
        pairs = [marks.get(exercise, (0, missing)) for exercise in labs[lab]]
        points = sum(points for points, _ in pairs)
        lab_cells.append(points)
        exercise_cells += [cell for pair in pairs for cell in pair]
        total += points
    return [*lab_cells, *exercise_cells], total


@dataclass(frozen=True)
class Standing:
    """A class's standing with one exercise.

    Attributes:
        lab: The lab.
        exercise: The exercise.
        statuses: How many students have each status.
        mistakes: The most frequent messages with their counts.
    """

    lab: str
    exercise: str
    statuses: dict[Status, int]
    mistakes: tuple[tuple[str, int], ...]

    @property
    def students(self) -> int:
        """How many handed the exercise's lab in."""
        return sum(self.statuses.values())

    @property
    def in_words(self) -> str:
        """The counts in words, for a screen reader."""
        return _in_words(self.statuses)


def standings(rows: Iterable[Graded]) -> list[Standing]:
    """Return a class's standings, by lab and in the order of the exercises.

    Messages that differ only in numbers or quoted names count as one mistake; the most frequent one is shown.
    """
    statuses: dict[tuple[str, str], Counter[Status]] = defaultdict(Counter)
    messages: dict[tuple[str, str], dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for row in rows:
        key = (row.lab, row.exercise)
        statuses[key][Status(row.status)] += 1
        if text := mistake(row.outcome):
            messages[key][_VALUE.sub("#", text)][text] += 1
    ordered = sorted(statuses, key=lambda key: key[0])  # stable: exercises stay in the order of their lab
    return [Standing(*key, dict(statuses[key]), _most_frequent(messages[key])) for key in ordered]


def mistake(outcome: dict[str, Any]) -> str:
    """Return an outcome's mistake in one line: the first part that does not hold, else the error.

    Example:
        >>> mistake({"findings": [{"holds": False, "title": "a valid model", "message": "No node."}]})
        '✗ a valid model: No node.'
    """
    _, failed = findings_of(outcome)
    title = failed.get("title") if failed else None
    message = (failed or outcome).get("message") or ""
    return plain(f"\u2717 {title}: {message}" if title else message, 300)


def findings_of(outcome: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Return an outcome's findings, and the first that does not hold."""
    findings = [finding for finding in outcome.get("findings") or [] if isinstance(finding, dict)]
    return findings, next((finding for finding in findings if finding.get("holds") is False), None)


def summary_text(standings: Sequence[Standing], width: int = 100) -> str:
    """Return a table for a terminal of some columns, with the mistakes below each exercise."""
    rows = [[tr("exercise"), *map(tr, Status)]]
    for standing in standings:
        numbers = [str(standing.statuses.get(status, 0)) for status in Status]
        rows.append([plain(standing.exercise, 40), *numbers])
    heading, *table = aligned(rows)
    lines, lab = [heading], ""
    for standing, line in zip(standings, table, strict=True):
        if standing.lab != lab:
            lab = standing.lab
            lines.append(f"{plain(lab, 60)}:")
        lines.append(line)
        for mistake_text, count in standing.mistakes:
            room, text = max(20, width - 8), tr(mistake_text)
            lines.append(f"  {count:>4}  {text if len(text) <= room else f'{text[: room - 1]}…'}")
    return "\n".join(lines)


def _most_frequent(groups: dict[str, Counter[str]]) -> tuple[tuple[str, int], ...]:
    mistakes = [
        (max(texts, key=lambda text: (texts[text], text)), texts.total()) for texts in groups.values()
    ]
    return tuple(sorted(mistakes, key=lambda pair: (-pair[1], pair[0]))[:_MOST_MISTAKES])


def _in_words(statuses: Mapping[Status, int]) -> str:
    return ", ".join(f"{statuses[status]} {status}" for status in Status if statuses.get(status))
