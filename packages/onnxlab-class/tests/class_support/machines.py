"""A Dask cluster on this machine."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onnxlab_class.sandbox.libc import die_with_parent


class Machines:
    """A scheduler and workers, as processes of their own on the loopback interface."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.started = folder, list[subprocess.Popen[bytes]]()
        self._options = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"]
        file = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--port", "0", "--scheduler-file", str(file))
        self.address = str(wait_for(lambda: json.loads(file.read_text())["address"]))

    def worker(self, *options: str) -> "subprocess.Popen[bytes]":
        return self._start("worker", self.address, "--nthreads", "1", *options)

    def log(self) -> str:
        return "".join(path.read_text("utf-8") for path in self.folder.glob("*.log"))

    def end(self) -> None:
        for process in reversed(self.started):  # the scheduler last: an ending worker tells it
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "dask", *arguments, *self._options]
        with (self.folder / f"{len(self.started)}.log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, preexec_fn=_end_with_the_tests
            )
        self.started.append(process)
        return process


def _end_with_the_tests() -> None:
    die_with_parent(signal.SIGTERM)


@contextlib.contextmanager
def machines(folder: Path) -> Iterator[Machines]:
    folder.mkdir()
    running = Machines(folder)
    try:
        yield running
    finally:
        running.end()


def wait_for(value: Any, seconds: float = 240) -> Any:
    """Return what a function returns, once that is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError):
            if result := value():
                return result
        time.sleep(0.2)
    raise AssertionError("waited in vain")
