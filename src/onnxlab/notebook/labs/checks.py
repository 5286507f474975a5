"""What a learner calls in a lab (`check`, `case`, `hint`), `require` for hidden tests, and their reports."""

import html
import os
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Literal

from IPython.display import display

from onnxlab.errors import NotPassed, OnnxLabError, UnknownExercise
from onnxlab.kit import checking, progress
from onnxlab.kit.exercise import Exercise, exercise
from onnxlab.kit.outcome import Difference, Finding, Outcome, Status
from onnxlab.language import joined, tr
from onnxlab.message import Message
from onnxlab.notebook.graph.view import graph
from onnxlab.notebook.labs.next_step import display_buttons, display_way_on
from onnxlab.notebook.labs.standings import next_hints
from onnxlab.notebook.outputs import display_html
from onnxlab.plain_text import aligned
from onnxlab.tables import markup

_cases: dict[str, Mapping[str, object]] = {}
"""The failing case of the last check of each exercise."""

_last_checked = ""
"""The exercise that `case()` and `hint()` are about if they name none."""


def check(name: str, *answers: Callable[..., Any], show: Literal["", "right model"] = "") -> None:
    """Check an exercise and show the outcome: what holds, and a counterexample for what does not.

    Args:
        name: The exercise, as "asinh-symbolic".
        *answers: Your functions or classes, in the order in which the exercise names them.
        show: "right model" shows a right model beside yours, where a model is judged. That counts as the last
            hint.

    >>> check("asinh-symbolic", lambda g, x: g.op("Asinh", x))
    ✓ asinh-symbolic: passed, 2 of 2 points
      ✓ a valid model at opset 9
      ✓ right for ordinary numbers at any shape
      ✓ right for tiny, huge, infinite and negative numbers
    Checked for torch 2.13, onnx 1.23, onnxruntime 1.31.
    """
    try:
        lab, record = exercise(name)
        if show not in ("", "right model"):
            raise UnknownExercise(
                "check() has nothing to show called {show!r}.",
                "",
                'Leave show out, or write show="right model".',
                show=show,
            )
        outcome = _outcome(record, answers, seed=0)
    except OnnxLabError as error:
        _show_message(tr(str(error)))
        return
    display_html(report_html(record, outcome), report_text(record, outcome))
    _show_graphs(record, outcome, with_expected=bool(show))
    if message := tr(progress.record(outcome)):
        _show_message(message)
    if outcome.passed:
        display_way_on(lab, record)
    else:
        display_buttons(_actions(record, outcome))


def case(name: str = "") -> Mapping[str, object]:
    """Return what the last check of an exercise failed on, to run it again: models and arguments by name.

    Args:
        name: The exercise, as "asinh-symbolic"; without it, the one that was checked last.

    Returns:
        The arguments by name. For an answer that was called itself, `answer(**case(...))` calls it again; for
        one that an exporter called, "model" is the model that was made, and "inputs" what was fed to it.

    Raises:
        UnknownExercise: If there is no such exercise, or no check of it has failed on a case.

    >>> check("asinh-symbolic", lambda g, x: g.op("Atan", x))  # doctest: +ELLIPSIS
    ✗ asinh-symbolic: incorrect, 0 of 2 points; 1 of 3 parts hold
    ...
    >>> case("asinh-symbolic")["inputs"][0].dtype
    dtype('float32')
    """
    _, record = exercise(name or _last("case"))
    if record.id not in _cases:
        msg = Message(
            "No check of {record.id} in this notebook has failed on a case that can be run again.",
            record=record,
        )
        call = ", ".join([f'"{record.id}"', *record.answers])
        raise UnknownExercise(msg, "", "Run check({call}) first.", call=call)
    return _cases[record.id]


def hint(name: str = "") -> None:
    """Show the next of an exercise's three hints.

    Args:
        name: The exercise, as "asinh-symbolic"; without it, the one that was checked last.
    """
    try:
        _, record = exercise(name or _last("hint"))
    except OnnxLabError as error:
        _show_message(tr(str(error)))
        return
    line = next_hints(record)[-1]
    display_html(message_box(line, "#d29922"), line)


def require(name: str, *answers: Callable[..., Any]) -> None:
    """Raise unless an exercise is passed, with inputs that nobody could know before. Hidden tests call this.

    Raises:
        NotPassed: If it is not passed; the message is the report.
    """
    _, record = exercise(name)
    seed = os.environ.get("ONNXLAB_SEED", "")
    outcome = _outcome(record, answers, int(seed) if seed.isdigit() else secrets.randbits(31))
    if not outcome.passed:
        raise NotPassed(report_text(record, outcome))


def _show_message(text: str) -> None:
    display_html(message_box(text), text)


def _last(call: str) -> str:
    """Return the exercise that was checked last."""
    if not _last_checked:
        raise UnknownExercise(
            "{call}() is about the exercise that was checked last, and none was checked yet.",
            "",
            'Name one, as {call}("asinh-symbolic").',
            call=call,
        )
    return _last_checked


def _outcome(record: Exercise, answers: tuple[Callable[..., Any], ...], seed: int) -> Outcome:
    global _last_checked
    _last_checked = record.id
    if len(answers) != len(record.answers):
        call = ", ".join([f'"{record.id}"', *record.answers])
        count = len(record.answers)
        raise UnknownExercise(
            "{record.id} takes {count} answer{ending}; {given} given.",
            "",
            "Call check({call}).",
            record=record,
            count=count,
            ending="s" * (count > 1),
            given=len(answers) or "none",
            call=call,
        )
    outcome = checking.check(record, dict(zip(record.answers, answers, strict=True)), seed)
    _cases.pop(record.id, None)
    if outcome.failing_case is not None:
        _cases[record.id] = outcome.failing_case
    return outcome


def _actions(record: Exercise, outcome: Outcome) -> dict[str, Callable[[], None]]:
    """Return what the buttons below a failed check do, by their labels."""
    actions: dict[str, Callable[[], None]] = {tr("Hint"): lambda: _show_hints(record)}
    if (failing := outcome.failing_case) is not None:
        shown = f'{failing!r}\n\nfrom onnxlab import case\ncase("{record.id}")'
        actions[tr("Failing case")] = lambda: display_html(f"<pre>{html.escape(shown)}</pre>", shown)
    failed = outcome.first_failure
    if failed and failed.evidence and failed.evidence.expected:
        actions[tr("Right model")] = lambda: _show_graphs(record, outcome, with_expected=True)
    return actions


def _show_hints(record: Exercise) -> None:
    """Show the next hint below those before it."""
    shown = next_hints(record)
    display_html(message_box("\n".join(shown), "#d29922"), shown[-1])


def _show_graphs(record: Exercise, outcome: Outcome, *, with_expected: bool) -> None:
    """Show the learner's own graph with the faulty place marked, and a right one only on request."""
    failed = outcome.first_failure
    if failed is None or failed.evidence is None:
        return
    evidence = failed.evidence
    expected = evidence.expected if with_expected else None
    if expected is not None:
        progress.all_hints(record)
    names = (tr("yours"), tr("right"))[: 1 if expected is None else 2]
    display(graph(evidence.model, expected, highlight=evidence.highlight or None, names=names))


_MARKS = {True: "\u2713", False: "\u2717", None: "\u2013"}
_SEPARATOR = re.compile(r"; |\uff1b")
_LINES = 10  # of what the learner's code printed
_COLOURS = {
    Status.PASSED: "#2ea043",
    Status.NOT_ATTEMPTED: "#888888",
    Status.INCORRECT: "#da3633",
    Status.ERROR: "#da3633",
    Status.TIMED_OUT: "#da3633",
}
# Colours of text are the page's own, so that one style does for light and dark pages.
_STYLE = (
    "<style>\n"
    ".onnxlab-report { border-left: 4px solid var(--tone); padding: 4px 14px; margin: 4px 0; }\n"
    ".onnxlab-report p { margin: 4px 0; }\n"
    ".onnxlab-report ul { list-style: none; margin: 4px 0; padding: 0; }\n"
    ".onnxlab-report.onnxlab-report dl { display: grid; grid-template-columns: max-content auto;\n"
    "  gap: 2px 14px; margin: 6px 0; }\n"
    ".onnxlab-report.onnxlab-report :is(dt, dd) { float: none; width: auto; margin: 0;\n"
    "  white-space: nowrap; }\n"
    ".onnxlab-report.onnxlab-report :is(dd, pre) { font-family: monospace; white-space: pre-wrap;\n"
    "  overflow-wrap: anywhere; }\n"
    # What stands below the report has no kernel: an empty place.
    ".jp-OutputArea-child:has(.onnxlab-report) ~ .jp-OutputArea-child > .jupyter-widgets:not(:has(*))\n"
    "  { display: none; }\n"
    "</style>"
)


def report_html(exercise: Exercise, outcome: Outcome) -> str:
    """A check's outcome for a notebook. Every word that comes from an answer is escaped."""
    parts = [f"<p><strong>{markup(_headline(outcome))}</strong></p>"]
    if outcome.message:
        parts.append(f"<p>{markup(tr(outcome.message))}</p>")
    if outcome.where:
        where = tr("In your code, {where}:", where=outcome.where.partition(":")[0])
        parts.append(f"<p>{html.escape(where)}</p>")
        parts.append(f"<pre>{html.escape(outcome.where.partition(':')[2].strip())}</pre>")
    if outcome.findings:
        items = "".join(
            f"<li>{_MARKS[finding.holds]} {markup(tr(finding.title))}</li>" for finding in outcome.findings
        )
        parts.append(f"<ul>{items}</ul>")
    if (failed := outcome.first_failure) is not None:
        parts += _failed_html(failed)
    if printed := _printed(outcome):
        parts.append(f"<p>{markup(printed[0])}</p><pre>{html.escape(chr(10).join(printed[1:]))}</pre>")
    parts += [f"<p>{markup(line)}</p>" for line in _closing(exercise, outcome)]
    return _box(_COLOURS[outcome.status], "".join(parts))


def report_text(exercise: Exercise, outcome: Outcome) -> str:
    """A check's outcome for a terminal.

    Example:
        >>> from onnxlab.kit.exercise import exercise
        >>> _, record = exercise("asinh-symbolic")
        >>> print(report_text(record, Outcome(record.id, Status.NOT_ATTEMPTED, 0, 2)))
        asinh-symbolic: not attempted, 0 of 2 points
        Write asinh_symbolic above and run both cells.
    """
    lines = [_headline(outcome)]
    if outcome.message:
        lines.append(tr(outcome.message))
    if outcome.where:
        lines.append(tr("In your code, {outcome.where}", outcome=outcome))
    lines += [f"  {_MARKS[finding.holds]} {tr(finding.title)}" for finding in outcome.findings]
    if (failed := outcome.first_failure) is not None:
        lines.append(tr(failed.message))
        if failed.difference:
            lines += [f"  {line}" for line in aligned(_rows(failed.difference))]
        if failed.look_at:
            lines.append(joined(" ", [tr("Look at:"), tr(failed.look_at)]))
    heading, *printed = _printed(outcome) or [""]
    lines += [heading, *(f"  {line}" for line in printed)] if heading else []
    return "\n".join([*lines, *_closing(exercise, outcome)])


def message_box(text: str, tone: str = "#da3633") -> str:
    """A message in a report's place."""
    return _box(tone, "".join(f"<p>{markup(line)}</p>" for line in text.splitlines()))


def _headline(outcome: Outcome) -> str:
    mark = _MARKS[None if outcome.status is Status.NOT_ATTEMPTED else outcome.passed]
    plain = outcome.status is Status.NOT_ATTEMPTED
    text = tr(
        "{outcome.exercise}: {outcome.status}, {outcome.points} of {outcome.possible} points", outcome=outcome
    )
    held = sum(finding.holds is True for finding in outcome.findings)
    if outcome.status is Status.INCORRECT and held:
        count = tr("{held} of {total} parts hold", held=held, total=len(outcome.findings))
        text = joined("; ", [text, count])
    return text if plain else f"{mark} {text}"


def _failed_html(failed: Finding) -> list[str]:
    parts = [f"<p>{markup(tr(failed.message))}</p>"]
    if failed.difference:
        # An input is a line; of three, a reader has to see which is which.
        rows = "".join(
            f"<dt>{name}</dt><dd>{html.escape(_SEPARATOR.sub(chr(10), value))}</dd>"
            for name, value in _rows(failed.difference)
        )
        parts.append(f"<dl>{rows}</dl>")
    if failed.look_at:
        parts.append(joined(" ", [f"<p><em>{tr('Look at:')}</em>", f"{markup(tr(failed.look_at))}</p>"]))
    return parts


def _rows(difference: Difference) -> list[tuple[str, str]]:
    return [
        (tr("for:"), tr(difference.given)),
        (tr("right is:"), tr(difference.expected)),
        (tr("yours gives:"), tr(difference.got)),
    ]


def _printed(outcome: Outcome) -> list[str]:
    """Return a heading and the last lines that the learner's code printed; nothing if it printed nothing."""
    lines = outcome.tail.strip().splitlines()[-_LINES:]
    if not lines:
        return []
    heading = Message(
        "Your code printed {outcome.printed:,} characters while it was checked. The last lines:",
        outcome=outcome,
    )
    return [tr(heading), *lines]


def _closing(exercise: Exercise, outcome: Outcome) -> list[str]:
    lines = []
    if outcome.status is Status.NOT_ATTEMPTED:
        names = tr(" and ").join(exercise.answers)
        lines.append(tr("Write {names} above and run both cells.", names=names))
    elif outcome.passed:
        lines.append(tr("Checked for {exercise.holds_for}.", exercise=exercise))
    else:
        failed, call = outcome.first_failure, ", ".join([f'"{exercise.id}"', *exercise.answers])
        if (case := outcome.failing_case) is not None:
            names = tr(" and ").join(case) or tr("its name")
            again = f'`from onnxlab import case; case("{exercise.id}")`'
            lines.append(tr("{again} gives you this case to run again: {names}.", again=again, names=names))
        if failed and failed.evidence and failed.evidence.expected:
            shown = f'`check({call}, show="right model")`'
            lines.append(tr("{shown} lays a right model beside yours, as a last hint.", shown=shown))
        lines.append(
            tr('hint("{task.id}") gives the next of {count} hints.', task=exercise, count=len(exercise.hints))
        )
    return lines


def _box(tone: str, body: str) -> str:
    return f'{_STYLE}<div class="onnxlab-report" style="--tone: {tone}">{body}</div>'
