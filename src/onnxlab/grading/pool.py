"""What runs tasks: a warm process that is replaced when it dies, or a new Python for each."""

import contextlib
import subprocess
import sys
import threading
from types import TracebackType

from onnxlab.grading.tasks import Task
from onnxlab.grading.warm_process import START_SECONDS, WarmProcess, WorkerDied, variables

__all__ = ["Forks", "Processes", "WorkerDied", "can_fork", "processes"]

_GRACE_SECONDS = 180.0  # beyond a task's own limit, which its watcher keeps: to load and to fork


def can_fork() -> bool:
    """Whether tasks can be forked from a warm process: on Linux. Elsewhere a fork after torch is not safe."""
    return sys.platform == "linux"


def processes(*, fork: bool | None = None) -> "Processes":
    """Return what runs tasks on this machine.

    Args:
        fork: Whether from a warm process; None for where that is safe.
    """
    return Forks() if (can_fork() if fork is None else fork) else Processes()


class Processes:
    """Runs each task in a new Python. Slow (seconds), but it works everywhere. Threads may share it."""

    def __enter__(self) -> "Processes":
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def begin(self) -> None:
        """Start what is kept running, without waiting for it: nothing here."""

    def ready(self) -> None:
        """Wait until tasks can be given, and the labs are known.

        Raises:
            WorkerDied: If that cannot be.
        """

    def run(self, task: Task) -> int:
        """Run a task and return its exit code.

        Raises:
            WorkerDied: If it could not be started.
        """
        command = [sys.executable, "-m", "onnxlab.grading.warm", "--once", task.as_json()]
        try:
            done = subprocess.run(
                command,
                cwd=task.folder,
                stdin=subprocess.DEVNULL,
                timeout=task.limits.wall + START_SECONDS,
                check=False,
                env=variables(),
            )
        except subprocess.TimeoutExpired:
            return 124
        except OSError as error:
            msg = f"No process could be started: {error}."
            raise WorkerDied(msg) from None
        return done.returncode

    def close(self) -> None:
        """End what is kept running: nothing."""


class Forks(Processes):
    """One warm process, from which each task is forked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._warm: WarmProcess | None = None
        self._closed = False

    def begin(self) -> None:
        """Start the warm process, without waiting until it has loaded everything."""
        with self._lock, contextlib.suppress(WorkerDied):  # `run` says so
            self._current()

    def ready(self) -> None:
        """Wait until tasks can be given, and the labs are known.

        Raises:
            WorkerDied: If the warm process does not start.
        """
        with self._lock:
            self._current().wait_until_ready()

    def run(self, task: Task) -> int:
        """Run a task and return its exit code.

        Raises:
            WorkerDied: If the warm process ended meanwhile, or does not answer.
        """
        with self._lock:
            warm = self._current()
            warm.wait_until_ready()
            future = warm.give(task)
        try:
            return future.result(task.limits.wall + _GRACE_SECONDS)
        except TimeoutError:
            warm.end()  # with everything it forked
            msg = f"A task did not end {_GRACE_SECONDS:g} seconds after its limit."
            raise WorkerDied(msg) from None

    def close(self) -> None:
        """End the warm process and wait until it is gone."""
        self._closed = True
        if self._warm is not None:
            self._warm.end()

    @property
    def process_id(self) -> int | None:
        """The warm process, while there is one."""
        return self._warm.process.pid if self._warm and self._warm.process.poll() is None else None

    def _current(self) -> WarmProcess:
        if self._closed:
            msg = "The grader is being ended."
            raise WorkerDied(msg)
        if self._warm is None or self._warm.process.poll() is not None:
            self._warm = WarmProcess()
        return self._warm
