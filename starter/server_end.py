"""Ending a server: noticing that somebody wants it, asking it to end, and ending it all the same."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from types import FrameType

__all__ = ["asked_to_end", "end"]

PATIENCE = (20.0, 10.0)
"""Seconds to wait after the first and after the second time a server is asked to end."""


@contextlib.contextmanager
def asked_to_end() -> Iterator[list[int]]:
    """Collect the signals that ask for the end: Ctrl+C, a closed terminal, a system that shuts down.

    Nothing is raised when one comes. An exception in the middle of waiting for a process can leave
    `subprocess`'s lock taken, and then nobody ever learns that the process has ended.
    """
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(number)

    before = {}
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as nohup sets it
            before[number] = signal.signal(number, note)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def end(server: "subprocess.Popen[bytes]", asked: list[int]) -> None:
    """End the server in order: it ends its kernels. If it does not, end it all the same.

    Args:
        server: What to end.
        asked: The signals so far; one more, as by a second Ctrl+C, ends the patience.
    """
    so_far = len(asked)
    began = time.monotonic()
    for patience in PATIENCE:
        if server.poll() is not None:
            return
        server.terminate()
        until = time.monotonic() + patience
        while time.monotonic() < until and len(asked) == so_far:
            if server.poll() is not None:
                return
            time.sleep(0.1)
    below = _started_by(server.pid)
    server.kill()
    for pid in below:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    server.wait()
    seconds = time.monotonic() - began
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(f"JupyterLab had not ended after {seconds:.0f} s; it was ended by force.", flush=True)


def _started_by(pid: int) -> list[int]:
    """Return all the processes below one, where the system can list them."""
    if sys.platform == "win32":
        return []
    try:
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []  # kernels notice by themselves that their server is gone
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    found, todo = [], [pid]
    while todo:
        above = todo.pop()
        below = [child for child, parent in pairs if parent == above]
        found += below
        todo += below
    return found
