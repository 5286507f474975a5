"""The ledger: the results of a run in a SQLite database, written after each submission.

`results.sqlite` in the output folder has a row for each student, lab and exercise. A submission is written in
one transaction, so its rows are all there or none is: after a kill at any moment, on a full disk, after a
power cut. A newer submission replaces the older one. The file is locked while a run has it open, so a second
run is refused. `run.json` holds the seed, a secret that no report reads, and `evidence/` the graphs for the
feedback.
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
from onnxlab.kit.outcome import Evidence, Outcome, Status
from onnxlab.message import from_json
from onnxlab_class.grading.submissions import Submission, safe_name

_APPLICATION, _FORMAT = 0x6F6E6C62, 2  # "onlb"; 1 was a file of JSON lines
_LONGEST = 4000  # characters of one text in a row
EVIDENCE = "evidence"
"""The folder of graphs and drawings in an output folder."""
_LEAST_SEED = 1 << 64  # those below can be found by trying them all
_UNWRITABLE = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_TOOBIG,
}
_FOREIGN = "file is not a database"  # SQLite's own message
# No WAL journal: it needs shared memory, which network file systems lack, and a second file.
# A student's name may have no UTF-8 form, so it is stored as bytes, which sort the same everywhere.
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
    """An output folder cannot be used: it is in use, damaged, or holds something else."""


@dataclass(frozen=True)
class Graded:
    """One row: the result of one exercise of one submission.

    Attributes:
        student: The student's name.
        lab: The lab's full name.
        exercise: The exercise's id.
        status: The status, as in `onnxlab.kit.outcome.Status`.
        points: The points for it.
        possible: The points it can give.
        digest: The hash of the submission's content, as in `Submission`.
        outcome: The whole outcome, as `Outcome.as_json` gives it.
        evidence: The name of the file with the graphs, in the folder `evidence`; None if there are none.
        submission_note: What went wrong with the notebook as a whole.
        seconds: How long it took to grade the whole submission.
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


def read_points(folder: Path) -> tuple[dict[str, dict[str, int]], set[str]]:
    """Return each student's points by exercise, and the students whose newest work could not all be graded.

    Raises:
        LedgerRefused: If the folder has no results that can be read.
    """
    points: dict[str, dict[str, int]] = {}
    address = f"{(folder / 'results.sqlite').absolute().as_uri()}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(address, uri=True)) as base:
            for student, exercise, have in base.execute("SELECT student, exercise, points FROM result"):
                points.setdefault(_text(student), {})[str(exercise)] = int(have)
            failed = {_text(student) for (student,) in base.execute("SELECT student FROM failure")}
    except (sqlite3.Error, TypeError, ValueError) as error:
        raise LedgerRefused(
            f"There are no results to be read in {folder}: {error}.", "", "Grade first, and let that end."
        ) from None
    return points, failed


class Ledger:
    """The results in an output folder, open for one run. Use it in a `with` statement; threads may share it.

    Args:
        folder: The output folder; made if it is not there.
        run: The versions and the sandbox, from `facts`.
        seed: The run's seed; None for the folder's, or a new one if it has none. A number of fewer than 64
            bits only names the run, and its seed is drawn.

    Attributes:
        folder: The output folder.
        seed: The seed in use.
        notes: Notes for the instructor: that the versions have changed.

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
        for path in (folder, folder / EVIDENCE):
            remove_unfinished(path)
        with self._translate_errors():
            self._base = sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            with self._translate_errors():
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
        """Whether a submission has rows for its present content."""
        query = "SELECT 1 FROM submission WHERE student = ? AND lab = ? AND digest = ?"
        with self._mutex, self._translate_errors():
            key = _bytes(submission.student), submission.lab, submission.digest
            return self._base.execute(query, key).fetchone() is not None

    def record(
        self,
        submission: Submission,
        outcomes: Sequence[Outcome],
        *,
        evidence: Mapping[str, Mapping[str, Any]] | None = None,
        note: str = "",
        seconds: float = 0.0,
    ) -> bool:
        """Write the rows of a submission in one transaction. When this returns, they are on disk.

        Args:
            submission: The submission.
            outcomes: One for each exercise of its lab.
            evidence: The graphs by exercise, as a judge reports them.
            note: What went wrong with the notebook as a whole.
            seconds: How long it took.

        Returns:
            False if there were rows for this content already: a second result counts nothing.

        Raises:
            CannotWrite: If there is no room; the results then stay as they were.
        """
        if not outcomes:
            msg = f"A submission for {submission.lab} has no exercises."
            raise ValueError(msg)
        key = _bytes(submission.student), submission.lab
        with self._mutex:
            if self.done(submission):
                return False
            files = {
                name: self._write_evidence(submission, name, graphs)
                for name, graphs in (evidence or {}).items()
            }
            rows = [
                (
                    *key,
                    number,
                    outcome.exercise,
                    str(outcome.status),
                    outcome.points,
                    outcome.possible,
                    json.dumps(_shortened(outcome.as_json())),
                    files.get(outcome.exercise),
                )
                for number, outcome in enumerate(outcomes)
            ]
            with self._writing() as base:
                for table in ("submission", "result", "failure"):
                    base.execute(f"DELETE FROM {table} WHERE student = ? AND lab = ?", key)
                row = (*key, submission.digest, json.dumps(_shortened(note)), round(seconds, 3))
                base.execute("INSERT INTO submission VALUES (?, ?, ?, ?, ?)", row)
                base.executemany("INSERT INTO result VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        return True

    def failed(self, submission: Submission, reason: str) -> None:
        """Note that the grader itself failed on a submission. It gets no row, and the next run grades it."""
        values = _bytes(submission.student), submission.lab, json.dumps(_shortened(reason))
        with self._mutex, self._writing() as base:
            base.execute("INSERT OR REPLACE INTO failure VALUES (?, ?, ?)", values)

    @property
    def failures(self) -> dict[tuple[str, str], str]:
        """The reasons for what could not be graded in this run, by student and lab."""
        with self._mutex, self._translate_errors():
            rows = self._base.execute("SELECT student, lab, reason FROM failure").fetchall()
        return {(_text(student), lab): json.loads(reason) for student, lab, reason in rows}

    def rows(self) -> Iterator[Graded]:
        """Yield the rows by student and lab, one in memory at a time.

        Raises:
            LedgerRefused: If another program damaged a row.
        """
        with self._translate_errors():
            for row in self._base.execute(_ROWS):
                yield self._graded(row)

    def _graded(self, row: tuple[Any, ...]) -> Graded:
        student, lab, exercise, status, points, possible, digest, outcome, evidence, note, seconds = row
        try:
            return Graded(
                _text(student),
                lab,
                exercise,
                str(Status(status)),
                int(points),
                int(possible),
                digest,
                dict(json.loads(outcome, object_hook=from_json)),
                evidence,
                str(json.loads(note)),
                float(seconds),
            )
        except (ValueError, TypeError, AttributeError, RecursionError):
            name = student.decode("utf-8", "replace") if isinstance(student, bytes) else student
            msg = f"{self._path}: the row for {name!r}, {lab}, {exercise} is damaged."
            then = "Delete that submission's rows: it is then graded again."
            raise LedgerRefused(msg, "It was changed by another program.", then) from None

    def _open(self, run: dict[str, str]) -> None:
        base = self._base
        base.execute("PRAGMA locking_mode = EXCLUSIVE")  # from the first write until it is closed
        base.execute("PRAGMA synchronous = FULL")
        (report,) = base.execute("PRAGMA quick_check(1)").fetchone()
        if report != "ok":
            raise sqlite3.DatabaseError(report)
        (application,) = base.execute("PRAGMA application_id").fetchone()
        (file_format,) = base.execute("PRAGMA user_version").fetchone()
        if not base.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            base.executescript(_TABLES)
        elif application != _APPLICATION:
            raise sqlite3.DatabaseError(_FOREIGN)
        elif file_format != _FORMAT:
            msg = f"{self._path} was written by another version of the grader (format {file_format})."
            raise LedgerRefused(msg, "", "Give another --out.")
        with self._writing():
            base.execute("DELETE FROM failure")
            if (before := base.execute("SELECT facts FROM run").fetchone()) is not None:
                try:
                    earlier = dict(json.loads(before[0]))
                except (ValueError, TypeError, RecursionError) as error:
                    raise sqlite3.DatabaseError(f"the run's facts: {error}") from None
                changed = [f"{name} {earlier.get(name)}" for name in run if run[name] != earlier.get(name)]
                if changed:
                    self.notes.append(f"Earlier rows were graded with {', '.join(changed)}.")
            base.execute("DELETE FROM run")
            base.execute("INSERT INTO run VALUES (?)", (json.dumps(run),))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction for a block."""
        with self._translate_errors():
            try:
                self._base.execute("BEGIN IMMEDIATE")
                yield self._base
                self._base.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # a full disk has rolled it back already
                    self._base.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn SQLite's errors into the grader's."""
        try:
            yield
        except sqlite3.Error as error:
            # Python's own errors, as of text that is not UTF-8, have no code.
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                msg = f"Another run is writing to {self.folder}."
                raise LedgerRefused(msg, "", "Wait until it has ended, or give another --out.") from None
            if code in _UNWRITABLE:
                raise cannot_write(self._path, OSError(str(error))) from None
            if code == sqlite3.SQLITE_NOTADB or error.args[0] == _FOREIGN:
                msg = f"{self._path} is not a file of the grader's."
                raise LedgerRefused(msg, "", "Move it away, or give another --out.") from None
            msg = f"{self._path} is damaged: {error}."
            raise LedgerRefused(msg, "", "Move it away: then everything is graded again.") from None

    def _write_evidence(self, submission: Submission, exercise: str, graphs: Mapping[str, Any]) -> str:
        """Write the graphs of one exercise; return the file's name, which is the same if graded again."""
        name = f"{safe_name(submission.student)}.{submission.digest[:16]}.{safe_name(exercise)}.json"
        write_atomically(self.folder / EVIDENCE / name, json.dumps(dict(graphs)))
        return name


def read_evidence(folder: Path, name: str) -> Evidence | None:
    """Read the graphs of a row from its file, as in `Graded.evidence`.

    None if they are missing or damaged: no points depend on them.
    """
    if Path(name).name != name:
        return None
    try:
        graphs = json.loads((folder / EVIDENCE / name).read_text("utf-8"))
        expected = graphs.get("expected")
        return Evidence(
            base64.b64decode(graphs["model"], validate=True),
            None if expected is None else base64.b64decode(expected, validate=True),
            tuple(map(str, graphs.get("highlight") or ())),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, binascii.Error):
        return None


def facts(level: str) -> dict[str, str]:
    """Return what marks may depend on besides the seed: the sandbox's level and the packages' versions."""
    versions = {"level": level}
    for name in ("onnxlab", "torch", "onnx", "onnxruntime", "onnxscript"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def _seed_of(folder: Path, requested: int | None) -> int:
    """Return the seed of an output folder; write a new one to a file that only its owner can read.

    Whoever knows the seed can hand in a table of the judges' inputs, and a number of few bits can be found by
    trying them all. So a requested number of fewer than 64 bits only names the run: its seed is drawn.

    Raises:
        LedgerRefused: If the folder has another seed than the requested one, or a file without a seed.
        CannotWrite: If the file cannot be written.
    """
    path = folder / "run.json"
    stored = _stored_seed(path)
    seed, name = stored or (requested or 0, requested)
    if requested not in (None, seed, name):
        msg = f"{folder} was graded with another seed than {requested}."
        raise LedgerRefused(msg, f"The seed is in {path}.", "Leave --seed out, or give another --out.")
    if seed < _LEAST_SEED:
        seed, name = secrets.randbits(128) | _LEAST_SEED, seed if stored else name
    if (seed, name) != stored:
        write_atomically(path, json.dumps({"seed": seed, "name": name}) + "\n", mode=0o600)
    return seed


def _stored_seed(path: Path) -> tuple[int, int | None] | None:
    """Return a run's seed, and the number that was requested for it; None if there is no file."""
    try:
        stored = json.loads(path.read_text("utf-8"))
        seed, name = stored["seed"], stored.get("name")
        if type(seed) is not int or type(name) not in (int, type(None)):
            raise TypeError
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        msg = f"{path} does not hold a run's seed."
        raise LedgerRefused(
            msg, "", "Delete it: what is graded stays graded, the rest gets a new seed."
        ) from None
    return seed, name


def _shortened(value: Any) -> Any:  # noqa: ANN401 - JSON can be anything
    """Shorten the texts in a value: a message may quote an answer of any size."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
    if isinstance(value, list):
        return [_shortened(element) for element in value]
    if isinstance(value, dict):
        return {key: _shortened(entry) for key, entry in value.items()}
    return value


def _bytes(student: str) -> bytes:
    return student.encode("utf-8", "surrogatepass")


def _text(student: bytes) -> str:
    return student.decode("utf-8", "surrogatepass")
