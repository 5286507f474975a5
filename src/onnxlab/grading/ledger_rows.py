"""The lines of a ledger: what they say, and which of them count."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from onnxlab.errors import OnnxLabError
from onnxlab.labs.outcome import Status

__all__ = [
    "FORMAT",
    "KIND",
    "Found",
    "Graded",
    "LedgerRefused",
    "Place",
    "as_line",
    "as_row",
    "order",
    "scan",
    "shortened",
]

KIND = "onnxlab grading results"
FORMAT = 1
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


@dataclass(frozen=True)
class Place:
    """Where a submission's rows are in the file."""

    digest: str
    start: int
    end: int


@dataclass
class Found:
    """What is in a ledger.

    Attributes:
        run: What the rows written last depend on.
        size: Up to where it is whole.
        places: Where the rows that count are, by student and lab.
    """

    run: dict[str, str]
    size: int
    places: dict[tuple[str, str], Place] = field(default_factory=dict)


def scan(file: BinaryIO, path: Path) -> Found:
    """Learn what is in a ledger, and up to where it is whole.

    Args:
        file: The ledger, at its beginning.
        path: How to name it in messages.

    Raises:
        LedgerRefused: If it is none, of another version, or damaged.
    """
    head = _parsed(file.readline())
    if head is None or head.get("kind") != KIND:
        msg = f"{path} is not a ledger of the grader."
        raise LedgerRefused(msg, "", "Move it away, or give another --out.")
    if head.get("format") != FORMAT:
        msg = f"{path} was written by another version of the grader (format {head.get('format')})."
        raise LedgerRefused(msg, "", "Give another --out.")
    end = file.tell()
    found = Found(dict(head.get("run", {})), end)
    damaged = begun = expected = 0
    key: tuple[str, str, str] | None = None
    for number, text in enumerate(file, 2):
        start, end = end, end + len(text)
        row = _parsed(text)
        if row is None:
            damaged, key = damaged or number, None
            continue
        if damaged:  # a run that was cut off damages the end only
            msg = f"Line {damaged} of {path} is damaged."
            then = "Delete that line: the submission it belonged to is then graded again."
            raise LedgerRefused(msg, "Whole lines come after it.", then)
        if "row" not in row:
            found.run, found.size, key = dict(row.get("run", {})), end, None
            continue
        this = (row["student"], row["lab"], row["digest"])
        place, count = row["row"]
        if place == 1:
            key, begun, expected = this, start, 1
        if this != key or place != expected:
            key = None  # part of a submission: does not count, and it is graded again
            continue
        expected += 1
        if place == count:
            found.places[this[:2]] = Place(this[2], begun, end)
            found.size, key = end, None
    return found


def as_line(value: Mapping[str, Any]) -> bytes:
    """Return a value as a line of a ledger."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def shortened(value: Any) -> Any:  # noqa: ANN401 - JSON can be anything
    """Cut the texts in a value: a message may quote an answer, and an answer may be of any size."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
    if isinstance(value, list):
        return [shortened(each) for each in value]
    if isinstance(value, dict):
        return {key: shortened(each) for key, each in value.items()}
    return value


_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("student", "lab", "exercise", "status", "digest", "submission_note"), str),
    **dict.fromkeys(("points", "possible"), int),
    "outcome": dict,
    "evidence": (str, type(None)),
    "seconds": (int, float),
}


def _parsed(line: bytes) -> dict[str, Any] | None:
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
