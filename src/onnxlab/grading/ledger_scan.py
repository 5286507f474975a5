"""Reading a ledger from its beginning: which of its rows count, and up to where it is whole."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from onnxlab.grading.ledger_rows import LedgerRefused, parsed

__all__ = ["FORMAT", "KIND", "Found", "Place", "scan"]

KIND = "onnxlab grading results"
FORMAT = 1


@dataclass(frozen=True, slots=True)
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
    head = parsed(file.readline())
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
        row = parsed(text)
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
