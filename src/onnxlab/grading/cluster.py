"""Grading on a Dask cluster: cells go out, marks come back, and only this process writes them.

A submission whose worker dies is given to another one by Dask. What a worker fails over is sent out again, to
those that have not failed if there are some. Each worker has one fork server, which ends with the run, or
with the worker.
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
from onnxlab.grading.marking import Marked, Terms, sweep
from onnxlab.grading.private_judges import NONE, PrivateJudges
from onnxlab.grading.results import Ledger, facts
from onnxlab.grading.run import ATTEMPTS, Progress, Step, attempt, cells_to_run, keep
from onnxlab.grading.submissions import Intake, Submission
from onnxlab.grading.worker.client import Processes, processes
from onnxlab.sandbox.levels import Level, Limits, NoIsolation, available
from onnxlab.sandbox.libc import LINUX, set_dumpable

if TYPE_CHECKING:
    from distributed import Client, Future, as_completed

__all__ = ["ClusterFailed", "common_level", "connected", "grade_on"]

_ANSWER_SECONDS = 15.0  # for a scheduler to answer, and for its first worker
_PATIENCE = 60.0  # without any worker
_LOOK_SECONDS = 0.5  # between looks at what has come, and which workers there are
_FIRST_PLACE = 500  # those below are left to runs without a cluster


class ClusterFailed(OnnxLabError):
    """There is no cluster to grade on, or no more. What was graded is kept."""


@dataclass(frozen=True)
class Job:
    """What a worker gets. Dask writes arguments to its logs, so the cells are not shown."""

    lab: str
    cells: list[str] = field(repr=False)
    terms: Terms
    versions: dict[str, str]


Answer: TypeAlias = tuple[str, Marked | str]
"""The worker's address, and the marks, or why it could not grade."""


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
        raise ClusterFailed(msg, why, "Use tls://; see docs/grading.md.")
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


def common_level(client: "Client", asked: Level | None = None) -> Level:
    """Return the level that was asked for, else the strongest, if every worker there is has it.

    Raises:
        ClusterFailed: If a worker cannot be asked.
        NoIsolation: If a worker has not.
    """
    try:
        found = client.run(available)
    except (OSError, ImportError) as error:
        msg = "A worker could not be asked how it can confine submissions."
        then = "Each needs this course's Python and dask[distributed]; if one has just died, try again."
        raise ClusterFailed(msg, " ".join(str(error).split())[:300], then) from None
    lacks = ""
    for level in [asked] if asked else Level:
        without = {worker: reasons[level] for worker, reasons in found.items() if reasons[level]}
        if not without:
            return level
        lacks = "; ".join(f"{worker}: {reason}" for worker, reason in without.items())
    msg = f"Not every worker has the isolation {asked or level}."
    raise NoIsolation(msg, lacks[:500], "Leave out --isolation for the most they all have, or end those.")


def grade_on(
    client: "Client",
    intake: Intake,
    ledger: Ledger,
    *,
    level: Level | None,
    limits: Limits,
    judges: PrivateJudges = NONE,
    told: Callable[[Step], None] = lambda step: None,
) -> int:
    """Grade on a cluster every submission that is not in the ledger as it is now, as `run.grade` does here.

    Args:
        client: The cluster.
        intake: The submissions.
        ledger: Where the results go.
        level: How submissions are confined; None for not at all.
        limits: What a submission may use.
        judges: What is asked besides the exercises' own parts.
        told: Called after each.

    Returns:
        How many were graded.

    Raises:
        CannotWrite: If the ledger cannot be written; what was written stays.
        ClusterFailed: If the scheduler or all workers are gone.
    """
    from distributed import as_completed

    todo = [each for each in intake.submissions if not ledger.done(each)]
    progress = Progress(len(todo), told)
    terms, versions = Terms(ledger.seed, level, limits, judges), facts("")
    jobs: dict[Submission, Job] = {}
    for submission in todo:
        cells = cells_to_run(submission, ledger)
        if isinstance(cells, str):
            progress.finished(submission, cells)
        else:
            jobs[submission] = Job(submission.lab, cells, terms, versions)
    futures = dict(zip(client.map(_grade_there, list(jobs.values()), pure=False), jobs, strict=True))
    answers = as_completed(futures, client.loop, with_results=True, raise_errors=False)
    failures: Counter[Submission] = Counter()
    failing: set[str] = set()
    bound: dict[Future[Answer], list[str]] = {}  # to these workers
    for future, (worker, found) in _watched(client, answers, bound):
        submission = futures.pop(future)
        if isinstance(found, Marked):
            keep(submission, ledger, found)
            progress.finished(submission, "")
            continue
        failing.add(worker)
        failures[submission] += 1
        if failures[submission] == ATTEMPTS:
            ledger.failed(submission, found)
            progress.finished(submission, found)
            continue
        good = [one for one in _workers(client) if one not in failing]
        again = client.submit(_grade_there, jobs[submission], pure=False, workers=good or None)
        futures[again] = submission
        if good:
            bound[again] = good
        answers.add(again)
    with contextlib.suppress(Exception):  # it ends with its worker at the latest
        client.run(_end_warm)
    return progress.graded


def _watched(
    client: "Client", answers: "as_completed", bound: "dict[Future[Answer], list[str]]"
) -> "Iterator[tuple[Future[Answer], Answer]]":
    """Give answers as they come, and see meanwhile that there is somebody who works, and who may.

    What is bound to workers that are gone comes back as not graded.
    """
    seen = time.monotonic()
    while not answers.is_empty():
        for future, answer in answers.next_batch(block=False):
            if bound.pop(future, None) == []:
                yield future, ("", "Its worker is gone.")
            elif future.status in ("cancelled", "lost"):
                _lost("The connection to the scheduler was lost.")
            elif future.status == "error":  # whatever it was there, it is no student's fault
                kind, error, _ = answer
                yield future, ("", f"{kind.__name__}: {error}"[:500])
            else:
                yield future, answer
        if workers := _workers(client):
            seen = time.monotonic()
            for future, good in bound.items():
                if good and workers.isdisjoint(good):
                    good.clear()  # how it is known above, as cancelled from here
                    future.cancel()
        elif time.monotonic() - seen > _PATIENCE:
            _lost("All workers are gone.")
        time.sleep(_LOOK_SECONDS)


def _workers(client: "Client") -> set[str]:
    try:
        return set(client.nthreads())
    except OSError:
        _lost("The scheduler does not answer any more.")


def _lost(what: str) -> NoReturn:
    raise ClusterFailed(what, "", "What is graded is kept; the same command goes on from there.")


def _loopback(address: str) -> bool:
    host = address.partition("://")[2].rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _grade_there(job: Job) -> Answer:
    """Grade a submission, on a Dask worker."""
    from distributed import get_worker

    worker, here = get_worker().address, facts("")
    if different := [
        f"{name} {here[name]}, not {job.versions[name]}" for name in here if here[name] != job.versions[name]
    ]:
        return worker, f"{worker}: A worker has {'; '.join(different)}."
    with _place() as place:
        found = attempt(job.cells, job.lab, _warm(), job.terms, place)
    return worker, f"{worker}: {found}" if isinstance(found, str) else found


_STARTING = threading.Lock()


@functools.cache
def _shared() -> Processes:
    set_dumpable(False)
    sweep()
    return processes()


def _warm() -> Processes:
    """Return the fork server of this Dask worker, which its threads share."""
    with _STARTING:
        return _shared()


def _end_warm() -> None:
    """End it; the next run starts another one."""
    with _STARTING:
        if _shared.cache_info().currsize:
            _shared().close()
            _shared.cache_clear()


@contextlib.contextmanager
def _place() -> Iterator[int]:
    """A number that no other submission on this machine has now.

    It stands in the name of a socket, which two processes cannot have and which ends with its process.
    """
    if not LINUX:
        yield 0
        return
    for number in itertools.count(_FIRST_PLACE):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as name:
            try:
                name.bind(f"\0onnxlab-grade-{number}")
            except OSError:  # another worker's
                continue
            yield number
            return
