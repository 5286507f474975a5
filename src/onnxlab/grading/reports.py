"""The pages of a run: what each student reads about their work, the instructor's list, how the class did.

Each is one file: no script, nothing loaded, for light and dark screens. A page is made from rows alone: the
seed, the judges and other students' work are not in them. The templates are Jinja's, with autoescape:
whatever a student wrote is text in them. Before it is escaped, it goes through `plain`, since escaping leaves
control characters and turned text as they are.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from onnxlab.errors import OnnxLabError, UnknownExercise
from onnxlab.files import write_atomically
from onnxlab.grading import results
from onnxlab.grading.grades import Standing, findings_of, standings, write_grades
from onnxlab.grading.results import Graded, Ledger
from onnxlab.grading.submissions import safe_name
from onnxlab.grading.worker.task import exercise, lab
from onnxlab.labs.kit.outcome import Evidence, Status
from onnxlab.plain_text import many, plain

__all__ = [
    "Picture",
    "exercise_section",
    "remembering",
    "student_page",
    "summary_html",
    "write_feedback",
    "write_reports",
]

Picture: TypeAlias = Callable[[bytes, Sequence[str]], str]
"""Draws a model with some of it highlighted, as an `<img>` tag. May raise `OnnxLabError`."""

_COLOURS = {  # the word always stands beside it
    Status.PASSED: "var(--passed)",
    Status.INCORRECT: "var(--incorrect)",
    Status.ERROR: "var(--error)",
    Status.TIMED_OUT: "var(--late)",
    Status.NOT_ATTEMPTED: "var(--open)",
}
_MARKS = {True: "\u2713", False: "\u2717", None: "\u2013"}
_DRAWN = 64  # pictures that are kept for the next student: many make the same mistake


def write_reports(
    ledger: Ledger, picture: Picture, *, ignored: Iterable[tuple[Path, str]] = ()
) -> list[Standing]:
    """Write the grades, the pages for students and the summary into the ledger's folder.

    Args:
        ledger: The rows.
        picture: Draws a model.
        ignored: The files that were not taken, for the instructor.

    Returns:
        How the class stands with each exercise.

    Raises:
        CannotWrite: If there is no room. The ledger stays as it is.
    """
    folder, failures = ledger.folder, ledger.failures
    write_grades(folder / "grades.csv", ledger.rows(), failures)
    write_feedback(folder, ledger.rows(), picture, failures=failures, ignored=ignored)
    found = standings(ledger.rows())
    write_atomically(folder / "summary.html", summary_html(found))
    return found


def summary_html(found: Sequence[Standing]) -> str:
    """Return how a class did as a page, with a bar for each exercise."""
    return _rendered("summary.html", standings=found)


def write_feedback(
    folder: Path,
    rows: Iterable[Graded],
    picture: Picture,
    *,
    failures: Mapping[tuple[str, str], str] | None = None,
    ignored: Iterable[tuple[Path, str]] = (),
) -> int:
    """Write `feedback/<student>.html` for each student, and `index.html` for the instructor.

    Args:
        folder: The output folder, with the folder of evidence in it.
        rows: The rows that count, by student.
        picture: Draws a model.
        failures: What could not be graded, by student and lab; only the instructor reads why.
        ignored: The files that were not taken, for the instructor.

    Returns:
        How many students have a page.
    """
    failures = failures or {}
    draw = remembering(picture)
    students: dict[str, dict[str, tuple[int, int]]] = {}
    for student, group in groupby(rows, key=lambda row: row.student):
        own = list(group)
        pending = sorted(name for whose, name in failures if whose == student)
        text = student_page(student, own, draw, lambda name: results.kept(folder, name), pending)
        write_atomically(folder / "feedback" / f"{safe_name(student)}.html", text)
        students[student] = {name: _sums(each) for name, each in _by_lab(own)}
    index = _rendered(
        "index.html",
        students=students,
        files={student: safe_name(student) for student in students},
        labs=sorted({name for marks in students.values() for name in marks}),
        failures=[(f"{student}, {name}", why) for (student, name), why in sorted(failures.items())],
        ignored=sorted(ignored),
    )
    write_atomically(folder / "index.html", index)
    return len(students)


def student_page(
    student: str,
    rows: Sequence[Graded],
    picture: Picture,
    kept: Callable[[str], Evidence | None],
    pending: Sequence[str] = (),
) -> str:
    """Return one student's page.

    Args:
        student: The student.
        rows: The student's rows, by lab.
        picture: Draws a model.
        kept: Reads the graphs of a file's name.
        pending: Labs whose newest submission could not be graded yet.
    """
    labs = [
        (name, _sums(own), own[0].submission_note, [exercise_section(row, picture, kept) for row in own])
        for name, own in _by_lab(rows)
    ]
    return _rendered("feedback.html", student=student, total=_sums(rows), labs=labs, pending=pending)


def exercise_section(row: Graded, picture: Picture, kept: Callable[[str], Evidence | None]) -> Markup:
    """Return what a page says about one exercise, as HTML to stand in it.

    Args:
        row: The row.
        picture: Draws a model.
        kept: Reads the graphs of a file's name.
    """
    outcome = row.outcome
    findings, failed = findings_of(outcome)
    difference = failed.get("difference") if failed else None
    number, _, code = str(outcome.get("where") or "").partition(":")
    status = Status(row.status) if row.status in list(Status) else Status.ERROR
    section = _rendered(
        "exercise.html",
        row=row,
        outcome=outcome,
        tone=_COLOURS[status],
        line=number,
        code=code.strip(),
        findings=[(_MARKS.get(each.get("holds"), ""), each.get("title", "")) for each in findings],
        failed=failed,
        difference=difference if isinstance(difference, dict) else None,
        graphs=_graphs(kept(row.evidence) if row.evidence else None, picture),
    )
    return Markup(section)


def _graphs(graphs: Evidence | None, picture: Picture) -> list[tuple[str, Markup]]:
    if graphs is None:
        return []
    shown = [("Your model", graphs.model), ("What was expected", graphs.expected)]
    # A picture is a tag that this package makes; names of nodes are inside of its data.
    return [
        (caption, Markup(picture(model, graphs.highlight))) for caption, model in shown if model is not None
    ]


def remembering(picture: Picture) -> Picture:
    """Return a picture function that remembers, since many make the same mistake, and that never fails."""

    @lru_cache(maxsize=_DRAWN)
    def draw(model: bytes, highlight: tuple[str, ...]) -> str:
        try:
            return picture(model, highlight)
        except OnnxLabError:
            return '<p class="aside">This graph could not be drawn.</p>'

    return lambda model, highlight: draw(model, tuple(highlight))


def _by_lab(rows: Iterable[Graded]) -> list[tuple[str, list[Graded]]]:
    return [(name, list(each)) for name, each in groupby(rows, key=lambda row: row.lab)]


def _sums(rows: Sequence[Graded]) -> tuple[int, int]:
    """Return the points of rows, and what is possible."""
    return sum(row.points for row in rows), sum(row.possible for row in rows)


def _rendered(template: str, **values: Any) -> str:  # noqa: ANN401 - whatever a template shows
    """Return a template of `templates/` with values in it, as HTML."""
    return _environment().get_template(template).render(values)


def _marked_up(text: object) -> Markup:
    """Return a message in which backticks set code apart.

    Example:
        >>> _marked_up("`Resize` < 11")
        Markup('<code>Resize</code> &lt; 11')
    """
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(plain(text)))))


def _lines(text: object) -> Markup:
    return escape(plain(text, lines=True))


def _shown(value: object) -> object:
    """Make every value that a template shows plain, unless it is HTML of ours."""
    return value if isinstance(value, Markup) else plain(value)


def _lab_title(name: str) -> str:
    try:
        return f"{name.partition('_')[0].replace('lab', 'Lab ')}: {lab(name).title}"
    except UnknownExercise:  # a lab that there is no more
        return name


def _exercise_title(name: str) -> str:
    try:
        return exercise(name)[1].title
    except UnknownExercise:
        return ""


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("onnxlab.grading"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "cut": plain,
        "exercise_title": _exercise_title,
        "lab_title": _lab_title,
        "lines": _lines,
        "marked_up": _marked_up,
    }
    environment.globals |= {"colours": _COLOURS, "many": many, "statuses": list(Status)}
    return environment
