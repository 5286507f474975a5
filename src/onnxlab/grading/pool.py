"""The grader's end of warm processes: start them, give them tasks, replace one that dies."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType

from onnxlab.errors import OnnxLabError
from onnxlab.grading import catalogue
from onnxlab.grading.tasks import Task
from onnxlab.grading.warm import LARGEST_GREETING, LARGEST_MESSAGE

__all__ = ["Forks", "Processes", "WorkerDied", "can_fork", "processes"]

_START_SECONDS = 180.0
_GRACE_SECONDS = 10.0  # beyond a task's own limit: its watcher ends it before


class WorkerDied(OnnxLabError):
    """The grader's own process ended. No submission is to blame, and the task can be done again."""


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
                timeout=task.limits.wall + _START_SECONDS,
                check=False,
                env=_variables(),
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
        self._warm: _Warm | None = None
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

    def _current(self) -> "_Warm":
        if self._closed:
            msg = "The grader is being ended."
            raise WorkerDied(msg)
        if self._warm is None or self._warm.process.poll() is not None:
            self._warm = _Warm()
        return self._warm


class _Warm:
    """A warm process, from its start to its end."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._waiting: dict[str, Future[int]] = {}
        self._ready = False
        command = [sys.executable, "-m", "onnxlab.grading.warm", str(theirs.fileno())]
        with theirs:
            try:
                self.process = subprocess.Popen(
                    command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=_variables()
                )
            except OSError as error:
                self._control.close()
                msg = f"No process could be started: {error}."
                raise WorkerDied(msg) from None

    def wait_until_ready(self) -> None:
        """Wait for its greeting, which tells of the labs."""
        if self._ready:
            return
        self._control.settimeout(_START_SECONDS)
        try:
            greeting = json.loads(self._control.recv(LARGEST_GREETING))
        except (OSError, ValueError):
            self.end()
            msg = "The warm process did not start."
            raise WorkerDied(
                msg, "It loads torch, onnx and onnxruntime.", "Does `import onnxlab.grading.warm` work?"
            ) from None
        self._control.settimeout(None)
        catalogue.take(greeting["labs"])
        self._ready = True
        threading.Thread(target=self._listen, daemon=True).start()

    def give(self, task: Task) -> "Future[int]":
        """Give it a task; the exit code comes later."""
        future: Future[int] = Future()
        self._waiting[task.id] = future
        try:
            self._control.send(task.as_json().encode())
        except OSError as error:
            msg = f"The warm process does not take tasks: {error}."
            raise WorkerDied(msg) from None
        return future

    def end(self) -> None:
        """End it, with everything it forked, and wait until it is gone."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        try:
            if self._ready:  # before, it has forked nothing, and does not listen
                self.process.wait(2)
        except subprocess.TimeoutExpired:
            pass
        self.process.kill()
        self.process.wait()

    def _listen(self) -> None:
        """Hand each answer to the thread that waits for it; if none comes any more, tell all of them."""
        while True:
            try:
                message = self._control.recv(LARGEST_MESSAGE)
            except OSError:
                message = b""
            if not message:
                break
            answer = json.loads(message)
            if future := self._waiting.pop(answer["id"], None):
                future.set_result(int(answer["code"]))
        self.process.wait()
        self._control.close()
        for future in list(self._waiting.values()):
            future.set_exception(WorkerDied(f"The warm process ended with code {self.process.returncode}."))


def _variables() -> dict[str, str]:
    """The variables of a worker: threads are limited before anything is imported."""
    limited = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **limited, "ORT_DISABLE_TELEMETRY": "1", "PYTHONPATH": os.pathsep.join(paths)}
