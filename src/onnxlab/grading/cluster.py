"""Grading on a Dask cluster: cells go out as bytes, marks come back, and only this process writes them.

A submission whose worker dies is given to another one by Dask. One that a worker fails over is sent out again
by this process, to a worker that did not yet fail over it.
"""

import contextlib
import ipaddress
import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnxlab.grading.cluster_crew import ClusterFailed, Crew, Sent
from onnxlab.grading.cluster_task import Job
from onnxlab.grading.intake import Intake, Submission
from onnxlab.grading.ledger import Ledger, facts
from onnxlab.grading.levels import Level, Limits, NoIsolation, available
from onnxlab.grading.private_judges import NONE, PrivateJudges
from onnxlab.grading.run import ATTEMPTS, Step, cells_to_run, keep
from onnxlab.grading.supervisor import Marked

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["ClusterFailed", "Tls", "common_level", "connected", "grade_on"]

_ANSWER_SECONDS = 15.0  # for a scheduler to answer, and for its first worker


@dataclass(frozen=True)
class Tls:
    """Files that prove who is who: the authority's certificate, one's own, and its key."""

    authority: str
    certificate: str
    key: str


@contextlib.contextmanager
def connected(address: str, tls: Tls | None = None) -> Iterator["Client"]:
    """Connect to a Dask scheduler with at least one worker.

    Args:
        address: Where it is: `tcp://127.0.0.1:8786`, or `tls://...` for one on another machine.
        tls: What to show to it, and to know it by.

    Raises:
        ClusterFailed: If Dask is not installed, nobody answers, or anybody could listen.
    """
    try:
        from distributed import Client
        from distributed.security import Security
    except ImportError:
        msg = "Dask is not installed."
        raise ClusterFailed(msg, "", 'Run: pip install "dask[distributed]"; also on each worker.') from None
    address = address if "://" in address else f"{'tls' if tls else 'tcp'}://{address}"
    if not address.startswith("tls://") and not _loopback(address):
        msg = f"{address} is another machine, and the connection would not be encrypted."
        then = "Use tls:// with --tls-ca, --tls-cert and --tls-key; see docs/grading.md."
        raise ClusterFailed(msg, "Notebooks and the run's seed would be sent for all to read.", then)
    try:
        files = (
            {"tls_ca_file": tls.authority, "tls_client_cert": tls.certificate, "tls_client_key": tls.key}
            if tls
            else {}
        )
        security = Security(require_encryption=bool(tls), **files)
        client = Client(address, security=security, timeout=_ANSWER_SECONDS, set_as_default=False)
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
    msg = f"Not every worker has the isolation {asked or Level.POSIX}."
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
    waiting, crew = iter(todo), Crew(client)
    done = graded = 0
    started, versions = time.monotonic(), facts("")

    def finished(submission: Submission, problem: str) -> None:
        nonlocal done, graded
        done, graded = done + 1, graded + (not problem)
        left = (time.monotonic() - started) / done * (len(todo) - done)
        told(Step(submission, done, len(todo), left, problem))

    while done < len(todo):
        for submission in itertools.islice(waiting, crew.room()):
            cells = cells_to_run(submission, ledger)
            if isinstance(cells, str):
                finished(submission, cells)
            else:
                data = json.dumps(cells).encode()
                job = Job(submission.lab, level, limits, versions, data, ledger.seed, judges)
                crew.send(Sent(submission, job))
        if (answer := crew.answer()) is None:
            continue
        sent, found = answer
        if isinstance(found, Marked):
            keep(sent.submission, ledger, found)
            finished(sent.submission, "")
        elif len(sent.failed_on) + 1 < ATTEMPTS:
            sent.failed_on.append(found.worker)
            crew.send(sent)
        else:
            ledger.failed(sent.submission, found.reason)
            finished(sent.submission, found.reason)
    return graded


def _loopback(address: str) -> bool:
    host = address.partition("://")[2].rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
