"""The ledger of a run: one line for each student and exercise, written as it happens, and never lost.

`results.jsonl` begins with a line about the run. The rows of one submission are written together,
numbered `[1, 4]` to `[4, 4]`, so that a submission is in the ledger as a whole or not at all: what a killed
run left half written is cut off when the ledger is opened again. Lines are only ever added; for a submission
that was handed in again, the rows written last count. The seed stands in `run.json`, which no report reads.
"""

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from onnxlab.errors import OnnxLabError
from onnxlab.grading import evidence as evidence_files
from onnxlab.grading.append_only import AppendOnlyFile
from onnxlab.grading.intake import Submission
from onnxlab.grading.ledger_rows import Graded, LedgerRefused, as_line, as_row, order, submission_lines
from onnxlab.grading.ledger_scan import FORMAT, KIND, Place, scan
from onnxlab.grading.run_facts import facts
from onnxlab.grading.run_seed import seed_of
from onnxlab.grading.whole_files import cannot_write, remove_torn, write_whole
from onnxlab.labs.outcome import Outcome

__all__ = ["Graded", "Ledger", "LedgerRefused", "facts"]


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
        self._places: dict[tuple[str, str], Place] = {}
        self._mutex = threading.Lock()
        self._file: AppendOnlyFile | None = None
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
            self._file.close()
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
        lines = submission_lines(submission, outcomes, kept, note, seconds)
        with self._mutex:
            if self.done(submission):
                return False
            if self._file is None:
                msg = f"{self._path} is closed."
                raise ValueError(msg)
            start = self._file.append(lines)
            place = Place(submission.digest, start, self._file.size)
            self._places[submission.student, submission.lab] = place
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
            places = sorted(self._places.items(), key=lambda each: order(each[0]))
        with self._path.open("rb") as file:
            for _, place in places:
                file.seek(place.start)
                for line in file.read(place.end - place.start).splitlines():
                    yield as_row(json.loads(line))

    def _open(self, run: dict[str, str], seed: int | None) -> None:
        for each in (self.folder, self.folder / evidence_files.FOLDER):
            remove_torn(each)
        begun = self._path.exists() and self._path.stat().st_size > 0
        self.seed = seed_of(self.folder, seed)
        if not begun:
            write_whole(self._path, as_line({"kind": KIND, "format": FORMAT, "run": run}))
        with self._path.open("rb") as file:
            found = scan(file, self._path)
        self._places = found.places
        self._file = AppendOnlyFile(self._path, found.size)
        with contextlib.suppress(FileNotFoundError):
            self._failures_path.unlink()
        if torn := self._file.torn:
            self.notes.append(
                f"An earlier run was cut off while it wrote; {torn} bytes without a result removed."
            )
        if run != found.run:
            changed = [f"{name} {found.run.get(name)}" for name in run if run[name] != found.run.get(name)]
            self.notes.append(f"Earlier rows were graded with {', '.join(changed)}.")
            self._file.append(as_line({"run": run}))

    def _write_failures(self) -> None:
        listed = [
            {"student": student, "lab": lab, "reason": reason}
            for (student, lab), reason in sorted(self._failures.items(), key=lambda each: order(each[0]))
        ]
        if listed:
            write_whole(self._failures_path, json.dumps(listed, indent=1) + "\n")
