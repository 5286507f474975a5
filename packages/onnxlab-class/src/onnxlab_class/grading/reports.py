"""Reports: a feedback page for each student, the instructor's index, and a summary of the class.

Each page is one file without scripts that loads nothing, for light and dark screens. A student's page is made
from that student's rows alone: the seed, the judges and other students' work are not in it. The templates are
Jinja's, with autoescape, so whatever a student wrote is text. Before it is escaped it goes through `plain`,
since escaping leaves control characters and right-to-left overrides as they are.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from onnxlab.errors import OnnxLabError, UnknownExercise
from onnxlab.files import write_atomically
from onnxlab.kit.exercise import exercise, lab
from onnxlab.kit.outcome import Evidence, Status
from onnxlab.language import spoken_language, tr
from onnxlab.model.graph import walk
from onnxlab.model.load import load
from onnxlab.plain_text import plain, pluralise
from onnxlab_class.grading.grades import Standing, findings_of, standings, write_grades
from onnxlab_class.grading.results import EVIDENCE, Graded, Ledger, read_evidence
from onnxlab_class.grading.submissions import safe_name

Picture: TypeAlias = Callable[[bytes, Sequence[str]], str]
"""Draws a model with some of it highlighted, as an `<img>` tag. May raise `OnnxLabError`."""

_COLOURS = {  # the status is always written beside them, too
    Status.PASSED: "var(--passed)",
    Status.INCORRECT: "var(--incorrect)",
    Status.ERROR: "var(--error)",
    Status.TIMED_OUT: "var(--late)",
    Status.NOT_ATTEMPTED: "var(--open)",
}
_MARKS = {True: "\u2713", False: "\u2717", None: "\u2013"}
_CACHED_PICTURES = 64  # many students make the same mistake
_LARGEST_GRAPH = 300  # inputs and outputs of all nodes; eight hundred between forty nodes take ten seconds
_LONGEST = 500  # characters of a text that is looked up: a student may have written it to take long
_ASIDE = '<p class="aside">{}</p>'


def write_reports(
    ledger: Ledger,
    picture: Picture,
    *,
    ignored: Iterable[tuple[Path, str]] = (),
    without: Mapping[str, str] | None = None,
) -> list[Standing]:
    """Write the grades, the pages for students and the summary into the ledger's folder.

    Args:
        ledger: The rows.
        picture: Draws a model.
        ignored: The files that were not taken, for the instructor.
        without: The students without a submission, as in `Intake`.

    Returns:
        The class's standing with each exercise.

    Raises:
        CannotWrite: If there is no room. The ledger stays as it is.
    """
    folder, failures = ledger.folder, ledger.failures
    write_grades(folder / "grades.csv", ledger.rows(), failures, without)
    write_feedback(folder, ledger.rows(), picture, failures=failures, ignored=ignored, without=without)
    class_standings = standings(ledger.rows())
    write_atomically(folder / "summary.html", summary_html(class_standings))
    return class_standings


def summary_html(standings: Sequence[Standing]) -> str:
    """Return the summary of a class as a page, with a bar for each exercise."""
    return _rendered("summary.html", standings=standings)


def write_feedback(
    folder: Path,
    rows: Iterable[Graded],
    picture: Picture,
    *,
    failures: Mapping[tuple[str, str], str] | None = None,
    ignored: Iterable[tuple[Path, str]] = (),
    without: Mapping[str, str] | None = None,
) -> int:
    """Write `feedback/<student>.html` for each student, and `index.html` for the instructor.

    Args:
        folder: The output folder, with the folder of evidence in it.
        rows: The rows, by student.
        picture: Draws a model.
        failures: The reasons for what could not be graded, by student and lab; only for the instructor.
        ignored: The files that were not taken, for the instructor.
        without: The students without a submission, as in `Intake`.

    Returns:
        How many students have a page.
    """
    failures = failures or {}
    draw = remembering(picture, folder / EVIDENCE)
    students: dict[str, dict[str, tuple[int, int]]] = {}
    for student, group in groupby(rows, key=lambda row: row.student):
        student_rows = list(group)
        pending = sorted(lab_name for failed, lab_name in failures if failed == student)
        text = student_page(student, student_rows, draw, partial(read_evidence, folder), pending)
        write_atomically(folder / "feedback" / f"{safe_name(student)}.html", text)
        students[student] = {name: _sums(lab_rows) for name, lab_rows in _by_lab(student_rows)}
    possible: dict[str, int] = {}
    for name, (_, most) in (pair for marks in students.values() for pair in marks.items()):
        possible[name] = max(most, possible.get(name, 0))
    others = {student: why for student, why in sorted((without or {}).items()) if student not in students}
    index = _rendered(
        "index.html",
        students=students | {student: {} for student in others},
        files={student: safe_name(student) for student in students},
        without=others,
        labs=sorted(possible.items()),
        failures=[(f"{student}, {name}", why) for (student, name), why in sorted(failures.items())],
        ignored=sorted(ignored),
    )
    write_atomically(folder / "index.html", index)
    return len(students)


def student_page(
    student: str,
    rows: Sequence[Graded],
    picture: Picture,
    evidence: Callable[[str], Evidence | None],
    pending: Sequence[str] = (),
) -> str:
    """Return one student's page, from rows by lab; `pending` are labs whose newest could not be graded yet.

    `evidence` reads a row's graphs, given their file's name.
    """
    labs = [
        (
            name,
            _sums(lab_rows),
            lab_rows[0].submission_note,
            [exercise_section(row, picture, evidence) for row in lab_rows],
        )
        for name, lab_rows in _by_lab(rows)
    ]
    return _rendered("feedback.html", student=student, total=_sums(rows), labs=labs, pending=pending)


def exercise_section(row: Graded, picture: Picture, evidence: Callable[[str], Evidence | None]) -> Markup:
    """Return what a page says about one exercise, as HTML to stand in it."""
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
        findings=[(_MARKS.get(finding.get("holds"), ""), finding.get("title", "")) for finding in findings],
        failed=failed,
        difference=difference if isinstance(difference, dict) else None,
        graphs=_graphs(evidence(row.evidence) if row.evidence else None, picture),
    )
    return Markup(section)


def _graphs(graphs: Evidence | None, picture: Picture) -> list[tuple[str, Markup]]:
    if graphs is None:
        return []
    models = [(tr("Your model"), graphs.model), (tr("What was expected"), graphs.expected)]
    # A picture is a tag that this package makes; the names of nodes are inside its data URL.
    return [
        (caption, Markup(picture(model, graphs.highlight))) for caption, model in models if model is not None
    ]


def remembering(picture: Picture, folder: Path | None = None) -> Picture:
    """Return a picture function that draws each graph once, and gives a sentence for one it cannot draw.

    Drawings are kept in the folder for the next run; without one, in memory only.
    """

    @lru_cache(maxsize=_CACHED_PICTURES)
    def draw(model: bytes, highlight: tuple[str, ...]) -> str:
        key = repr((version("onnxlab"), spoken_language(), highlight)).encode() + model
        path = folder / f"drawn-{hashlib.sha256(key).hexdigest()}.html" if folder else None
        if path and path.is_file():
            return path.read_text("utf-8")
        try:
            too_large = _size(model) > _LARGEST_GRAPH
            text = _too_large() if too_large else picture(model, highlight)
        except OnnxLabError:
            text = _ASIDE.format(tr("This graph could not be drawn."))
        if path:
            write_atomically(path, text)
        return text

    return lambda model, highlight: draw(model, tuple(highlight))


def _too_large() -> str:
    return _ASIDE.format(tr("This graph is too large to be drawn."))


def _size(model: bytes) -> int:
    """Return how many inputs and outputs a graph and all its nodes have: what takes time to draw."""
    proto = load(model)
    own = len(proto.graph.input) + len(proto.graph.output) + len(proto.graph.initializer)
    return own + sum(len(node.inputs) + len(node.outputs) for node in walk(proto))


def _by_lab(rows: Iterable[Graded]) -> list[tuple[str, list[Graded]]]:
    return [(name, list(group)) for name, group in groupby(rows, key=lambda row: row.lab)]


def _sums(rows: Sequence[Graded]) -> tuple[int, int]:
    """Return the sum of the points of rows, and of the possible points."""
    return sum(row.points for row in rows), sum(row.possible for row in rows)


def _rendered(template: str, **values: Any) -> str:  # noqa: ANN401 - whatever a template shows
    """Return a template of `templates/` with values in it, as HTML."""
    return _environment().get_template(template).render(values)


def _marked_up(text: object) -> Markup:
    """Return a message as HTML, with what stands in backticks as code.

    Example:
        >>> _marked_up("`Resize` < 11")
        Markup('<code>Resize</code> &lt; 11')
    """
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(_translated(plain(text))))))


def _lines(text: object) -> Markup:
    return escape(_translated(plain(text, lines=True)))


def _translated(text: str) -> str:
    return tr(text) if len(text) <= _LONGEST else text


def _plain_unless_html(value: object) -> object:
    """Make every value in a template plain text, unless this package made it as HTML."""
    return value if isinstance(value, Markup) else plain(value)


def _lab_title(name: str) -> str:
    try:
        title = tr(lab(name).title)
    except UnknownExercise:  # a lab of an older course
        return name
    number = int(name.removeprefix("lab").partition("_")[0])
    return tr("Lab {number}: {title}", number=number, title=title)


def _exercise_title(name: str) -> str:
    try:
        return tr(exercise(name)[1].title)
    except UnknownExercise:
        return ""


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("onnxlab_class.grading"),
        autoescape=True,
        finalize=_plain_unless_html,
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
    environment.globals |= {"colours": _COLOURS, "pluralise": pluralise, "statuses": list(Status)}
    environment.globals |= {"language": spoken_language, "tr": tr}
    return environment
