"""What a student reads about their work, and the instructor's list of all students: pages of plain HTML.

A page is made from rows alone. The seed, the judges and other students' work are not in them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

from onnxlab.errors import OnnxLabError, UnknownExercise
from onnxlab.grading import evidence
from onnxlab.grading.catalogue import exercise
from onnxlab.grading.index_page import index_page, lab_title, points_of
from onnxlab.grading.ledger import Graded
from onnxlab.grading.names import safe_name
from onnxlab.grading.page import COLOURS, escaped, marked_up, page
from onnxlab.grading.whole_files import write_whole
from onnxlab.labs.outcome import Evidence, Status

__all__ = ["Picture", "exercise_section", "remembering", "student_page", "write_feedback"]

Picture: TypeAlias = Callable[[bytes, Sequence[str]], str]
"""Draws a model with some of it highlighted, as an `<img>` tag. May raise `OnnxLabError`."""

_MARKS = {True: "\u2713", False: "\u2717", None: "\u2013"}
_DRAWN = 64  # pictures that are kept for the next student: many make the same mistake


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
    pending: dict[str, list[str]] = {}
    for student, name in sorted(failures):
        pending.setdefault(student, []).append(name)
    listed: dict[str, dict[str, tuple[int, int]]] = {}
    for student, group in groupby(rows, key=lambda row: row.student):
        own = list(group)
        text = student_page(
            student, own, draw, lambda name: evidence.kept(folder, name), pending.get(student, ())
        )
        write_whole(folder / "feedback" / f"{safe_name(student)}.html", text)
        listed[student] = {
            name: (sum(row.points for row in each), sum(row.possible for row in each))
            for name, each in _by_lab(own)
        }
    write_whole(folder / "index.html", index_page(listed, failures, sorted(ignored)))
    return len(listed)


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
    points, possible = sum(row.points for row in rows), sum(row.possible for row in rows)
    labs = len({row.lab for row in rows})
    which = f"the {f'{labs} labs' if labs > 1 else 'lab'} {'graded so far' if pending else 'you handed in'}"
    total = f'{_points(points, possible)} <span class="points">in {which}</span>'
    parts = [f"<h1><bdi>{escaped(student, 200)}</bdi> {total}</h1>"]
    parts += [
        f"<p>Your newest submission for {lab_title(name)} is not graded yet; that is not your fault.</p>"
        for name in pending
    ]
    for name, own in _by_lab(rows):
        points, possible = sum(row.points for row in own), sum(row.possible for row in own)
        parts.append(f"<h2>{lab_title(name)} {_points(points, possible)}</h2>")
        if own[0].submission_note:
            parts.append("<p>When your notebook was run from top to bottom:</p>")
            parts.append(f"<pre>{escaped(own[0].submission_note, lines=True)}</pre>")
        parts += [exercise_section(row, picture, kept) for row in own]
    return page(f"Feedback for {student}", "\n".join(parts))


def exercise_section(row: Graded, picture: Picture, kept: Callable[[str], Evidence | None]) -> str:
    """Return what a page says about one exercise, as HTML to stand in it.

    Args:
        row: The row.
        picture: Draws a model.
        kept: Reads the graphs of a file's name.
    """
    outcome = row.outcome
    status = _status(row.status)
    word = f'<span class="status">{escaped(row.status)}</span>'
    parts = [f"<h3>{_exercise_title(row.exercise)} {_points(row.points, row.possible)}</h3><p>{word}</p>"]
    if outcome.get("message"):
        parts.append(f"<p>{marked_up(outcome['message'])}</p>")
    if outcome.get("where"):
        number, _, code = str(outcome["where"]).partition(":")
        parts.append(f"<p>In your code, {escaped(number)}:</p><pre>{escaped(code.strip())}</pre>")
    findings = [each for each in outcome.get("findings") or [] if isinstance(each, dict)]
    if findings:
        items = "".join(
            f'<li data-mark="{_MARKS.get(each.get("holds"), "")}">{marked_up(each.get("title", ""))}</li>'
            for each in findings
        )
        parts.append(f'<ul class="parts">{items}</ul>')
    failed = next((each for each in findings if each.get("holds") is False), None)
    if failed:
        parts += _failure(failed)
    if row.evidence and (graphs := kept(row.evidence)):
        parts.append(_graphs(graphs, picture))
    if outcome.get("printed") and not failed:
        parts.append(f'<p class="aside">Your functions printed {_number(outcome["printed"])} characters.</p>')
    return f'<section class="exercise" style="--tone: {COLOURS[status]}">{"".join(parts)}</section>'


def _failure(failed: Mapping[str, Any]) -> list[str]:
    parts = [f"<p>{marked_up(failed.get('message', ''))}</p>"]
    difference = failed.get("difference")
    if isinstance(difference, dict):
        names = (("for", "given"), ("right is", "expected"), ("yours gives", "got"))
        rows = "".join(
            f"<dt>{shown}</dt><dd>{escaped(difference.get(name, ''), lines=True)}</dd>"
            for shown, name in names
        )
        parts.append(f"<dl>{rows}</dl>")
    if failed.get("look_at"):
        parts.append(f"<p><em>Look at:</em> {marked_up(failed['look_at'])}</p>")
    return parts


def _graphs(graphs: Evidence, picture: Picture) -> str:
    shown = [("Your model", graphs.model), ("What was expected", graphs.expected)]
    figures = "".join(
        f"<figure><figcaption>{caption}</figcaption>{picture(model, graphs.highlight)}</figure>"
        for caption, model in shown
        if model is not None
    )
    return f'<div class="graphs">{figures}</div>'


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


def _exercise_title(name: str) -> str:
    try:
        return f"{escaped(exercise(name)[1].title)} <code>{escaped(name)}</code>"
    except UnknownExercise:
        return f"<code>{escaped(name)}</code>"


def _points(points: int, possible: int) -> str:
    return f'<span class="points">{points_of(points, possible)} points</span>'


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "some"


def _status(text: str) -> Status:
    return Status(text) if text in list(Status) else Status.ERROR
