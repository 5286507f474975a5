"""The grader's end of one warm process: start it, give it tasks, hear how they ended."""

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
from onnxlab.grading import catalogue
from onnxlab.grading.tasks import Task
from onnxlab.grading.warm import LARGEST_GREETING, LARGEST_MESSAGE

__all__ = ["START_SECONDS", "WarmProcess", "WorkerDied", "variables"]

START_SECONDS = 180.0


class WorkerDied(OnnxLabError):
    """The grader's own process ended. No submission is to blame, and the task can be done again."""


class WarmProcess:
    """A warm process, from its start to its end."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._waiting: dict[str, Future[int]] = {}
        self._ready = False
        command = [sys.executable, "-m", "onnxlab.grading.warm", str(theirs.fileno())]
        with theirs:
            try:
                self.process = subprocess.Popen(
                    command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=variables()
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


def variables() -> dict[str, str]:
    """Return the variables of a worker: threads are limited before anything is imported."""
    limited = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **limited, "ORT_DISABLE_TELEMETRY": "1", "PYTHONPATH": os.pathsep.join(paths)}
