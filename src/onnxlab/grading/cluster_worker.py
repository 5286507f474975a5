"""The Dask worker's end of grading on a cluster: one warm process for each worker.

It is started through `pool.py` as on one machine: a plain subprocess, which Dask's daemonic workers may have
too (`distributed.worker.daemon` need not be changed), and which imports nothing of theirs. It ends with its
worker, and when nobody has used it for a while.
"""

import contextlib
import functools
import itertools
import json
import socket
import sys
import threading
from collections.abc import Iterator

from onnxlab.grading.cluster_task import Job
from onnxlab.grading.ledger import facts
from onnxlab.grading.pool import Processes, processes
from onnxlab.grading.run import attempt
from onnxlab.grading.supervisor import Marked, sweep
from onnxlab.grading.system_calls import let_look

__all__ = ["grade_here"]

_IDLE_SECONDS = 15.0  # after which a warm process ends
_FIRST_PLACE = 500  # those below are left to runs without a cluster


def grade_here(job: Job) -> Marked | str:
    """Grade a submission with this worker's warm process; return why if that cannot be."""
    here = _versions()
    if different := [
        f"{name} {here[name]}, not {job.versions[name]}" for name in here if here[name] != job.versions[name]
    ]:
        return f"A worker has {'; '.join(different)}."
    with _WARM.use() as pool, _place() as place:
        return attempt(
            json.loads(job.cells),
            job.lab,
            pool,
            seed=job.seed,
            level=job.level,
            limits=job.limits,
            place=place,
            judges=job.judges,
        )


@functools.cache
def _versions() -> dict[str, str]:
    return facts("")


class _Warm:
    """A Dask worker's warm process, shared by its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: Processes | None = None
        self._users = self._uses = 0

    @contextlib.contextmanager
    def use(self) -> Iterator[Processes]:
        with self._lock:
            if self._pool is None:
                let_look(False)
                sweep()
                self._pool = processes()
            pool = self._pool
            self._users, self._uses = self._users + 1, self._uses + 1
        try:
            yield pool
        finally:
            with self._lock:
                self._users -= 1
                timer = threading.Timer(_IDLE_SECONDS, self._rest, [self._uses])
                timer.daemon = True
                timer.start()

    def _rest(self, uses: int) -> None:
        """End the process, unless it was used meanwhile."""
        with self._lock:
            if self._pool is not None and not self._users and self._uses == uses:
                self._pool.close()
                self._pool = None


_WARM = _Warm()


@contextlib.contextmanager
def _place() -> Iterator[int]:
    """A number that no other submission on this machine has now.

    It stands in the name of a socket, which two processes cannot have and which ends with its process.
    """
    if sys.platform != "linux":
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
