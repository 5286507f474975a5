"""How a class did, in numbers: its table of grades, the counts of a run, how it stands with each exercise."""

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxlab.files import write_atomically
from onnxlab.grading.results import Graded
from onnxlab.labs.kit.outcome import Status
from onnxlab.plain_text import guarded, many, plain

__all__ = [
    "NOT_GRADED",
    "NOT_SUBMITTED",
    "Counts",
    "Standing",
    "count",
    "findings_of",
    "mistake",
    "standings",
    "summary_text",
    "write_grades",
]

NOT_SUBMITTED = "not submitted"
NOT_GRADED = "not graded"  # the grader failed: no mark, and so no total
_FREQUENT = 3  # mistakes that are shown for an exercise
_VALUE = re.compile(r"'[^' ]{1,80}'|[-+]?\d[\d.,]*(?:e[-+]?\d+)?", re.IGNORECASE)
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


@dataclass(frozen=True)
class Standing:
    """How a class stands with one exercise.

    Attributes:
        lab: The lab.
        exercise: The exercise.
        statuses: How many students stand how.
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
    def spoken(self) -> str:
        """The counts in words, for who does not see the bar."""
        return ", ".join(
            f"{self.statuses[status]} {status}" for status in Status if self.statuses.get(status)
        )


def standings(rows: Iterable[Graded]) -> list[Standing]:
    """Count how a class stands, by lab and in the order of the exercises.

    Messages that differ in numbers or quoted names only count as one mistake; the most frequent one is shown.
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
    """Return what an outcome says in one line: the first part that does not hold, else the error.

    Example:
        >>> mistake({"findings": [{"holds": False, "title": "a valid model", "message": "No node."}]})
        '✗ a valid model: No node.'
    """
    _, failed = findings_of(outcome)
    title = failed.get("title") if failed else None
    said = (failed or outcome).get("message") or ""
    return plain(f"\u2717 {title}: {said}" if title else said, 300)


def findings_of(outcome: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Return what an outcome says of each part, and of the first that does not hold."""
    findings = [each for each in outcome.get("findings") or [] if isinstance(each, dict)]
    return findings, next((each for each in findings if each.get("holds") is False), None)


def summary_text(found: Sequence[Standing], width: int = 100) -> str:
    """Return a table for a terminal, with the mistakes below each exercise.

    Args:
        found: The standings.
        width: The columns of the terminal.
    """
    names = max([len(each.exercise) for each in found] + [len("exercise")])
    heads = [str(status) for status in Status]
    lines = [f"{'exercise':<{names}}  " + "  ".join(heads)]
    lab = ""
    for each in found:
        if each.lab != lab:
            lab = each.lab
            lines.append(f"{plain(lab, 60)}:")
        numbers = "  ".join(f"{each.statuses.get(status, 0):>{len(status)}}" for status in Status)
        lines.append(f"{plain(each.exercise, names):<{names}}  {numbers}")
        for text, count in each.mistakes:
            room = max(20, width - 8)
            cut = text if len(text) <= room else f"{text[: room - 1]}…"
            lines.append(f"  {count:>4}  {cut}")
    return "\n".join(lines)


def _most_frequent(groups: dict[str, Counter[str]]) -> tuple[tuple[str, int], ...]:
    found = [(max(texts, key=lambda text: (texts[text], text)), texts.total()) for texts in groups.values()]
    return tuple(sorted(found, key=lambda each: (-each[1], each[0]))[:_FREQUENT])
