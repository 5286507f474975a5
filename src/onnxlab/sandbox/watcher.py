"""The process that stays outside and watches what is confined: its time, its memory, its disk, its end.

It is the subreaper of all that it watches (PR_SET_CHILD_SUBREAPER): a daemon that loses its parent becomes
the watcher's child and not init's, so nothing can slip out by forking twice.
"""

import contextlib
import os
import select
import signal
import stat
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import NoReturn

from onnxlab.files import open_untrusted
from onnxlab.sandbox.libc import die_with_parent, prctl, set_dumpable

__all__ = [
    "READY",
    "TOO_MUCH",
    "Ending",
    "Limits",
    "descendants",
    "disk",
    "end_all",
    "failed",
    "in_words",
    "prepare",
    "watch",
    "why_it_failed",
]

READY = b"confined"
"""What the other process says when it is confined; anything else is why it is not."""
TOO_MUCH = 2**62
"""What a folder counts as that cannot be looked into: nothing honest makes one."""

_REASON = ".sandbox-failed"
_LONGEST_REASON = 2000
_EVERY = 0.25
_BUILDING_SECONDS = 60.0  # on a busy machine; not the submission's time
_HONEST_THREADS = 8
_MB = 2**20
_LEAST = 4096  # bytes that a file counts as, however small
_PR_SET_CHILD_SUBREAPER = 36
_LAST = 19  # the lowest priority that there is (nice)
_ROUNDS = 200
# A killed process needs the processor once more to end, and those of a fork bomb stand behind all others.
_SECONDS_TO_END = 120.0


@dataclass(frozen=True)
class Limits:
    """What a submission may use.

    Attributes:
        wall: Seconds from its start to its end.
        cpu: Seconds of computing, for each process.
        memory: Megabytes of all its processes, above what the process that it was forked from had.
        processes: Processes and threads.
        file: Megabytes of one file.
        disk: Megabytes of all files in its folder; each counts as 4 kB at least.
        open_files: Descriptors of one process.
    """

    wall: float = 30.0
    cpu: int = 30
    memory: int = 1500
    processes: int = 64
    file: int = 64
    disk: int = 256
    open_files: int = 256


class Ending(IntEnum):
    """How a confined process ended: the exit code of the process that watched it."""

    FINISHED = 0
    CRASHED = 1
    """It ended with another code than 0, or by a signal. Its own code is not passed on: it could be any."""
    SANDBOX_FAILED = 123
    """It was never confined, so nothing of the submission ran: a fault of the machine, not of a student."""
    TIME = 124
    MEMORY = 125
    DISK = 126

    @classmethod
    def of(cls, code: int) -> "Ending":
        """Return what an exit code means; a negative code is a signal.

        Example:
            >>> Ending.of(124), Ending.of(-9)
            (<Ending.TIME: 124>, <Ending.CRASHED: 1>)
        """
        return cls(code) if code in set(cls) else cls.CRASHED


def prepare(parent: int) -> None:
    """Make sure that nothing confined outlives this process, nor this process the one that started it.

    From here on SIGTERM, which the end of that one sends too, waits until the watcher looks for it: it must
    not end the watcher before what it watches.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    die_with_parent(signal.SIGTERM)
    if os.getppid() != parent:  # it died before that was set, and no signal will come
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
        # All of them: whatever is sent to it, the watcher ends only after what it watches.
        signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would hide how a child ended
        set_dumpable(False)  # what is confined may be the same user: no ptrace, no /proc/<pid>/mem
        code = _watch(process, report, folder, limits)
    except BaseException as error:  # this code, or the system, has a fault: the submission has not
        failed(folder, error)
        code = Ending.SANDBOX_FAILED
    finally:
        try:
            if not end_all(os.getpid()):
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
    with contextlib.suppress(OSError), open_untrusted(folder / _REASON) as file:
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
    most_memory = own_memory() + limits.memory * _MB
    handle = os.pidfd_open(process)  # readable once the process has ended
    said = _said(report, _BUILDING_SECONDS)
    if said != READY:
        msg = said.decode("utf-8", "replace") or "it ended before it was confined"
        raise OSError(0, msg)
    start = time.monotonic()
    while not select.select([handle], [], [], _EVERY)[0]:
        if _asked_to_end():
            return Ending.CRASHED
        if time.monotonic() - start > limits.wall:
            return Ending.TIME
        if disk(folder, limits.disk * _MB) > limits.disk * _MB:
            return Ending.DISK
        running = descendants(os.getpid())
        if len(running) > 2 * limits.processes:  # RLIMIT_NPROC spares uid 0, even without powers
            return Ending.CRASHED
        deprioritise(running, _HONEST_THREADS)
        if memory(running, most_memory) > most_memory:
            return Ending.MEMORY
        if hidden_disk(running, str(folder)) > limits.disk * _MB:
            return Ending.DISK
    _, status, used = os.wait4(process, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return Ending.FINISHED
    # RLIMIT_CPU: SIGXCPU, a second later SIGKILL. The kernel's limit and its account differ a little.
    about = limits.cpu - max(0.5, 0.1 * limits.cpu)
    if -code in (signal.SIGXCPU, signal.SIGKILL) and used.ru_utime + used.ru_stime > about:
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


def disk(folder: Path, enough: int) -> int:
    """Return the bytes that everything in a folder takes; once it is more than enough, counting ends."""
    total = 0
    todo = [os.fsencode(folder)]
    while todo and total <= enough:
        try:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    total += max(_LEAST, getattr(found, "st_blocks", 0) * 512)
                    if stat.S_ISDIR(found.st_mode):
                        todo.append(entry.path)
                    if total > enough:
                        break
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:  # not allowed, or a path that is too long
            return TOO_MUCH
    return total


@dataclass(frozen=True)
class Process:
    """A process, told from a later one with the same number by the time it started."""

    id: int
    started: int


def descendants(of: int) -> list[Process]:
    """Return the processes below one, however far; empty where there is no `/proc`.

    Their parents are read, process by process: not every kernel lists a process's children.
    """
    if sys.platform != "linux":
        return []
    children: dict[int, list[Process]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - names only, hundreds of them
        if found := _look(int(name)):
            process, parent = found
            children.setdefault(parent, []).append(process)
    below: list[Process] = []
    todo = [of]
    while todo:
        next_ones = children.pop(todo.pop(), [])
        below += next_ones
        todo += [process.id for process in next_ones]
    return below


def end_all(of: int) -> bool:
    """End every process below one, which must be this one and their subreaper.

    Stopped first, so that none can start another while the rest are ended.

    Returns:
        Whether they are all gone.
    """
    if not _reap():
        return True  # it has no child, and every orphan would have become one
    stopped: set[Process] = set()
    for _ in range(_ROUNDS):
        running = set(descendants(of)) - stopped
        if not running:
            break
        for process in running:
            _signal(process, signal.SIGSTOP)
        stopped |= running
    deadline = time.monotonic() + _SECONDS_TO_END
    while time.monotonic() < deadline:
        for process in descendants(of):
            _signal(process, signal.SIGKILL)
        if not _reap():
            return True
        time.sleep(0.001)
    return False


def deprioritise(processes: Iterable[Process], honest: int) -> None:
    """Put processes behind all others if they have more threads together than honest ones have.

    Sixty of them get about as much of a processor as one that is let alone, and others go on undisturbed.
    """
    threads: list[int] = []
    for process in processes:
        with contextlib.suppress(OSError):
            threads += map(int, os.listdir(f"/proc/{process.id}/task"))  # noqa: PTH208 - names only
    if len(threads) > honest:
        for thread in threads:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, thread, _LAST)


def memory(processes: Iterable[Process], enough: int) -> int:
    """Return the bytes of memory that processes use together, what they share counted once.

    Args:
        processes: The processes.
        enough: If they use no more than this even when what is shared is counted for each, that will do.
    """
    each = {process: _private_memory(process.id) for process in processes}
    if sum(each.values()) <= enough:
        return sum(each.values())
    return sum(_shared_out(process, most) for process, most in each.items())


def own_memory() -> int:
    """Return the bytes of memory that this process uses."""
    return _private_memory(os.getpid())


def hidden_disk(processes: Iterable[Process], folder: str) -> int:
    """Return the bytes of files that have no name any more but are still open or mapped."""
    sizes: dict[tuple[int, int], int] = {}
    for process in processes:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{process.id}/fd"):  # noqa: PTH208 - names only
                with contextlib.suppress(OSError):
                    found = os.stat(f"/proc/{process.id}/fd/{name}")  # noqa: PTH116 - as above
                    if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                        sizes[found.st_dev, found.st_ino] = found.st_blocks * 512
        with contextlib.suppress(OSError):
            for device, number, size in _deleted_maps(process, os.fsencode(folder)):
                sizes[device, number] = max(size, sizes.get((device, number), 0))
    return sum(sizes.values())


def _deleted_maps(process: Process, folder: bytes) -> Iterable[tuple[int, int, int]]:
    for line in _read(f"/proc/{process.id}/maps").splitlines():
        if line.endswith(b" (deleted)") and folder in line:
            place, _, _, device, number, _ = line.split(maxsplit=5)
            start, end = (int(address, 16) for address in place.split(b"-"))
            major, minor = (int(part, 16) for part in device.split(b":"))
            yield os.makedev(major, minor), int(number), end - start


def _look(number: int) -> tuple[Process, int] | None:
    """Return a process and its parent's number."""
    try:
        text = _read(f"/proc/{number}/stat")
    except OSError:
        return None
    after_name = text[text.rfind(b")") + 2 :].split()  # the name may contain anything
    return Process(number, int(after_name[19])), int(after_name[1])


def _signal(process: Process, number: int) -> None:
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(process.id)  # from here on the number cannot come to mean another process
        try:
            found = _look(process.id)
            if found and found[0] == process:  # not another that got its number meanwhile
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def _reap() -> bool:
    """Take note of children that have ended; return whether there are others."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _private_memory(number: int) -> int:
    return _memory_in(f"/proc/{number}/status", (b"RssAnon:", b"RssShmem:", b"VmSwap:")) or 0


def _shared_out(process: Process, most: int) -> int:
    """Return the process's proportional set size (PSS): of a page that n share, an n-th."""
    found = _memory_in(f"/proc/{process.id}/smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:"))
    return most if found is None else found


def _memory_in(path: str, names: tuple[bytes, ...]) -> int | None:
    try:
        lines = _read(path).splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith(names)]
    return sum(found) if found else None


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - many times a second
        return file.read()
