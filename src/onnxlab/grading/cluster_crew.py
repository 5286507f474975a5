"""The workers of a Dask cluster as a run sees them: they come and go, get submissions, and answer."""

import itertools
import queue
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from onnxlab.errors import OnnxLabError
from onnxlab.grading.cluster_task import Job, Problem, grade_there
from onnxlab.grading.intake import Submission
from onnxlab.grading.supervisor import Marked

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["ClusterFailed", "Crew", "Sent"]

_RESULT_SECONDS = 15.0  # for a result that is there to arrive
_PATIENCE = 60.0  # without any worker
_LOOK_SECONDS = 2.0  # between looks at which workers there are


class ClusterFailed(OnnxLabError):
    """There is no cluster to grade on, or no more. What was graded is kept."""


@dataclass
class Sent:
    """A submission that is out."""

    submission: Submission
    job: Job
    failed_on: list[str] = field(default_factory=list)
    only_on: list[str] = field(default_factory=list)


class Crew:
    """The workers there are, and what they were given."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._number = itertools.count()
        self._out: dict[str, tuple[Sent, Future[Marked | Problem]]] = {}
        self._ended: queue.SimpleQueue[Future[Marked | Problem]] = queue.SimpleQueue()
        self._workers: dict[str, int] = {}
        self._looked = self._seen = time.monotonic()
        self._look()

    def room(self) -> int:
        """How many more can be sent, so that every worker has its next one, and memory does not grow."""
        return max(0, 2 * sum(self._workers.values()) + 2 - len(self._out))

    def send(self, sent: Sent) -> None:
        """Give a submission to a worker that did not yet fail over it, if there is one."""
        others = [worker for worker in self._workers if worker not in sent.failed_on]
        sent.only_on = others if sent.failed_on else []
        future = self._client.submit(
            grade_there,
            sent.job,
            key=f"onnxlab-grade-{self._client.id}-{next(self._number)}",
            workers=sent.only_on or None,  # no others: those that fail at once would steal it from the busy
            pure=False,
        )
        self._out[str(future.key)] = sent, future
        future.add_done_callback(self._ended.put)

    def answer(self) -> tuple[Sent, Marked | Problem] | None:
        """Wait for an answer; None if there is none for now."""
        if time.monotonic() - self._looked > _LOOK_SECONDS:
            self._look()
        if not self._out:
            return None
        try:
            future = self._ended.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            return None
        if str(future.key) not in self._out:  # it was sent again
            return None
        if future.status == "cancelled":
            self._lost("The connection to the scheduler was lost.")
        try:
            found = future.result(timeout=_RESULT_SECONDS)
        except TimeoutError:  # its worker died after it had finished: it is graded again elsewhere
            future.add_done_callback(self._ended.put)
            return None
        except Exception as error:  # whatever it was there, it is no student's fault
            last = getattr(getattr(error, "last_worker", None), "address", "")
            found = Problem(last, f"{type(error).__name__}: {error}"[:500])
        return self._out.pop(str(future.key))[0], found

    def _look(self) -> None:
        """See which workers there are."""
        now = time.monotonic()
        try:
            self._workers = self._client.nthreads()
        except OSError:
            self._lost("The scheduler does not answer any more.")
        self._looked = now
        for sent, future in list(self._out.values()):
            if sent.only_on and not self._workers.keys() & set(sent.only_on):  # nobody is left who may
                del self._out[str(future.key)]
                future.cancel()
                self.send(sent)
        if self._workers:
            self._seen = now
        elif now - self._seen > _PATIENCE:
            self._lost("All workers are gone.")

    def _lost(self, what: str) -> NoReturn:
        raise ClusterFailed(what, "", "What is graded is kept; the same command goes on from there.")
