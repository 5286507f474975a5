"""The results of a run, kept in a SQLite database as they come: nothing lost, nothing twice.

`results.sqlite` in the output folder has a row for each student, lab and exercise. A submission is written in
one transaction, and SQLite's rollback journal makes that whole or not there: after a kill at any moment, on a
full disk, after a power cut. One that was handed in again replaces the older one. The file is locked while a
run has it open, so a second run is refused. The seed stands in `run.json`, which no report reads, and the
graphs that feedback shows in `evidence/`.
"""

import base64
import binascii
import contextlib
import json
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from onnxlab.errors import OnnxLabError
from onnxlab.files import cannot_write, remove_unfinished, write_atomically
from onnxlab.grading.submissions import Submission, safe_name
from onnxlab.labs.kit.outcome import Evidence, Outcome, Status

__all__ = ["Graded", "Ledger", "LedgerRefused", "facts", "kept"]

_APPLICATION, _FORMAT = 0x6F6E6C62, 2  # "onlb"; 1 was a file of JSON lines
_LONGEST = 4000  # characters of one text in a row
_EVIDENCE = "evidence"
_FOREIGN = "file is not a database"  # as SQLite says it
# Not WAL: it needs shared memory, which network file systems lack, and keeps results in a second file.
# Names of students may have no UTF-8 form, so they are kept as bytes, which also sort as they should.
_TABLES = f"""
BEGIN;
CREATE TABLE run (facts TEXT NOT NULL);
CREATE TABLE submission (
    student BLOB, lab TEXT, digest TEXT NOT NULL, note TEXT NOT NULL, seconds REAL NOT NULL,
    PRIMARY KEY (student, lab)
) WITHOUT ROWID;
CREATE TABLE result (
    student BLOB, lab TEXT, number INTEGER, exercise TEXT NOT NULL, status TEXT NOT NULL,
    points INTEGER NOT NULL, possible INTEGER NOT NULL, outcome TEXT NOT NULL, evidence TEXT,
    PRIMARY KEY (student, lab, number)
) WITHOUT ROWID;
CREATE TABLE failure (student BLOB, lab TEXT, reason TEXT NOT NULL, PRIMARY KEY (student, lab)) WITHOUT ROWID;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_FORMAT};
COMMIT;
"""
_ROWS = """
SELECT student, lab, exercise, status, points, possible, digest, outcome, evidence, note, seconds
FROM submission JOIN result USING (student, lab) ORDER BY student, lab, number
"""


class LedgerRefused(OnnxLabError):
    """An output folder cannot be used: another run's, damaged, or of another kind."""


@dataclass(frozen=True)
class Graded:
    """One row: what came of one exercise of one submission.

    Attributes:
        student: The student's name.
        lab: The lab's full name.
        exercise: The exercise's id.
        status: How it stands, as in `onnxlab.labs.kit.outcome.Status`.
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


class Ledger:
    """The results in an output folder, open for one run. Use it in a `with` statement; threads may share it.

    Args:
        folder: The output folder; made if it is not there.
        run: What marks may depend on, as from `facts`.
        seed: The run's seed; None for the one that the folder has, else for a new one.

    Attributes:
        folder: The output folder.
        seed: The seed in use.
        notes: What an instructor should know: other versions than before.

    Raises:
        LedgerRefused: If the folder holds something else, is damaged, is in use, or has another seed.
        CannotWrite: If the folder takes no files.
    """

    def __init__(self, folder: Path, run: Mapping[str, str], seed: int | None = None) -> None:
        self.folder = folder
        self.notes: list[str] = []
        self._path = folder / "results.sqlite"
        self._mutex = threading.RLock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(folder, error) from None
        for each in (folder, folder / _EVIDENCE):
            remove_unfinished(each)
        with self._telling_why():
            self._base = sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            with self._telling_why():
                self._open(dict(run))
            self.seed = _seed_of(folder, seed)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let other runs use the folder."""
        self._base.close()

    def done(self, submission: Submission) -> bool:
        """Whether a submission, as it is now, has its rows."""
        asked = "SELECT 1 FROM submission WHERE student = ? AND lab = ? AND digest = ?"
        with self._mutex:
            key = _bytes(submission.student), submission.lab, submission.digest
            return self._base.execute(asked, key).fetchone() is not None

    def record(
        self,
        submission: Submission,
        outcomes: Sequence[Outcome],
        *,
        evidence: Mapping[str, Mapping[str, Any]] | None = None,
        note: str = "",
        seconds: float = 0.0,
    ) -> bool:
        """Write the rows of a submission, all of them or none. When this returns, they are on disk.

        Args:
            submission: The submission.
            outcomes: One for each exercise of its lab.
            evidence: The graphs to show by exercise, as a judge writes them.
            note: What went wrong with the notebook as a whole.
            seconds: How long it took.

        Returns:
            False if the rows were there already: a result that comes twice counts once.

        Raises:
            CannotWrite: If there is no room; the results are then as they were before.
        """
        if not outcomes:
            msg = f"A submission for {submission.lab} has no exercises."
            raise ValueError(msg)
        key = _bytes(submission.student), submission.lab
        with self._mutex:
            if self.done(submission):
                return False
            files = {name: self._keep(submission, name, data) for name, data in (evidence or {}).items()}
            rows = [
                (
                    *key,
                    number,
                    one.exercise,
                    str(one.status),
                    one.points,
                    one.possible,
                    json.dumps(_shortened(one.as_json())),
                    files.get(one.exercise),
                )
                for number, one in enumerate(outcomes)
            ]
            with self._writing() as base:
                for table in ("submission", "result", "failure"):
                    base.execute(f"DELETE FROM {table} WHERE student = ? AND lab = ?", key)
                whole = (*key, submission.digest, json.dumps(_shortened(note)), round(seconds, 3))
                base.execute("INSERT INTO submission VALUES (?, ?, ?, ?, ?)", whole)
                base.executemany("INSERT INTO result VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        return True

    def failed(self, submission: Submission, reason: str) -> None:
        """Note that the grader itself failed over a submission: no row; the next run grades it."""
        values = _bytes(submission.student), submission.lab, json.dumps(_shortened(reason))
        with self._mutex, self._writing() as base:
            base.execute("INSERT OR REPLACE INTO failure VALUES (?, ?, ?)", values)

    @property
    def failures(self) -> dict[tuple[str, str], str]:
        """What could not be graded in this run and why, by student and lab."""
        with self._mutex:
            found = self._base.execute("SELECT student, lab, reason FROM failure").fetchall()
        return {(_text(student), lab): json.loads(reason) for student, lab, reason in found}

    def rows(self) -> Iterator[Graded]:
        """Give the rows by student and lab, one in memory at a time.

        Raises:
            LedgerRefused: If one was changed by hand into no row.
        """
        for row in self._base.execute(_ROWS):
            student, lab, exercise, status, points, possible, digest, outcome, evidence, note, seconds = row
            try:
                graded = Graded(
                    _text(student),
                    lab,
                    exercise,
                    str(Status(status)),
                    int(points),
                    int(possible),
                    digest,
                    dict(json.loads(outcome)),
                    evidence,
                    str(json.loads(note)),
                    float(seconds),
                )
            except (ValueError, TypeError, AttributeError, RecursionError):
                msg = f"{self._path}: the row for {_text(student)!r}, {lab}, {exercise} is damaged."
                then = "Delete that submission's rows: it is then graded again."
                raise LedgerRefused(msg, "It was changed by another program.", then) from None
            yield graded

    def _open(self, run: dict[str, str]) -> None:
        base = self._base
        base.execute("PRAGMA locking_mode = EXCLUSIVE")  # kept from the first write to the end
        base.execute("PRAGMA synchronous = FULL")
        (found,) = base.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        (application,) = base.execute("PRAGMA application_id").fetchone()
        (written,) = base.execute("PRAGMA user_version").fetchone()
        if not base.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            base.executescript(_TABLES)
        elif application != _APPLICATION:
            raise sqlite3.DatabaseError(_FOREIGN)
        elif written != _FORMAT:
            msg = f"{self._path} was written by another version of the grader (format {written})."
            raise LedgerRefused(msg, "", "Give another --out.")
        with self._writing():
            base.execute("DELETE FROM failure")
            if (before := base.execute("SELECT facts FROM run").fetchone()) is not None:
                known = json.loads(before[0])
                changed = [f"{name} {known.get(name)}" for name in run if run[name] != known.get(name)]
                if changed:
                    self.notes.append(f"Earlier rows were graded with {', '.join(changed)}.")
            base.execute("DELETE FROM run")
            base.execute("INSERT INTO run VALUES (?)", (json.dumps(run),))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it or nothing."""
        with self._telling_why():
            try:
                self._base.execute("BEGIN IMMEDIATE")
                yield self._base
                self._base.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # a full disk has rolled it back already
                    self._base.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _telling_why(self) -> Iterator[None]:
        """Say what SQLite says in the grader's words."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                msg = f"Another run is writing to {self.folder}."
                raise LedgerRefused(msg, "", "Wait until it has ended, or give another --out.") from None
            raise cannot_write(self._path, OSError(str(error))) from None
        except sqlite3.DatabaseError as error:
            if error.args[0] == _FOREIGN:
                msg = f"{self._path} is not a file of the grader's."
                raise LedgerRefused(msg, "", "Move it away, or give another --out.") from None
            msg = f"{self._path} is damaged: {error}."
            raise LedgerRefused(msg, "", "Move it away: then everything is graded again.") from None

    def _keep(self, submission: Submission, exercise: str, data: Mapping[str, Any]) -> str:
        """Write the graphs for one exercise; graded again after a failure, it gets the same name."""
        name = f"{safe_name(submission.student)}.{submission.digest[:16]}.{safe_name(exercise)}.json"
        write_atomically(self.folder / _EVIDENCE / name, json.dumps(dict(data)))
        return name


def kept(folder: Path, name: str) -> Evidence | None:
    """Read the graphs of a row again; None if they are gone or damaged: nobody's points depend on them.

    Args:
        folder: The output folder.
        name: The file, as in `Graded.evidence`.
    """
    if Path(name).name != name:
        return None
    try:
        data = json.loads((folder / _EVIDENCE / name).read_text("utf-8"))
        expected = data.get("expected")
        return Evidence(
            base64.b64decode(data["model"], validate=True),
            None if expected is None else base64.b64decode(expected, validate=True),
            tuple(map(str, data.get("highlight") or ())),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, binascii.Error):
        return None


def facts(level: str) -> dict[str, str]:
    """Return what marks may depend on, besides a run's seed: versions, and how submissions were confined."""
    found = {"level": level}
    for name in ("onnxlab", "torch", "onnx", "onnxruntime", "onnxscript"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _seed_of(folder: Path, given: int | None) -> int:
    """Return the seed of an output folder; keep it there if it is new, where only its owner reads it.

    Raises:
        LedgerRefused: If the folder has another seed than the given one, or a file that holds none.
        CannotWrite: If it cannot be kept.
    """
    path = folder / "run.json"
    try:
        known = json.loads(path.read_text("utf-8"))["seed"]
        if not isinstance(known, int) or isinstance(known, bool):
            raise TypeError
    except FileNotFoundError:
        known = secrets.randbits(48) if given is None else given
        write_atomically(path, json.dumps({"seed": known}) + "\n", mode=0o600)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        msg = f"{path} does not hold a run's seed."
        raise LedgerRefused(
            msg, "", "Delete it: what is graded stays graded, the rest gets a new seed."
        ) from None
    if given is not None and given != known:
        msg = f"{folder} was graded with another seed than {given}."
        raise LedgerRefused(msg, f"The seed is in {path}.", "Leave --seed out, or give another --out.")
    return int(known)


def _shortened(value: Any) -> Any:  # noqa: ANN401 - JSON can be anything
    """Cut the texts in a value: a message may quote an answer, and an answer may be of any size."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
    if isinstance(value, list):
        return [_shortened(each) for each in value]
    if isinstance(value, dict):
        return {key: _shortened(each) for key, each in value.items()}
    return value


def _bytes(student: str) -> bytes:
    return student.encode("utf-8", "surrogatepass")


def _text(student: bytes) -> str:
    return student.decode("utf-8", "surrogatepass")
