"""A run: grade the submissions that have no result yet, several at a time, and record each result at once."""

import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from onnxlab.errors import OnnxLabError
from onnxlab.files import CannotWrite
from onnxlab.kit.exercise import lab
from onnxlab.kit.outcome import Outcome, Status
from onnxlab_class.grading.marking import Marks, RunSettings, mark, remove_leftovers
from onnxlab_class.grading.private_judges import NONE, PrivateJudges
from onnxlab_class.grading.results import Ledger, LedgerRefused
from onnxlab_class.grading.submissions import (
    CannotRead,
    Intake,
    NotebookUnreadable,
    Submission,
    cells_of,
    read,
)
from onnxlab_class.grading.worker.client import WorkerDied, WorkerPool, worker_pool
from onnxlab_class.sandbox.entry import Level
from onnxlab_class.sandbox.libc import set_dumpable
from onnxlab_class.sandbox.watcher import Limits

ATTEMPTS = 3
"""How often a submission is tried if the grader fails on it."""


@dataclass(frozen=True)
class Step:
    """The progress of a run after one more submission.

    Attributes:
        submission: The submission.
        done: How many submissions are done in this run.
        total: How many this run grades.
        left: The estimated seconds until the end.
        problem: Why the grader could not grade the submission; "" if it could.
    """

    submission: Submission
    done: int
    total: int
    left: float
    problem: str = ""


class Progress:
    """Counts the submissions that a run has done, and calls a function after each."""

    def __init__(self, total: int, on_step: Callable[[Step], None]) -> None:
        self._started, self._done = time.monotonic(), 0
        self._total, self._on_step = total, on_step
        self.graded = 0

    def finished(self, submission: Submission, problem: str) -> None:
        """Count a submission; `problem` says why it could not be graded."""
        self._done += 1
        self.graded += not problem
        left = (time.monotonic() - self._started) / self._done * (self._total - self._done)
        self._on_step(Step(submission, self._done, self._total, left, problem))


def grade(
    intake: Intake,
    ledger: Ledger,
    *,
    level: Level | None,
    limits: Limits,
    jobs: int = 2,
    judges: PrivateJudges = NONE,
    parts: bool = False,
    pool: WorkerPool | None = None,
    on_step: Callable[[Step], None] = lambda step: None,
) -> int:
    """Grade every submission whose present content is not in the ledger.

    Args:
        intake: The submissions.
        ledger: Where the results go.
        level: The sandbox; None for none.
        limits: What a submission may use.
        jobs: How many submissions are graded at a time.
        judges: The instructor's own judges.
        parts: Whether the parts that hold give points, too.
        pool: The workers, perhaps started before; None to start them now. It is closed at the end.
        on_step: Called after each submission, by one thread at a time.

    Returns:
        How many were graded.

    Raises:
        CannotWrite: If the ledger cannot be written; what was written stays.
    """
    set_dumpable(False)
    remove_leftovers()
    todo = [submission for submission in intake.submissions if not ledger.done(submission)]
    if not todo:
        if pool is not None:
            pool.close()
        return 0
    workers, settings = min(jobs, len(todo)), RunSettings(ledger.seed, level, limits, judges, parts)
    slots: queue.SimpleQueue[int] = queue.SimpleQueue()
    for slot in range(workers):
        slots.put(slot)

    def work(submission: Submission) -> str:
        slot = slots.get()
        try:
            return _grade_submission(submission, ledger, servers, settings, slot)
        finally:
            slots.put(slot)

    progress = Progress(len(todo), on_step)
    rest = iter(todo)
    with _ForkServers(pool or worker_pool()) as servers, ThreadPoolExecutor(workers) as threads:
        waiting: dict[Future[str], Submission] = {}  # a few at a time: memory does not grow with the class
        try:
            while True:
                for submission in itertools.islice(rest, 2 * workers - len(waiting)):
                    waiting[threads.submit(work, submission)] = submission
                if not waiting:
                    break
                # With a timeout: Ctrl+C right before a wait would take effect only after it.
                for future in wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED).done:
                    progress.finished(waiting.pop(future), future.result())
        finally:  # also when the instructor presses Ctrl+C, or the disk is full
            threads.shutdown(wait=False, cancel_futures=True)
            servers.close()  # else the threads wait for their tasks
    return progress.graded


class _ForkServers:
    """The fork server that all submissions share, and one more for each submission that is tried again.

    A submission that may have ended a fork server gets the next one for itself. When a run is stopped, all
    fork servers end, and no other one is started.
    """

    def __init__(self, shared: WorkerPool) -> None:
        self._open = [shared]
        self.shared = shared
        self.stopped = threading.Event()

    def __enter__(self) -> "_ForkServers":
        self.shared.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def another(self) -> Iterator[WorkerPool]:
        server = type(self.shared)()
        self._open.append(server)
        if not self.stopped.is_set():  # `close` sets it before it reads the list: no server is missed
            server.start()
        try:
            yield server
        finally:
            server.close()
            self._open.remove(server)

    def close(self) -> None:
        self.stopped.set()
        for pool in list(self._open):
            pool.close()


def cells_to_run(submission: Submission, ledger: Ledger) -> list[str] | str:
    """Return a submission's cells, as a list.

    If the file is no notebook, record that as its result and return "". If it cannot be read for another
    reason, note that failure and return the reason.
    """
    reason = ""
    try:
        return cells_of(read(submission.path))
    except CannotRead as error:  # not the student's fault: no mark
        reason = _in_words(error)
    except NotebookUnreadable as error:
        ledger.record(submission, _unreadable(submission.lab, str(error)), note=str(error))
    except Exception as error:  # this program's fault
        reason = _in_words(error)
    if reason:
        ledger.failed(submission, reason)
    return reason


def attempt(
    cells: list[str], lab_name: str, pool: WorkerPool, settings: RunSettings, slot: int
) -> Marks | str:
    """Mark a submission's cells as `marking.mark` does; if the grader fails, return the reason."""
    try:
        return mark(cells, lab_name, pool, settings, slot)
    except Exception as error:  # the machine's fault (no room, too many processes) or this program's
        return _in_words(error)


def record(submission: Submission, ledger: Ledger, marks: Marks) -> str:
    """Write a submission's marks into the ledger; return why that failed, or "".

    Nothing in one submission's marks may keep the others from being graded.

    Raises:
        CannotWrite: If there is no room.
        LedgerRefused: If the ledger cannot be used any more.
    """
    try:
        ledger.record(
            submission, marks.outcomes, evidence=marks.evidence, note=marks.note, seconds=marks.seconds
        )
    except (CannotWrite, LedgerRefused):
        raise
    except Exception as error:
        reason = _in_words(error)
        ledger.failed(submission, reason)
        return reason
    return ""


def _grade_submission(
    submission: Submission, ledger: Ledger, servers: _ForkServers, settings: RunSettings, slot: int
) -> str:
    """Grade a submission and record the result; return why the grader could not, or ""."""
    with contextlib.suppress(WorkerDied):  # the attempts below report it
        servers.shared.wait_until_ready()
    if servers.stopped.is_set():
        return "The run was stopped."
    cells = cells_to_run(submission, ledger)
    if isinstance(cells, str):
        return cells
    problem = ""
    for number in range(ATTEMPTS):
        with servers.another() if number else contextlib.nullcontext(servers.shared) as pool:
            marks = attempt(cells, submission.lab, pool, settings, slot)
        if servers.stopped.is_set():  # `close` ended its process
            return "The run was stopped."
        if isinstance(marks, Marks):
            return record(submission, ledger, marks)
        problem = marks
    ledger.failed(submission, problem)
    return problem


def _in_words(error: Exception) -> str:
    """Return why a submission could not be graded, as one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, OnnxLabError) else f"{type(error).__name__}: {text}"


def _unreadable(lab_name: str, reason: str) -> list[Outcome]:
    exercises = lab(lab_name).exercises
    return [Outcome(exercise.id, Status.ERROR, 0, exercise.points, message=reason) for exercise in exercises]
