"""The outcome of an exercise, from what a submission says about itself and what a judge found.

Only a judge's findings give points. What the submission says decides how its failure is named.
"""

from dataclasses import replace
from typing import Any

from onnxlab.grading.levels import Ending
from onnxlab.labs.exercise import Exercise
from onnxlab.labs.outcome import Difference, Finding, Outcome, Status

__all__ = ["outcome_of"]

_TEXT = 2000  # characters of anything a submission says


def outcome_of(each: Exercise, made: dict[str, Any], found: dict[str, Any] | None, how: Ending) -> Outcome:
    """Return an exercise's outcome.

    Args:
        each: The exercise.
        made: What the submission's process wrote about it; not to be believed.
        found: What the judge found; None if it judged nothing, or crashed over it.
        how: How the submission's process ended.
    """
    blank = Outcome(each.id, Status.ERROR, 0, each.points)
    said = {key: str(made.get(key, ""))[:_TEXT] for key in ("message", "where", "look_at")}
    printed = made.get("printed")
    blank = replace(blank, where=said["where"], printed=printed if isinstance(printed, int) else 0)
    status = made.get("status", "missing")
    if status == "missing":
        late = how is Ending.TIME
        message = "The notebook ended before this exercise was reached."
        return replace(blank, status=Status.TIMED_OUT if late else Status.ERROR, message=message)
    if status is not None:
        known = Status(status) if status in list(Status) and status != Status.PASSED else Status.ERROR
        if made.get("refused"):
            first = Finding("the answer can be used", False, said["message"], said["look_at"])
            rest = tuple(Finding(part.title, None) for part in each.parts)
            return replace(blank, status=known, findings=(first, *rest))
        return replace(blank, status=known, message=said["message"])
    if found is None:
        return replace(blank, status=Status.INCORRECT, message="What was made crashes ONNX Runtime or onnx.")
    findings = tuple(map(_finding, found["findings"]))
    passed = all(finding.holds for finding in findings) and len(findings) == len(each.parts)
    return replace(
        blank,
        status=Status.PASSED if passed else Status.INCORRECT,
        points=each.points if passed else 0,
        findings=findings,
    )


def _finding(data: dict[str, Any]) -> Finding:
    given = data["difference"]
    shown = Difference(**given) if given else None
    return Finding(data["title"], data["holds"], data["message"], data["look_at"], shown)
