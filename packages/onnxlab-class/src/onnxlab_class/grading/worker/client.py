"""The workers as the grader sees them: a pool that takes tasks, on Linux with a fork server."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from onnxlab.errors import OnnxLabError
from onnxlab_class.grading.worker.task import ENVIRONMENT, LARGEST_MESSAGE, PACKAGES, READY, Task
from onnxlab_class.sandbox.watcher import PATIENCE, Ending

# -P: the working directory may be a student's, and modules in it must not be imported.
_COMMAND = (sys.executable, "-P", "-m", "onnxlab_class.grading.worker.server")
START_SECONDS = 180.0
_CLOSE_SECONDS = 1.0  # from Ctrl+C to `close`, twice what the grader takes
_END_SECONDS = 1.0  # to end by itself; its forks end with it, also if it is killed
# Ctrl+C in a terminal signals a whole process group. Workers have their own: the grader ends them.
_OWN_GROUP: dict[str, Any] = {"process_group": 0}
if sys.platform == "win32":
    _OWN_GROUP = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
# All that a worker gets of this process's environment. The kernel puts the variables on a new program's
# stack, where a submission can read them even if they are deleted later. So these say where programs,
# libraries, packages and folders are, and none is a token.
_INHERITED_VARIABLES = (
    *("PATH", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "PYTHONUSERBASE", "PYTHONNOUSERSITE"),
    *("HOME", "TMPDIR", "TEMP", "TMP", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
    *("SYSTEMROOT", "USERPROFILE"),  # Windows
)
_CLOSED = "The grader is being ended."
_GRACE_SECONDS = 180.0  # to load and to fork, on top of a task's own limit, which its watcher enforces


class WorkerDied(OnnxLabError):
    """A process of the grader ended. No submission is to blame, and the task can be run again."""


class ForkServer:
    """A process that runs `server.py`."""

    def __init__(self) -> None:
        self._control, remote = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._waiting: dict[str, Future[int]] = {}
        self._ready = False
        command = [*_COMMAND, str(remote.fileno())]
        with remote:
            try:
                self.process = subprocess.Popen(
                    command,
                    pass_fds=[remote.fileno()],
                    stdin=subprocess.DEVNULL,
                    env=environment(),
                    **_OWN_GROUP,
                )
            except OSError as error:
                self._control.close()
                msg = f"No process could be started: {error}."
                raise WorkerDied(msg) from None

    def wait_until_ready(self) -> None:
        """Wait for its greeting: it has loaded what tasks need."""
        if self._ready:
            return
        self._control.settimeout(START_SECONDS)
        try:
            started = self._control.recv(LARGEST_MESSAGE) == READY
        except OSError:
            started = False
        if not started:
            self.end()
            msg = "The fork server did not start."
            raise WorkerDied(
                msg,
                "It loads torch, onnx and onnxruntime.",
                "Does `import onnxlab_class.grading.worker.server` work?",
            )
        self._control.settimeout(None)
        self._ready = True
        threading.Thread(target=self._listen, daemon=True).start()

    def submit(self, task: Task) -> "Future[int]":
        """Send it a task; the future holds the exit code."""
        future: Future[int] = Future()
        self._waiting[task.id] = future
        try:
            self._control.send(task.as_json().encode())
        except OSError as error:
            msg = f"The fork server does not take tasks: {error}."
            raise WorkerDied(msg) from None
        return future

    def end(self) -> None:
        """End it and everything it forked, and wait until it is gone."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        try:
            if self._ready:  # else it has forked nothing and does not listen yet
                self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        self.process.kill()
        self.process.wait()

    def _listen(self) -> None:
        """Give each exit code to the thread that waits for it; at the end, fail those that still wait."""
        while True:
            try:
                message = self._control.recv(LARGEST_MESSAGE)
            except OSError:
                message = b""
            if not message:
                break
            reply = json.loads(message)
            if future := self._waiting.pop(reply["id"], None):
                future.set_result(int(reply["code"]))
        self.process.wait()
        self._control.close()
        for future in list(self._waiting.values()):
            future.set_exception(WorkerDied(f"The fork server ended with code {self.process.returncode}."))


def environment() -> dict[str, str]:
    """Return a worker's environment variables, with which it imports the same packages as this process."""
    inherited = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
    paths = [*(str(package.parent) for package in PACKAGES), *filter(None, [inherited.get("PYTHONPATH")])]
    return {**inherited, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join(paths)}


def can_fork() -> bool:
    """Whether there can be a fork server: on Linux. Elsewhere a fork is not safe once torch is loaded."""
    return sys.platform == "linux"


def worker_pool() -> "WorkerPool":
    """Return the pool for this machine."""
    return ForkServerPool() if can_fork() else WorkerPool()


class WorkerPool:
    """Runs each task in a new Python, which takes seconds and works everywhere. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._running: set[subprocess.Popen[bytes]] = set()

    def __enter__(self) -> "WorkerPool":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the fork server, if there is one, without waiting for it."""

    def wait_until_ready(self) -> None:
        """Wait until the pool takes tasks.

        Raises:
            WorkerDied: If the fork server does not start.
        """

    def run(self, task: Task) -> int:
        """Run a task and return its exit code.

        Raises:
            WorkerDied: If it could not be started.
        """
        command = [*_COMMAND, "--once", task.as_json()]
        try:
            with self._lock:
                if self._closed:
                    raise WorkerDied(_CLOSED)
                process = subprocess.Popen(
                    command, cwd=task.folder, stdin=subprocess.DEVNULL, env=environment(), **_OWN_GROUP
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
        if (
            code == -signal.SIGINT
        ):  # by itself, or by Ctrl+C before it had a group of its own: then `close` follows
            time.sleep(_CLOSE_SECONDS)
        if self._closed:  # `close` ended it: that says nothing about the submission
            raise WorkerDied(_CLOSED)
        return code

    def close(self) -> None:
        """End the running tasks; later ones are refused."""
        with self._lock:
            self._closed = True
        for process in list(self._running):
            process.kill()


class ForkServerPool(WorkerPool):
    """Forks each task from one fork server."""

    def __init__(self) -> None:
        super().__init__()
        self._server: ForkServer | None = None

    def start(self) -> None:
        """Start the fork server without waiting for it."""
        with self._lock, contextlib.suppress(WorkerDied):  # `run` raises it
            self._running_server()

    def wait_until_ready(self) -> None:
        """Wait until the fork server takes tasks.

        Raises:
            WorkerDied: If the fork server does not start.
        """
        with self._lock:
            self._running_server().wait_until_ready()

    def run(self, task: Task) -> int:
        """Run a task and return its exit code.

        Raises:
            WorkerDied: If the fork server ended or does not answer.
        """
        with self._lock:
            server = self._running_server()
            server.wait_until_ready()
            future = server.submit(task)
        try:
            return future.result(PATIENCE * task.limits.wall + _GRACE_SECONDS)
        except TimeoutError:
            server.end()  # with everything it forked
            msg = f"A task did not end {_GRACE_SECONDS:g} seconds after its last limit."
            raise WorkerDied(msg) from None

    def close(self) -> None:
        """End the fork server and wait until it is gone."""
        self._closed = True
        if self._server is not None:
            self._server.end()

    @property
    def process_id(self) -> int | None:
        """The process ID of the fork server; None while there is none."""
        return self._server.process.pid if self._server and self._server.process.poll() is None else None

    def _running_server(self) -> ForkServer:
        if self._closed:
            raise WorkerDied(_CLOSED)
        if self._server is None or self._server.process.poll() is not None:
            self._server = ForkServer()
        return self._server
