"""A run over all submissions: what is not graded yet is, side by side, and every result is kept at once."""

import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from onnxlab.grading.marking import JudgeFailed, Marked, SandboxFailed, Terms, mark, sweep
from onnxlab.grading.private_judges import NONE, JudgeBroken, PrivateJudges
from onnxlab.grading.results import Ledger
from onnxlab.grading.submissions import CannotRead, Intake, NotebookUnreadable, Submission, cells_of, read
from onnxlab.grading.worker.client import Processes, WorkerDied, processes
from onnxlab.grading.worker.task import lab
from onnxlab.labs.kit.outcome import Outcome, Status
from onnxlab.sandbox.levels import Level, Limits
from onnxlab.sandbox.libc import set_dumpable

__all__ = ["ATTEMPTS", "Progress", "Step", "attempt", "cells_to_run", "grade", "keep"]

ATTEMPTS = 3
"""How often a submission is tried if the grader fails over it."""


@dataclass(frozen=True)
class Step:
    """How far a run is.

    Attributes:
        submission: The one that is done now.
        done: How many are, of those that this run grades.
        total: How many this run grades.
        left: Seconds until the end, if it goes on like this.
        problem: Why the grader could not grade it; "" if it could.
    """

    submission: Submission
    done: int
    total: int
    left: float
    problem: str = ""


class Progress:
    """Counts what a run has done, and tells after each submission."""

    def __init__(self, total: int, told: Callable[[Step], None]) -> None:
        self._started, self._done = time.monotonic(), 0
        self._total, self._told = total, told
        self.graded = 0

    def finished(self, submission: Submission, problem: str) -> None:
        """One more is done; `problem` says why it could not be graded."""
        self._done += 1
        self.graded += not problem
        left = (time.monotonic() - self._started) / self._done * (self._total - self._done)
        self._told(Step(submission, self._done, self._total, left, problem))


def grade(
    intake: Intake,
    ledger: Ledger,
    *,
    level: Level | None,
    limits: Limits,
    jobs: int = 2,
    judges: PrivateJudges = NONE,
    pool: Processes | None = None,
    told: Callable[[Step], None] = lambda step: None,
) -> int:
    """Grade every submission that is not in the ledger as it is now.

    Args:
        intake: The submissions.
        ledger: Where the results go.
        level: How submissions are confined; None where the system cannot.
        limits: What a submission may use.
        jobs: How many are graded side by side.
        judges: What is asked besides the exercises' own parts.
        pool: What runs tasks, perhaps started before; None to start it now. It is closed at the end.
        told: Called after each, from one thread at a time.

    Returns:
        How many were graded.

    Raises:
        CannotWrite: If the ledger cannot be written; what was written stays.
    """
    set_dumpable(False)
    sweep()
    todo = [each for each in intake.submissions if not ledger.done(each)]
    if not todo:
        if pool is not None:
            pool.close()
        return 0
    workers, terms = min(jobs, len(todo)), Terms(ledger.seed, level, limits, judges)
    places: queue.SimpleQueue[int] = queue.SimpleQueue()
    for place in range(workers):
        places.put(place)

    def work(submission: Submission) -> str:
        place = places.get()
        try:
            return _one(submission, ledger, servers, terms, place)
        finally:
            places.put(place)

    progress = Progress(len(todo), told)
    rest = iter(todo)
    with _ForkServers(pool or processes()) as servers, ThreadPoolExecutor(workers) as threads:
        waiting: dict[Future[str], Submission] = {}  # a few at a time: memory does not grow with the class
        try:
            while True:
                for each in itertools.islice(rest, 2 * workers - len(waiting)):
                    waiting[threads.submit(work, each)] = each
                if not waiting:
                    break
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    progress.finished(waiting.pop(future), future.result())
        finally:  # also when the instructor presses Ctrl+C, or the disk is full
            threads.shutdown(wait=False, cancel_futures=True)
            servers.close()  # the threads wait for answers that do not come any more
    return progress.graded


class _ForkServers:
    """The fork server that all share, and one of its own for each submission that is tried again.

    Who brings a fork server down shares the next one with nobody. When a run is stopped, all of them end,
    and none is started any more.
    """

    def __init__(self, shared: Processes) -> None:
        self._open = [shared]
        self.shared = shared
        self.stopped = threading.Event()

    def __enter__(self) -> "_ForkServers":
        self.shared.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def another(self) -> Iterator[Processes]:
        server = type(self.shared)()
        self._open.append(server)
        if not self.stopped.is_set():  # set before the list is gone through, so one of both sees the other
            server.begin()
        try:
            yield server
        finally:
            server.close()
            self._open.remove(server)

    def close(self) -> None:
        self.stopped.set()
        for one in list(self._open):
            one.close()


def cells_to_run(submission: Submission, ledger: Ledger) -> list[str] | str:
    """Return a submission's cells.

    If none can be run, keep that and return why the grader could not grade it; "" if it has its mark now.
    """
    try:
        return cells_of(read(submission.path))
    except CannotRead as error:  # the system refuses the file: nobody's mark
        ledger.failed(submission, str(error))
        return str(error)
    except NotebookUnreadable as error:
        ledger.record(submission, _unreadable(submission.lab, str(error)), note=str(error))
        return ""


def attempt(cells: list[str], name: str, pool: Processes, terms: Terms, place: int) -> Marked | str:
    """Mark a submission's cells as `marking.mark` does; return why if the grader cannot."""
    try:
        return mark(cells, name, pool, terms, place)
    except (WorkerDied, SandboxFailed, JudgeBroken, JudgeFailed) as error:
        return " ".join(str(error).split())
    except Exception as error:  # the machine's fault (no room, too many processes) or this program's
        return f"{type(error).__name__}: {error}"


def keep(submission: Submission, ledger: Ledger, found: Marked) -> None:
    """Write a submission's marks."""
    ledger.record(submission, found.outcomes, evidence=found.evidence, note=found.note, seconds=found.seconds)


def _one(submission: Submission, ledger: Ledger, servers: _ForkServers, terms: Terms, place: int) -> str:
    """Grade a submission and keep the result; return why the grader could not."""
    with contextlib.suppress(WorkerDied):  # the attempts below say why
        servers.shared.ready()
    if servers.stopped.is_set():
        return "The run was stopped."
    cells = cells_to_run(submission, ledger)
    if isinstance(cells, str):
        return cells
    problem = ""
    for number in range(ATTEMPTS):
        with servers.another() if number else contextlib.nullcontext(servers.shared) as pool:
            found = attempt(cells, submission.lab, pool, terms, place)
        if isinstance(found, Marked):
            keep(submission, ledger, found)
            return ""
        if servers.stopped.is_set():  # it did not fail: its process was ended
            return "The run was stopped."
        problem = found
    ledger.failed(submission, problem)
    return problem


def _unreadable(name: str, reason: str) -> list[Outcome]:
    return [Outcome(each.id, Status.ERROR, 0, each.points, message=reason) for each in lab(name).exercises]
