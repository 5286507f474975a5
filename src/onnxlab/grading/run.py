"""A run over all submissions: what is not graded yet is, side by side, and every result is kept at once."""

import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from onnxlab.grading.catalogue import lab
from onnxlab.grading.intake import CannotRead, Intake, Submission, read
from onnxlab.grading.ledger import Ledger
from onnxlab.grading.levels import Level, Limits
from onnxlab.grading.pool import Processes, WorkerDied, processes
from onnxlab.grading.private_judges import NONE, PrivateJudges
from onnxlab.grading.private_parts import JudgeBroken
from onnxlab.grading.submission_cells import NotebookUnreadable, cells_of
from onnxlab.grading.supervisor import Marked, SandboxFailed, mark, sweep
from onnxlab.grading.system_calls import let_look
from onnxlab.labs.outcome import Outcome, Status

__all__ = ["ATTEMPTS", "Step", "attempt", "cells_to_run", "grade", "keep"]

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
    let_look(False)
    sweep()
    todo = [each for each in intake.submissions if not ledger.done(each)]
    if not todo:
        if pool is not None:
            pool.close()
        return 0
    workers = min(jobs, len(todo))
    places: queue.SimpleQueue[int] = queue.SimpleQueue()
    for place in range(workers):
        places.put(place)
    stop = threading.Event()

    def work(submission: Submission) -> str:
        if stop.is_set():
            return ""
        place = places.get()
        try:
            return _one(submission, ledger, warm, place, level, limits, judges)
        finally:
            places.put(place)

    started, done, graded = time.monotonic(), 0, 0
    rest = iter(todo)
    with pool or processes() as warm, ThreadPoolExecutor(workers) as threads:
        waiting: dict[Future[str], Submission] = {}  # a few at a time: memory does not grow with the class
        try:
            while True:
                for each in itertools.islice(rest, 2 * workers - len(waiting)):
                    waiting[threads.submit(work, each)] = each
                if not waiting:
                    break
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    submission, problem = waiting.pop(future), future.result()
                    done, graded = done + 1, graded + (not problem)
                    left = (time.monotonic() - started) / done * (len(todo) - done)
                    told(Step(submission, done, len(todo), left, problem))
        finally:  # also when the instructor presses Ctrl+C, or the disk is full
            stop.set()
            threads.shutdown(wait=False, cancel_futures=True)
            warm.close()
    return graded


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


def attempt(
    cells: list[str],
    name: str,
    pool: Processes,
    *,
    seed: int,
    level: Level | None,
    limits: Limits,
    place: int,
    judges: PrivateJudges = NONE,
) -> Marked | str:
    """Mark a submission's cells as `supervisor.mark` does; return why if the grader cannot."""
    try:
        return mark(cells, name, pool, seed=seed, level=level, limits=limits, place=place, judges=judges)
    except (WorkerDied, SandboxFailed, JudgeBroken) as error:
        return " ".join(str(error).split())
    except OSError as error:  # no room for a folder, too many processes: the machine's, not the student's
        return f"{type(error).__name__}: {error}"


def keep(submission: Submission, ledger: Ledger, found: Marked) -> None:
    """Write a submission's marks."""
    ledger.record(submission, found.outcomes, evidence=found.evidence, note=found.note, seconds=found.seconds)


def _one(
    submission: Submission,
    ledger: Ledger,
    pool: Processes,
    place: int,
    level: Level | None,
    limits: Limits,
    judges: PrivateJudges,
) -> str:
    """Grade a submission and keep the result; return why the grader could not."""
    with contextlib.suppress(WorkerDied):  # the attempts below say why
        pool.ready()
    cells = cells_to_run(submission, ledger)
    if isinstance(cells, str):
        return cells
    problem = ""
    for number in range(ATTEMPTS):
        # Who brings the warm process down shares the next one with nobody.
        with type(pool)() if number else contextlib.nullcontext(pool) as warm:
            found = attempt(
                cells,
                submission.lab,
                warm,
                seed=ledger.seed,
                level=level,
                limits=limits,
                place=place,
                judges=judges,
            )
        if isinstance(found, Marked):
            keep(submission, ledger, found)
            return ""
        problem = found
    ledger.failed(submission, problem)
    return problem


def _unreadable(name: str, reason: str) -> list[Outcome]:
    return [Outcome(each.id, Status.ERROR, 0, each.points, message=reason) for each in lab(name).exercises]
