"""The ledger of a run: one line for each student and exercise, written as it happens, and never lost.

`results.jsonl` begins with a line about the run. The rows of one submission are written together,
numbered `[1, 4]` to `[4, 4]`, so that a submission is in the ledger as a whole or not at all: what a killed
run left half written is cut off when the ledger is opened again. Lines are only ever added; for a submission
that was handed in again, the rows written last count. The seed stands in `run.json`, which no report reads.
"""

import contextlib
import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from onnxlab.errors import OnnxLabError
from onnxlab.grading import evidence as evidence_files
from onnxlab.grading.intake import Submission
from onnxlab.grading.whole_files import cannot_write, write_whole
from onnxlab.labs.outcome import Outcome, Status

__all__ = ["Graded", "Ledger", "LedgerRefused", "facts"]

_KIND = "onnxlab grading results"
_FORMAT = 1
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
class _Place:
    """Where a submission's rows are in the file."""

    digest: str
    start: int
    end: int


def facts(level: str) -> dict[str, str]:
    """Return what a run's marks may depend on: versions, and how submissions were confined."""
    found = {"level": level}
    for name in ("onnxlab", "torch", "onnx", "onnxruntime", "onnxscript"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


class Ledger:
    """The rows in an output folder, open for one run. To be used in a `with` statement; threads may share it.

    Args:
        folder: The output folder; made if it is not there.
        run: What marks may depend on, as from `facts`.
        seed: The run's seed; None for the one that the folder has, else for a new one.

    Attributes:
        folder: The output folder.
        seed: The seed in use.
        notes: What an instructor should know: a repair, other versions than before.

    Raises:
        LedgerRefused: If the folder holds something else, is damaged, is in use, or has another seed.
        CannotWrite: If the folder takes no files.
    """

    def __init__(self, folder: Path, run: Mapping[str, str], seed: int | None = None) -> None:
        self.folder = folder
        self.notes: list[str] = []
        self._path = folder / "results.jsonl"
        self._failures_path = folder / "failures.json"
        self._failures: dict[tuple[str, str], str] = {}
        self._places: dict[tuple[str, str], _Place] = {}
        self._mutex = threading.Lock()
        self._run: dict[str, str] = {}
        self._size = 0
        self._file: int | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(folder / ".grading.lock", timeout=0, thread_local=False)
            self._lock.acquire()
        except Timeout:
            msg = f"Another run is writing to {folder}."
            raise LedgerRefused(msg, "", "Wait until it has ended, or give another --out.") from None
        except OSError as error:
            raise cannot_write(folder, error) from None
        try:
            self._open(dict(run), seed)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Note what could not be graded, and let other runs use the folder."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            with contextlib.suppress(OnnxLabError):  # the rows are safe, and the run reports them as well
                self._write_failures()
        self._lock.release()

    def done(self, submission: Submission) -> bool:
        """Whether a submission, as it is now, has its rows."""
        place = self._places.get((submission.student, submission.lab))
        return place is not None and place.digest == submission.digest

    def record(
        self,
        submission: Submission,
        outcomes: Sequence[Outcome],
        *,
        evidence: Mapping[str, Mapping[str, Any]] | None = None,
        note: str = "",
        seconds: float = 0.0,
    ) -> bool:
        """Add the rows of a submission, all of them or none. When this returns, they are on disk.

        Args:
            submission: The submission.
            outcomes: One for each exercise of its lab.
            evidence: The graphs to show by exercise, as a judge writes them.
            note: What went wrong with the notebook as a whole.
            seconds: How long it took.

        Returns:
            False if the rows were there already: a result that comes twice counts once.

        Raises:
            CannotWrite: If there is no room; the ledger is then as it was before.
        """
        if self.done(submission):
            return False
        kept = {
            name: evidence_files.keep(self.folder, submission.student, submission.digest, name, data)
            for name, data in (evidence or {}).items()
        }
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
                kept.get(outcome.exercise),
                _shortened(note),
                round(seconds, 3),
            )
            lines.append(_line({"row": [number, len(outcomes)], **asdict(row)}))
        if not lines:
            msg = f"A submission for {submission.lab} has no exercises."
            raise ValueError(msg)
        with self._mutex:
            if self.done(submission):
                return False
            start = self._append(b"".join(lines))
            self._places[submission.student, submission.lab] = _Place(submission.digest, start, self._size)
            self._failures.pop((submission.student, submission.lab), None)
        return True

    def failed(self, submission: Submission, reason: str) -> None:
        """Note that the grader itself failed over a submission: no row; the next run grades it."""
        with self._mutex:
            self._failures[submission.student, submission.lab] = reason

    @property
    def failures(self) -> dict[tuple[str, str], str]:
        """What could not be graded in this run and why, by student and lab."""
        return dict(self._failures)

    def rows(self) -> Iterator[Graded]:
        """Give the rows that count, by student and lab, one submission in memory at a time."""
        with self._mutex:
            places = sorted(self._places.items(), key=lambda each: _order(each[0]))
        with self._path.open("rb") as file:
            for _, place in places:
                file.seek(place.start)
                for line in file.read(place.end - place.start).splitlines():
                    yield _graded(json.loads(line))

    def _open(self, run: dict[str, str], seed: int | None) -> None:
        begun = self._path.exists() and self._path.stat().st_size > 0
        self.seed = self._seed(seed)
        if not begun:
            write_whole(self._path, _line({"kind": _KIND, "format": _FORMAT, "run": run}))
        with self._path.open("rb") as file:
            self._scan(file)
        self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0))
        with contextlib.suppress(FileNotFoundError):
            self._failures_path.unlink()
        if (torn := os.fstat(self._file).st_size - self._size) > 0:
            os.ftruncate(self._file, self._size)
            self.notes.append(
                f"An earlier run was cut off while it wrote; {torn} bytes without a result removed."
            )
        if run != self._run:
            changed = [f"{name} {self._run.get(name)}" for name in run if run[name] != self._run.get(name)]
            self.notes.append(f"Earlier rows were graded with {', '.join(changed)}.")
            self._append(_line({"run": run}))

    def _seed(self, given: int | None) -> int:
        """Return the seed of this folder; keep it if it is new."""
        path = self.folder / "run.json"
        try:
            known = json.loads(path.read_text("utf-8"))["seed"]
            if not isinstance(known, int) or isinstance(known, bool):
                raise TypeError
        except FileNotFoundError:
            known = secrets.randbits(48) if given is None else given
            write_whole(path, json.dumps({"seed": known}) + "\n", private=True)
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            msg = f"{path} does not hold a run's seed."
            raise LedgerRefused(
                msg, "", "Delete it: what is graded stays graded, the rest gets a new seed."
            ) from None
        if given is not None and given != known:
            msg = f"{self.folder} was graded with another seed than {given}."
            raise LedgerRefused(msg, f"The seed is in {path}.", "Leave --seed out, or give another --out.")
        return int(known)

    def _scan(self, file: BinaryIO) -> None:
        """Learn what is in the ledger, and up to where it is whole."""
        head = _parsed(file.readline())
        if head is None or head.get("kind") != _KIND:
            msg = f"{self._path} is not a ledger of the grader."
            raise LedgerRefused(msg, "", "Move it away, or give another --out.")
        if head.get("format") != _FORMAT:
            msg = f"{self._path} was written by another version of the grader (format {head.get('format')})."
            raise LedgerRefused(msg, "", "Give another --out.")
        self._run = dict(head.get("run", {}))
        self._size = end = file.tell()
        damaged = begun = expected = 0
        key: tuple[str, str, str] | None = None
        for number, line in enumerate(file, 2):
            start, end = end, end + len(line)
            row = _parsed(line)
            if row is None:
                damaged, key = damaged or number, None
                continue
            if damaged:  # a run that was cut off damages the end only
                msg = f"Line {damaged} of {self._path} is damaged."
                then = "Delete that line: the submission it belonged to is then graded again."
                raise LedgerRefused(msg, "Whole lines come after it.", then)
            if "row" not in row:
                self._run, self._size, key = dict(row.get("run", {})), end, None
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
                self._places[this[:2]] = _Place(this[2], begun, end)
                self._size, key = end, None

    def _append(self, data: bytes) -> int:
        """Add lines in one step and return where they begin."""
        if self._file is None:
            msg = f"{self._path} is closed."
            raise ValueError(msg)
        try:
            if (
                os.fstat(self._file).st_size != self._size
            ):  # what an earlier failure left could not be cut off
                os.ftruncate(self._file, self._size)
            written = os.write(self._file, data)
            if written != len(data):
                msg = "no room for a whole row"
                raise OSError(msg)
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise cannot_write(self._path, error) from None
        start, self._size = self._size, self._size + len(data)
        return start

    def _write_failures(self) -> None:
        listed = [
            {"student": student, "lab": lab, "reason": reason}
            for (student, lab), reason in sorted(self._failures.items(), key=lambda each: _order(each[0]))
        ]
        if listed:
            write_whole(self._failures_path, json.dumps(listed, indent=1) + "\n")


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


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


def _graded(row: Mapping[str, Any]) -> Graded:
    return Graded(**{name: row[name] for name in _KINDS})


def _order(key: tuple[str, str]) -> tuple[bytes, str]:
    return key[0].encode("utf-8", "surrogatepass"), key[1]
