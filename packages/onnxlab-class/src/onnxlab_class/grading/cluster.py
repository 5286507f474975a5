"""Grading on a Dask cluster: workers get cells and return marks, and only this process writes them.

If a worker dies, Dask gives its submission to another one. A submission on which a worker fails is sent
again, to workers that have not failed if there are any. Each worker has one fork server, which ends with the
run or with the worker.
"""

import contextlib
import functools
import ipaddress
import itertools
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from onnxlab.errors import OnnxLabError
from onnxlab_class.grading.marking import Marks, RunSettings, remove_leftovers
from onnxlab_class.grading.private_judges import NONE, PrivateJudges
from onnxlab_class.grading.results import Ledger, facts
from onnxlab_class.grading.run import ATTEMPTS, Progress, Step, attempt, cells_to_run, record
from onnxlab_class.grading.submissions import Intake, Submission
from onnxlab_class.grading.worker.client import WorkerPool, worker_pool
from onnxlab_class.sandbox.entry import Level, NoIsolation, available
from onnxlab_class.sandbox.libc import LINUX, set_dumpable
from onnxlab_class.sandbox.watcher import Limits

if TYPE_CHECKING:
    from distributed import Client, Future, as_completed

_ANSWER_SECONDS = 15.0  # for a scheduler to answer, and for its first worker
_PATIENCE = 60.0  # seconds without any worker
_POLL_SECONDS = 0.5  # between two queries for answers and for the list of workers
_FIRST_SLOT = 500  # runs without a cluster use those below


class ClusterFailed(OnnxLabError):
    """There is no cluster to grade on, or it is gone. What was graded is kept."""


@dataclass(frozen=True)
class Job:
    """A submission for a worker. Dask writes arguments to its logs, so the cells have no repr."""

    lab: str
    cells: list[str] = field(repr=False)
    settings: RunSettings
    versions: dict[str, str]


Answer: TypeAlias = tuple[str, Marks | str]
"""The worker's address, and the marks or the reason why it could not grade."""


@contextlib.contextmanager
def connected(address: str) -> "Iterator[Client]":
    """Connect to a Dask scheduler with at least one worker.

    Args:
        address: Where it is: `tcp://127.0.0.1:8786`, or `tls://...` for one on another machine, with the
            files that Dask's own configuration names.

    Raises:
        ClusterFailed: If Dask is not installed, nobody answers, or anybody could listen.
    """
    try:
        from distributed import Client
    except ImportError:
        msg = "Dask is not installed."
        raise ClusterFailed(msg, "", 'Run: pip install "dask[distributed]"; also on each worker.') from None
    address = address if "://" in address else f"tcp://{address}"
    if not address.startswith("tls://") and not _loopback(address):
        msg = f"{address} is another machine, and the connection would not be encrypted."
        why = "Notebooks and the run's seed would be sent for all to read."
        raise ClusterFailed(msg, why, "Use tls://; see the guide to grading.")
    try:
        client = Client(address, timeout=_ANSWER_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        msg = f"No Dask scheduler could be reached at {address}."
        why = " ".join(str(error).split())[:300]
        raise ClusterFailed(msg, why, "Is it running, and are the certificates right?") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=_ANSWER_SECONDS)
        except TimeoutError:
            msg = f"The scheduler at {address} has no workers."
            raise ClusterFailed(msg, "", f"Start one: dask worker {address} --nthreads 1") from None
        yield client


def common_level(client: "Client", requested: Level | None = None) -> Level:
    """Return the requested level, or the strongest one that every worker has.

    Raises:
        ClusterFailed: If a worker does not answer.
        NoIsolation: If a worker lacks the level.
    """
    try:
        levels = client.run(available)
    except (OSError, ImportError) as error:
        msg = "A worker could not be asked how it can confine submissions."
        then = "Each needs this course's Python and dask[distributed]; if one has just died, try again."
        raise ClusterFailed(msg, " ".join(str(error).split())[:300], then) from None
    lacks = ""
    for level in [requested] if requested else Level:
        without = {worker: reasons[level] for worker, reasons in levels.items() if reasons[level]}
        if not without:
            return level
        lacks = "; ".join(f"{worker}: {reason}" for worker, reason in without.items())
    msg = f"Not every worker has the isolation {requested or level}."
    raise NoIsolation(msg, lacks[:500], "Leave out --isolation for the most they all have, or end those.")


def grade_on(
    client: "Client",
    intake: Intake,
    ledger: Ledger,
    *,
    level: Level | None,
    limits: Limits,
    judges: PrivateJudges = NONE,
    parts: bool = False,
    on_step: Callable[[Step], None] = lambda step: None,
) -> int:
    """Do on a cluster what `run.grade` does on this machine, and return how many were graded.

    Raises:
        CannotWrite: If the ledger cannot be written; what was written stays.
        ClusterFailed: If the scheduler or all workers are gone.
    """
    from distributed import as_completed

    todo = [submission for submission in intake.submissions if not ledger.done(submission)]
    progress = Progress(len(todo), on_step)
    settings, versions = RunSettings(ledger.seed, level, limits, judges, parts), facts("")
    jobs: dict[Submission, Job] = {}
    for submission in todo:
        cells = cells_to_run(submission, ledger)
        if isinstance(cells, str):
            progress.finished(submission, cells)
        else:
            jobs[submission] = Job(submission.lab, cells, settings, versions)
    futures = dict(zip(client.map(_grade_there, list(jobs.values()), pure=False), jobs, strict=True))
    answers = as_completed(futures, client.loop, with_results=True, raise_errors=False)
    failures: Counter[Submission] = Counter()
    failing: set[str] = set()
    bound: dict[Future[Answer], list[str]] = {}  # the only workers that may run each
    for future, (worker, marks) in _watch(client, answers, bound):
        submission = futures.pop(future)
        if isinstance(marks, Marks):
            progress.finished(submission, record(submission, ledger, marks))
            continue
        failing.add(worker)
        failures[submission] += 1
        if failures[submission] == ATTEMPTS:
            ledger.failed(submission, marks)
            progress.finished(submission, marks)
            continue
        good = [worker for worker in _workers(client) if worker not in failing]
        again = client.submit(_grade_there, jobs[submission], pure=False, workers=good or None)
        futures[again] = submission
        if good:
            bound[again] = good
        answers.add(again)
    with contextlib.suppress(Exception):  # it ends with its worker at the latest
        client.run(_end_pool)
    return progress.graded


def _watch(
    client: "Client", answers: "as_completed", bound: "dict[Future[Answer], list[str]]"
) -> "Iterator[tuple[Future[Answer], Answer]]":
    """Yield answers as they come; meanwhile check that there are workers.

    A submission that is bound to workers that are gone comes back as not graded.

    Raises:
        ClusterFailed: If the scheduler or all workers are gone.
    """
    last_seen = time.monotonic()
    while not answers.is_empty():
        for future, answer in answers.next_batch(block=False):
            good = bound.pop(future, None)
            if good == []:
                yield future, ("", "Its worker is gone.")
            elif future.status == "error":  # whatever happened there, it is not the student's fault
                kind, error, _ = answer
                yield future, ("", f"{kind.__name__}: {error}"[:500])
            elif isinstance(answer, tuple):  # it is here, even if its worker has died since ("lost")
                yield future, answer
            elif future.status == "cancelled":
                _lost("The connection to the scheduler was lost.")
            else:  # its worker died before the answer was fetched: Dask runs it again
                bound.update({future: good} if good else {})
                answers.add(future)
        if workers := _workers(client):
            last_seen = time.monotonic()
            for future, good in bound.items():
                if good and workers.isdisjoint(good):
                    good.clear()  # marks it above as cancelled from here
                    future.cancel()
        elif time.monotonic() - last_seen > _PATIENCE:
            _lost("All workers are gone.")
        time.sleep(_POLL_SECONDS)


def _workers(client: "Client") -> set[str]:
    try:
        return set(client.nthreads())
    except OSError:
        _lost("The scheduler does not answer any more.")


def _lost(message: str) -> NoReturn:
    raise ClusterFailed(message, "", "What is graded is kept; the same command goes on from there.")


def _loopback(address: str) -> bool:
    host = address.partition("://")[2].rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _grade_there(job: Job) -> Answer:
    """Grade a submission, on a Dask worker."""
    from distributed import get_worker

    worker, versions = get_worker().address, facts("")
    if different := [
        f"{name} {version}, not {job.versions[name]}"
        for name, version in versions.items()
        if version != job.versions[name]
    ]:
        return worker, f"{worker}: A worker has {'; '.join(different)}."
    with _slot() as slot:
        marks = attempt(job.cells, job.lab, _pool(), job.settings, slot)
    return worker, f"{worker}: {marks}" if isinstance(marks, str) else marks


_STARTING = threading.Lock()


@functools.cache
def _shared_pool() -> WorkerPool:
    set_dumpable(False)
    remove_leftovers()
    return worker_pool()


def _pool() -> WorkerPool:
    """Return the pool of this Dask worker, which its threads share."""
    with _STARTING:
        return _shared_pool()


def _end_pool() -> None:
    """End the pool; the next run starts another one."""
    with _STARTING:
        if _shared_pool.cache_info().currsize:
            _shared_pool().close()
            _shared_pool.cache_clear()


@contextlib.contextmanager
def _slot() -> Iterator[int]:
    """A number that no other submission on this machine has at the same time.

    A socket is named after it: no two can have one name, and the name is free once its process ends.
    """
    if not LINUX:
        yield 0
        return
    for number in itertools.count(_FIRST_SLOT):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as holder:
            try:
                holder.bind(f"\0onnxlab-grade-{number}")
            except OSError:  # another worker's
                continue
            yield number
            return
