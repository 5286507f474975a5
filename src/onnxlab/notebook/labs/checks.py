"""What a learner calls in a lab: `check`, `case` and `hint`; and `require`, what a hidden test calls."""

import os
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Literal

from IPython.display import display

from onnxlab.errors import NotPassed, OnnxLabError, UnknownExercise
from onnxlab.labs.kit import checking, progress
from onnxlab.labs.kit.exercise import Exercise, exercise
from onnxlab.labs.kit.outcome import Outcome
from onnxlab.notebook.graph.view import graph
from onnxlab.notebook.labs.report import message_box, report_html, report_text
from onnxlab.notebook.language import said
from onnxlab.notebook.outputs import display_html

__all__ = ["case", "check", "hint", "require"]

_cases: dict[str, Mapping[str, object]] = {}
"""The failing case of the last check of each exercise."""


def check(name: str, *answers: Callable[..., Any], show: Literal["", "right model"] = "") -> None:
    """Check an exercise and show what came of it: what holds, and a counterexample for what does not.

    Args:
        name: The exercise, as "asinh-symbolic".
        *answers: Your functions or classes, in the order in which the exercise names them.
        show: "right model" lays a right model beside yours, where one model is looked at. That counts as the
            last hint.

    >>> check("asinh-symbolic", lambda g, x: g.op("Asinh", x))
    ✓ asinh-symbolic: passed, 2 of 2 points
      ✓ a valid model at opset 9
      ✓ right for ordinary numbers at any shape
      ✓ right for tiny, huge, infinite and negative numbers
    Compare with solutions/lab04_asinh.ipynb. Checked for torch 2.13, onnx 1.23, onnxruntime 1.31.
    """
    try:
        lab, record = exercise(name)
        if show not in ("", "right model"):
            msg = f"check() has nothing to show called {show!r}."
            raise UnknownExercise(msg, "", 'Leave show out, or write show="right model".')
        outcome = _outcome(record, answers, seed=0)
    except OnnxLabError as error:
        refused = said(str(error))
        display_html(message_box(refused), refused)
        return
    display_html(report_html(lab, record, outcome), report_text(lab, record, outcome))
    _show_graphs(record, outcome, right=bool(show))
    if message := said(progress.record(outcome)):
        display_html(message_box(message), message)


def case(name: str) -> Mapping[str, object]:
    """Return what the last check of an exercise failed on, to run it again: models and arguments by name.

    Args:
        name: The exercise, as "asinh-symbolic".

    Returns:
        The arguments by name. For an answer that was called itself, `answer(**case(...))` calls it again; for
        one that an exporter called, "model" is the model that was made, and "inputs" what was fed to it.

    Raises:
        UnknownExercise: If there is no such exercise, or no check of it has failed on a case.

    >>> check("asinh-symbolic", lambda g, x: g.op("Atan", x))  # doctest: +ELLIPSIS
    ✗ asinh-symbolic: incorrect, 0 of 2 points
    ...
    >>> case("asinh-symbolic")["inputs"][0].dtype
    dtype('float32')
    """
    _, record = exercise(name)
    if record.id not in _cases:
        msg = f"No check of {record.id} in this notebook has failed on a case that can be run again."
        call = ", ".join([f'"{record.id}"', *record.answers])
        raise UnknownExercise(msg, "", f"Run check({call}) first.")
    return _cases[record.id]


def hint(name: str) -> None:
    """Show the next of an exercise's three hints.

    Args:
        name: The exercise, as "asinh-symbolic".
    """
    try:
        _, record = exercise(name)
    except OnnxLabError as error:
        refused = said(str(error))
        display_html(message_box(refused), refused)
        return
    number, text = progress.next_hint(record)
    told = said(f"Hint {number} of {len(record.hints)}: {text}")
    display_html(message_box(told, "#d29922"), told)


def require(name: str, *answers: Callable[..., Any]) -> None:
    """Raise unless an exercise is passed, with inputs nobody knew before. This is what hidden tests call.

    Args:
        name: The exercise.
        *answers: The learner's functions or classes.

    Raises:
        NotPassed: If it is not passed; the message is the report.
    """
    lab, record = exercise(name)
    given = os.environ.get("ONNXLAB_SEED", "")
    outcome = _outcome(record, answers, int(given) if given.isdigit() else secrets.randbits(31))
    if not outcome.passed:
        raise NotPassed(report_text(lab, record, outcome))


def _outcome(record: Exercise, answers: tuple[Callable[..., Any], ...], seed: int) -> Outcome:
    if len(answers) != len(record.answers):
        call = ", ".join([f'"{record.id}"', *record.answers])
        wanted = len(record.answers)
        msg = f"{record.id} takes {wanted} answer{'s' * (wanted > 1)}; {len(answers) or 'none'} given."
        raise UnknownExercise(msg, "", f"Call check({call}).")
    outcome = checking.check(record, dict(zip(record.answers, answers, strict=True)), seed)
    _cases.pop(record.id, None)
    if outcome.failing_case is not None:
        _cases[record.id] = outcome.failing_case
    return outcome


def _show_graphs(record: Exercise, outcome: Outcome, *, right: bool) -> None:
    """Show the learner's own graph with the place marked, and a right one only to those who ask for it."""
    failed = outcome.first_failure
    if failed is None or failed.evidence is None:
        return
    shown = failed.evidence
    expected = shown.expected if right else None
    if expected is not None:
        progress.all_hints(record)
    names = (said("yours"), said("right"))[: 1 if expected is None else 2]
    display(graph(shown.model, expected, highlight=shown.highlight or None, names=names))
