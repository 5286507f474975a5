"""The lines of a ledger: what they say, and how they are written."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from onnxlab.errors import OnnxLabError
from onnxlab.grading.intake import Submission
from onnxlab.labs.outcome import Outcome, Status

__all__ = [
    "Graded",
    "LedgerRefused",
    "as_line",
    "as_row",
    "order",
    "parsed",
    "submission_lines",
]

_LONGEST = 4000  # characters of one text in a row


class LedgerRefused(OnnxLabError):
    """An output folder cannot be used: another run's, damaged, or of another kind."""


@dataclass(frozen=True)
class Graded:
    """One row: what came of one exercise of one submission.

    Attributes:
        student: The student's name.
        lab: The lab's full name.
        exercise: The exercise's id.
        status: How it stands, as in `onnxlab.labs.outcome.Status`.
        points: The points for it.
        possible: The points it can give.
        digest: The submission's content, as in `Submission`.
        outcome: The whole outcome, as `Outcome.as_json` gives it.
        evidence: The file with the graphs to show, in the folder `evidence`; None if there are none.
        submission_note: What went wrong with the notebook as a whole.
        seconds: How long the whole submission took.
    """

    student: str
    lab: str
    exercise: str
    status: str
    points: int
    possible: int
    digest: str
    outcome: dict[str, Any] = field(repr=False)
    evidence: str | None = None
    submission_note: str = ""
    seconds: float = 0.0


def as_line(value: Mapping[str, Any]) -> bytes:
    """Return a value as a line of a ledger."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def submission_lines(
    submission: Submission,
    outcomes: Sequence[Outcome],
    evidence: Mapping[str, str],
    note: str,
    seconds: float,
) -> bytes:
    """Return the lines of one submission, numbered.

    Args:
        submission: The submission.
        outcomes: One for each exercise of its lab.
        evidence: The files with the graphs to show, by exercise.
        note: What went wrong with the notebook as a whole.
        seconds: How long it took.
    """
    if not outcomes:
        msg = f"A submission for {submission.lab} has no exercises."
        raise ValueError(msg)
    lines = []
    for number, outcome in enumerate(outcomes, 1):
        row = Graded(
            submission.student,
            submission.lab,
            outcome.exercise,
            str(outcome.status),
            outcome.points,
            outcome.possible,
            submission.digest,
            _shortened(outcome.as_json()),
            evidence.get(outcome.exercise),
            _shortened(note),
            round(seconds, 3),
        )
        lines.append(as_line({"row": [number, len(outcomes)], **asdict(row)}))
    return b"".join(lines)


def _shortened(value: Any) -> Any:  # noqa: ANN401 - JSON can be anything
    """Cut the texts in a value: a message may quote an answer, and an answer may be of any size."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
    if isinstance(value, list):
        return [_shortened(each) for each in value]
    if isinstance(value, dict):
        return {key: _shortened(each) for key, each in value.items()}
    return value


_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("student", "lab", "exercise", "status", "digest", "submission_note"), str),
    **dict.fromkeys(("points", "possible"), int),
    "outcome": dict,
    "evidence": (str, type(None)),
    "seconds": (int, float),
}


def parsed(line: bytes) -> dict[str, Any] | None:
    """Read a line; None if it is torn or no line of a ledger."""
    if not line.endswith(b"\n"):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("run", {}), dict):
        return None
    if "row" not in found:
        return found if "run" in found else None
    place = found["row"]
    whole = all(name in found and isinstance(found[name], kind) for name, kind in _KINDS.items())
    numbered = isinstance(place, list) and len(place) == 2 and all(isinstance(each, int) for each in place)
    known = found.get("status") in list(Status)
    return found if whole and numbered and known else None


def as_row(row: Mapping[str, Any]) -> Graded:
    """Return the row of a line that counts."""
    return Graded(**{name: row[name] for name in _KINDS})


def order(key: tuple[str, str]) -> tuple[bytes, str]:
    """Return what rows are sorted by: the student, as the bytes of the name, and the lab."""
    return key[0].encode("utf-8", "surrogatepass"), key[1]
