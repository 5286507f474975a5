"""The process that stays outside and watches what is confined: its time, its memory, its disk, its end."""

import contextlib
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from onnxlab.grading.folders import disk
from onnxlab.grading.levels import Ending, Limits
from onnxlab.grading.process_tree import calm, descendants, end_all, hidden_disk, memory, own_memory
from onnxlab.grading.system_calls import LINUX, die_with_parent, let_look, prctl

__all__ = ["READY", "failed", "in_words", "prepare", "watch", "why_it_failed"]

READY = b"confined"
"""What the other process says when it is confined; anything else is why it is not."""

_REASON = ".sandbox-failed"
_LONGEST_REASON = 2000
_EVERY = 0.25
_BUILDING_SECONDS = 60.0  # on a busy machine; not the submission's time
_HONEST_THREADS = 8
_MB = 2**20
_PR_SET_CHILD_SUBREAPER = 36


def prepare(parent: int) -> None:
    """Make sure that nothing confined outlives this process, nor this process the one that started it.

    From here on SIGTERM, which the end of that one sends too, waits until the watcher looks for it: it must
    not end the watcher before what it watches.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    if not LINUX:
        return
    prctl(_PR_SET_CHILD_SUBREAPER, 1)  # what loses its parent becomes a child of this process
    die_with_parent(signal.SIGTERM)
    if os.getppid() != parent:
        msg = "the process that asked for a sandbox is gone"
        raise ProcessLookupError(0, msg)


def watch(process: int, report: int, folder: Path, limits: Limits) -> NoReturn:
    """Watch a process until it ends or has to, end everything it left, and exit.

    Args:
        process: The process, a child of this one.
        report: Where it says that it is confined, or why not.
        folder: Its folder.
        limits: What it may use.
    """
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would hide how a child ended
        let_look(False)
        code = _watch(process, report, folder, limits)
    except BaseException as error:  # this code, or the system, has a fault: the submission has not
        failed(folder, error)
        code = Ending.SANDBOX_FAILED
    finally:
        try:
            if not _end_everything(process):
                failed(folder, OSError(0, "some of its processes could not be ended"))
                code = Ending.SANDBOX_FAILED
            elif code == Ending.FINISHED and disk(folder, limits.disk * _MB) > limits.disk * _MB:
                code = Ending.DISK
        finally:
            os._exit(code)


def failed(folder: Path, error: BaseException) -> None:
    """Leave word why a sandbox could not be had."""
    path = folder / _REASON
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)  # its own, whatever was there
        with os.fdopen(opened, "wb") as file:
            file.write(in_words(error).encode("utf-8", "replace"))


def why_it_failed(folder: Path) -> str:
    """Return why there was no sandbox. To be believed after an `Ending.SANDBOX_FAILED` only."""
    with contextlib.suppress(OSError):
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        with os.fdopen(os.open(folder / _REASON, flags), "rb") as file:
            return file.read(_LONGEST_REASON).decode("utf-8", "replace")
    return "it did not say why"


def in_words(error: BaseException) -> str:
    """Return what an error says, in a line."""
    said = error.strerror if isinstance(error, OSError) else str(error)
    where = f": {error.filename}" if isinstance(error, OSError) and error.filename else ""
    return f"{said or type(error).__name__}{where}"


def _asked_to_end() -> bool:
    return signal.SIGTERM in signal.sigpending()


def _watch(process: int, report: int, folder: Path, limits: Limits) -> Ending:
    most_memory = own_memory() + limits.memory * _MB if LINUX else 0
    ended = _Ended(process)
    said = _said(report, _BUILDING_SECONDS)
    if said != READY:
        msg = said.decode("utf-8", "replace") or "it ended before it was confined"
        raise OSError(0, msg)
    start = time.monotonic()
    while not ended.within(_EVERY):
        if _asked_to_end():
            return Ending.CRASHED
        if time.monotonic() - start > limits.wall:
            return Ending.TIME
        if disk(folder, limits.disk * _MB) > limits.disk * _MB:
            return Ending.DISK
        if LINUX:
            running = descendants(os.getpid())
            if len(running) > 2 * limits.processes:  # the kernel does not count those of root without powers
                return Ending.CRASHED
            calm(running, _HONEST_THREADS)
            if memory(running, most_memory) > most_memory:
                return Ending.MEMORY
            if hidden_disk(running, str(folder)) > limits.disk * _MB:
                return Ending.DISK
    if ended.code == 0:
        return Ending.FINISHED
    about = limits.cpu - max(0.5, 0.1 * limits.cpu)  # the kernel's limit and its account differ a little
    if -ended.code in (signal.SIGXCPU, signal.SIGKILL) and ended.computed > about:
        return Ending.TIME
    return Ending.CRASHED


def _said(report: int, seconds: float) -> bytes:
    """Return what the other process said, once it has closed its end."""
    said = b""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if select.select([report], [], [], _EVERY)[0]:
            more = os.read(report, _LONGEST_REASON)
            if not more:
                break
            said += more
        elif _asked_to_end():
            break
    os.close(report)
    return said


def _end_everything(process: int) -> bool:
    if LINUX:
        return end_all(os.getpid())
    for kill, target in ((os.kill, process), (os.killpg, process)):  # its own group, and what is left in it
        with contextlib.suppress(OSError):
            kill(target, signal.SIGKILL)
    return True


class _Ended:
    """Whether a child has ended, with what code, and how many seconds it computed."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._handle = os.pidfd_open(process) if sys.platform == "linux" else None
        self.code = 0
        self.computed = 0.0

    def within(self, seconds: float) -> bool:
        """Wait, and return whether it has ended."""
        until = time.monotonic() + seconds
        if self._handle is not None:
            select.select([self._handle], [], [], seconds)
        while True:
            found, status, used = os.wait4(self._process, os.WNOHANG)
            if found:
                self._take(status, used)
                return True
            if self._handle is not None or time.monotonic() > until:
                return False
            time.sleep(0.02)

    def _take(self, status: int, used: Any) -> None:  # noqa: ANN401 - a struct_rusage, which Windows has not
        self.code = os.waitstatus_to_exitcode(status)
        self.computed = used.ru_utime + used.ru_stime
