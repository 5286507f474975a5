"""The grader's end of the worker processes: start them, give them tasks, hear how they ended."""

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
from typing import Any

from onnxlab.errors import OnnxLabError
from onnxlab.grading.worker.task import LARGEST_GREETING, LARGEST_MESSAGE, QUIET, Task, register
from onnxlab.sandbox.levels import Ending

__all__ = ["Forks", "Processes", "WorkerDied", "can_fork", "processes"]

START_SECONDS = 180.0
_END_SECONDS = 1.0  # to end by itself; killed, it takes what it forked with it all the same
# Ctrl+C in a terminal reaches a whole group of processes; it is for the grader, which then ends these.
_APART: dict[str, Any] = {"process_group": 0}
if sys.platform == "win32":
    _APART = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
_CLOSED = "The grader is being ended."
_GRACE_SECONDS = 180.0  # beyond a task's own limit, which its watcher keeps: to load and to fork


class WorkerDied(OnnxLabError):
    """The grader's own process ended. No submission is to blame, and the task can be done again."""


class ForkServer:
    """The process of `server.py`, from its start to its end."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._waiting: dict[str, Future[int]] = {}
        self._ready = False
        command = [sys.executable, "-m", "onnxlab.grading.worker.server", str(theirs.fileno())]
        with theirs:
            try:
                self.process = subprocess.Popen(
                    command,
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env=variables(),
                    **_APART,
                )
            except OSError as error:
                self._control.close()
                msg = f"No process could be started: {error}."
                raise WorkerDied(msg) from None

    def wait_until_ready(self) -> None:
        """Wait for its greeting, which tells of the labs."""
        if self._ready:
            return
        self._control.settimeout(START_SECONDS)
        try:
            greeting = json.loads(self._control.recv(LARGEST_GREETING))
        except (OSError, ValueError):
            self.end()
            msg = "The fork server did not start."
            raise WorkerDied(
                msg,
                "It loads torch, onnx and onnxruntime.",
                "Does `import onnxlab.grading.worker.server` work?",
            ) from None
        self._control.settimeout(None)
        register(greeting["labs"])
        self._ready = True
        threading.Thread(target=self._listen, daemon=True).start()

    def give(self, task: Task) -> "Future[int]":
        """Give it a task; the exit code comes later."""
        future: Future[int] = Future()
        self._waiting[task.id] = future
        try:
            self._control.send(task.as_json().encode())
        except OSError as error:
            msg = f"The fork server does not take tasks: {error}."
            raise WorkerDied(msg) from None
        return future

    def end(self) -> None:
        """End it, with everything it forked, and wait until it is gone."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        try:
            if self._ready:  # before, it has forked nothing, and does not listen
                self.process.wait(_END_SECONDS)
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
            future.set_exception(WorkerDied(f"The fork server ended with code {self.process.returncode}."))


def variables() -> dict[str, str]:
    """Return the variables of a worker, which finds this package where this process does."""
    paths = [str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **QUIET, "PYTHONPATH": os.pathsep.join(paths)}


def can_fork() -> bool:
    """Whether there can be a fork server: on Linux. Elsewhere a fork after torch is not safe."""
    return sys.platform == "linux"


def processes() -> "Processes":
    """Return what runs tasks on this machine."""
    return Forks() if can_fork() else Processes()


class Processes:
    """Runs each task in a new Python. Slow (seconds), but it works everywhere. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._running: set[subprocess.Popen[bytes]] = set()

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
        command = [sys.executable, "-m", "onnxlab.grading.worker.server", "--once", task.as_json()]
        try:
            with self._lock:
                if self._closed:
                    raise WorkerDied(_CLOSED)
                process = subprocess.Popen(
                    command, cwd=task.folder, stdin=subprocess.DEVNULL, env=variables(), **_APART
                )
                self._running.add(process)
        except OSError as error:
            msg = f"No process could be started: {error}."
            raise WorkerDied(msg) from None
        try:
            code = process.wait(task.limits.wall + START_SECONDS)
        except subprocess.TimeoutExpired:
            code = Ending.TIME
        finally:
            process.kill()
            process.wait()
            self._running.discard(process)
        if self._closed:  # it was ended from here: that says nothing about the submission
            raise WorkerDied(_CLOSED)
        return code

    def close(self) -> None:
        """End what is running; nothing is run any more."""
        with self._lock:
            self._closed = True
        for process in list(self._running):
            process.kill()


class Forks(Processes):
    """One fork server, from which each task is forked."""

    def __init__(self) -> None:
        super().__init__()
        self._server: ForkServer | None = None

    def begin(self) -> None:
        """Start the fork server, without waiting until it has loaded everything."""
        with self._lock, contextlib.suppress(WorkerDied):  # `run` says so
            self._current()

    def ready(self) -> None:
        """Wait until tasks can be given, and the labs are known.

        Raises:
            WorkerDied: If the fork server does not start.
        """
        with self._lock:
            self._current().wait_until_ready()

    def run(self, task: Task) -> int:
        """Run a task and return its exit code.

        Raises:
            WorkerDied: If the fork server ended meanwhile, or does not answer.
        """
        with self._lock:
            server = self._current()
            server.wait_until_ready()
            future = server.give(task)
        try:
            return future.result(task.limits.wall + _GRACE_SECONDS)
        except TimeoutError:
            server.end()  # with everything it forked
            msg = f"A task did not end {_GRACE_SECONDS:g} seconds after its limit."
            raise WorkerDied(msg) from None

    def close(self) -> None:
        """End the fork server and wait until it is gone."""
        self._closed = True
        if self._server is not None:
            self._server.end()

    @property
    def process_id(self) -> int | None:
        """The fork server, while there is one."""
        return self._server.process.pid if self._server and self._server.process.poll() is None else None

    def _current(self) -> ForkServer:
        if self._closed:
            raise WorkerDied(_CLOSED)
        if self._server is None or self._server.process.poll() is not None:
            self._server = ForkServer()
        return self._server
