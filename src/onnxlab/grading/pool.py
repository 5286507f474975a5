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

from onnxlab.errors import OnnxLabError
from onnxlab.grading.tasks import Task
from onnxlab.grading.warm import LARGEST_MESSAGE

__all__ = ["Forks", "Processes", "WorkerDied", "can_fork", "processes"]

_START_SECONDS = 180.0
_GRACE_SECONDS = 10.0  # beyond a task's own limit: its watcher ends it before


class WorkerDied(OnnxLabError):
    """The grader's own process ended. No submission is to blame, and the task can be done again."""


def can_fork() -> bool:
    """Whether tasks can be forked from a warm process: on Linux. Elsewhere a fork after torch is not safe."""
    return sys.platform == "linux"


def processes() -> "Processes":
    """Return what runs tasks on this machine."""
    return Forks() if can_fork() else Processes()


class Processes:
    """Runs each task in a new Python. Slow (seconds), but it works everywhere."""

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
    """One warm process, from which each task is forked. Several threads may give it tasks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, Future[int]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._closed = False

    def run(self, task: Task) -> int:
        """Run a task and return its exit code.

        Raises:
            WorkerDied: If the warm process ended meanwhile, or does not answer.
        """
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            assert self._control is not None
            future: Future[int] = Future()
            self._waiting[task.id] = future
            try:
                self._control.send(task.as_json().encode())
            except OSError as error:
                msg = f"The warm process does not take tasks: {error}."
                raise WorkerDied(msg) from None
        try:
            return future.result(task.limits.wall + _GRACE_SECONDS)
        except TimeoutError:
            self._end()  # with everything it forked
            msg = f"A task did not end {_GRACE_SECONDS:g} seconds after its limit."
            raise WorkerDied(msg) from None
        finally:
            self._waiting.pop(task.id, None)

    def close(self) -> None:
        """End the warm process and wait until it is gone."""
        self._closed = True
        self._end()

    @property
    def process_id(self) -> int | None:
        """The warm process, while there is one."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def _start(self) -> None:
        if self._closed:
            msg = "The grader is being ended."
            raise WorkerDied(msg)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "onnxlab.grading.warm", str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=_variables()
            )
        ours.settimeout(_START_SECONDS)
        try:
            ready = bool(ours.recv(LARGEST_MESSAGE))
        except OSError:
            ready = False
        if not ready:
            self._process.kill()
            self._process.wait()
            msg = "The warm process did not start."
            raise WorkerDied(
                msg, "It loads torch, onnx and onnxruntime.", "Does `import onnxlab.grading.warm` work?"
            )
        ours.settimeout(None)
        self._control = ours
        threading.Thread(target=self._listen, args=(ours, self._process), daemon=True).start()

    def _listen(self, control: socket.socket, process: "subprocess.Popen[bytes]") -> None:
        """Hand each answer to the thread that waits for it; if none comes any more, tell all of them."""
        while True:
            try:
                message = control.recv(LARGEST_MESSAGE)
            except OSError:
                message = b""
            if not message:
                break
            answer = json.loads(message)
            if future := self._waiting.get(answer["id"]):
                future.set_result(int(answer["code"]))
        process.wait()
        control.close()
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(WorkerDied(f"The warm process ended with code {process.returncode}."))

    def _end(self) -> None:
        process, control = self._process, self._control
        if control is not None:
            with contextlib.suppress(OSError):
                control.shutdown(socket.SHUT_RDWR)
        if process is not None:
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _variables() -> dict[str, str]:
    """The variables of a worker: threads are limited before anything is imported."""
    limited = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **limited, "ORT_DISABLE_TELEMETRY": "1", "PYTHONPATH": os.pathsep.join(paths)}
