"""What a learner calls in a lab: `check` and `hint`; and `require`, what a hidden test calls."""

import os
import secrets
from collections.abc import Callable
from typing import Any

from IPython.display import display

from onnxlab.display.graph_view import graph
from onnxlab.display.lab_report import message_box, report_html, report_text
from onnxlab.display.prediction_widget import display_html
from onnxlab.errors import NotPassed, OnnxLabError, UnknownExercise
from onnxlab.labs import checking, progress
from onnxlab.labs.exercise import Exercise, exercise
from onnxlab.labs.outcome import Outcome

__all__ = ["check", "hint", "require"]


def check(name: str, *answers: Callable[..., Any]) -> None:
    """Check an exercise and show what came of it: what holds, and a counterexample for what does not.

    Args:
        name: The exercise, as "asinh-symbolic".
        *answers: Your functions or classes, in the order in which the exercise names them.

    >>> check("asinh-symbolic", lambda g, x: g.op("Asinh", x))
    ✓ asinh-symbolic: passed, 4 of 4 points
      ✓ a valid model at opset 9
      ✓ right for ordinary numbers at any shape
      ✓ right for tiny, huge, infinite and negative numbers
    Compare with solutions/lab04_asinh.ipynb. Checked for torch 2.13, onnx 1.23, onnxruntime 1.31.
    """
    try:
        lab, record = exercise(name)
        outcome = _outcome(record, answers, seed=0)
    except OnnxLabError as error:
        display_html(message_box(str(error)), str(error))
        return
    display_html(report_html(lab, record, outcome), report_text(lab, record, outcome))
    _show_graphs(outcome)
    if message := progress.record(outcome):
        display_html(message_box(message), message)


def hint(name: str) -> None:
    """Show the next of an exercise's three hints.

    Args:
        name: The exercise, as "asinh-symbolic".
    """
    try:
        _, record = exercise(name)
    except OnnxLabError as error:
        display_html(message_box(str(error)), str(error))
        return
    number, text = progress.next_hint(record)
    said = f"Hint {number} of {len(record.hints)}: {text}"
    display_html(message_box(said, "#d29922"), said)


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
    return checking.check(record, dict(zip(record.answers, answers, strict=True)), seed)


def _show_graphs(outcome: Outcome) -> None:
    failed = outcome.first_failure
    if failed is None or failed.evidence is None:
        return
    shown = failed.evidence
    names = ("yours", "expected")[: 1 if shown.expected is None else 2]
    display(graph(shown.model, shown.expected, highlight=shown.highlight or None, names=names))
