"""Grading on a Dask cluster: cells go out, marks come back, and only this process writes them.

A submission whose worker dies is given to another one by Dask. What a worker fails over is sent out again, to
those that have not failed. Each worker has one fork server, which ends with the run, or with the worker.
"""

import contextlib
import functools
import ipaddress
import itertools
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from onnxlab.errors import OnnxLabError
from onnxlab.grading.marking import Marked, sweep
from onnxlab.grading.private_judges import NONE, PrivateJudges
from onnxlab.grading.results import Ledger, facts
from onnxlab.grading.run import ATTEMPTS, Step, attempt, cells_to_run, keep
from onnxlab.grading.submissions import Intake, Submission
from onnxlab.grading.worker.client import Processes, processes
from onnxlab.sandbox.levels import Level, Limits, NoIsolation, available
from onnxlab.sandbox.libc import LINUX, set_dumpable

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["ClusterFailed", "common_level", "connected", "grade_on"]

_ANSWER_SECONDS = 15.0  # for a scheduler to answer, and for its first worker
_PATIENCE = 60.0  # without any worker
_LOOK_SECONDS = 2.0  # between looks at which workers there are
_FIRST_PLACE = 500  # those below are left to runs without a cluster


class ClusterFailed(OnnxLabError):
    """There is no cluster to grade on, or no more. What was graded is kept."""


@dataclass(frozen=True)
class Job:
    """What a worker gets. Dask writes arguments to its logs, so the secrets are not shown."""

    lab: str
    level: Level | None
    limits: Limits
    versions: dict[str, str]
    cells: list[str] = field(repr=False)
    seed: int = field(repr=False)
    judges: PrivateJudges = field(default=NONE, repr=False)


@dataclass(frozen=True)
class Problem:
    """Why a worker could not grade."""

    worker: str
    reason: str


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
    todo = [each for each in intake.submissions if not ledger.done(each)]
    started, versions, steps = time.monotonic(), facts(""), itertools.count(1)
    graded = 0

    def finished(submission: Submission, problem: str) -> None:
        nonlocal graded
        done, graded = next(steps), graded + (not problem)
        left = (time.monotonic() - started) / done * (len(todo) - done)
        told(Step(submission, done, len(todo), left, problem))

    jobs: dict[Submission, Job] = {}
    for submission in todo:
        cells = cells_to_run(submission, ledger)
        if isinstance(cells, str):
            finished(submission, cells)
        else:
            jobs[submission] = Job(submission.lab, level, limits, versions, cells, ledger.seed, judges)
    failing: set[str] = set()
    for left_over in reversed(range(ATTEMPTS)):
        good = [worker for worker in client.nthreads() if worker not in failing] if jobs else []
        futures = client.map(_grade_there, list(jobs.values()), pure=False, workers=good or None)
        sent = dict(zip(futures, list(jobs), strict=True))
        for future, found in _answers(client, list(futures), good):
            submission = sent[future]
            if isinstance(found, Marked):
                keep(submission, ledger, found)
            elif left_over:
                failing.add(found.worker)
                continue
            else:
                ledger.failed(submission, found.reason)
            del jobs[submission]
            finished(submission, "" if isinstance(found, Marked) else found.reason)
    with contextlib.suppress(Exception):  # it ends with its worker at the latest
        client.run(_end_warm)
    return graded


def _answers(
    client: "Client", futures: "list[Future[Marked | Problem]]", good: list[str]
) -> "Iterator[tuple[Future[Marked | Problem], Marked | Problem]]":
    """Give answers as they come; where none of the good workers is left, that is a problem of theirs."""
    ended: queue.SimpleQueue[Future[Marked | Problem]] = queue.SimpleQueue()
    for future in futures:
        future.add_done_callback(ended.put)
    out, looked = set(futures), time.monotonic()
    seen = looked
    while out:
        with contextlib.suppress(queue.Empty):
            future = ended.get(timeout=_LOOK_SECONDS)
            if future.status in ("cancelled", "lost"):
                _lost("The connection to the scheduler was lost.")
            try:
                found = future.result(timeout=_ANSWER_SECONDS)
            except TimeoutError:  # its worker died after it had finished: Dask has it graded again
                future.add_done_callback(ended.put)
                continue
            except Exception as error:  # whatever it was there, it is no student's fault
                found = Problem("", f"{type(error).__name__}: {error}"[:500])
            out.remove(future)
            yield future, found
        if (now := time.monotonic()) - looked < _LOOK_SECONDS:
            continue
        try:
            workers = client.nthreads()
        except OSError:
            _lost("The scheduler does not answer any more.")
        looked = now
        if workers:
            seen = now
        elif now - seen > _PATIENCE:
            _lost("All workers are gone.")
        if good and workers and not workers.keys() & set(good):  # nobody is left who may
            for future in out:
                yield future, Problem("", "Its worker is gone.")
            client.cancel(list(out))
            return


def _lost(what: str) -> NoReturn:
    raise ClusterFailed(what, "", "What is graded is kept; the same command goes on from there.")


def _loopback(address: str) -> bool:
    host = address.partition("://")[2].rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _grade_there(job: Job) -> Marked | Problem:
    """Grade a submission, on a Dask worker."""
    from distributed import get_worker

    worker = get_worker().address
    here = facts("")
    if different := [
        f"{name} {here[name]}, not {job.versions[name]}" for name in here if here[name] != job.versions[name]
    ]:
        return Problem(worker, f"{worker}: A worker has {'; '.join(different)}.")
    with _place() as place:
        found = attempt(
            job.cells,
            job.lab,
            _warm(),
            seed=job.seed,
            level=job.level,
            limits=job.limits,
            place=place,
            judges=job.judges,
        )
    return Problem(worker, f"{worker}: {found}") if isinstance(found, str) else found


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
