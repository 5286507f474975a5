"""The processes below one, as `/proc` shows them: which they are, what they use together, ending them all."""

import contextlib
import os
import signal
import stat
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Process", "deprioritise", "descendants", "end_all", "hidden_disk", "memory", "own_memory"]

_LAST = 19  # the lowest priority that there is (nice)
_ROUNDS = 200
# A killed process needs the processor once more to end, and those of a fork bomb stand behind all others.
_SECONDS_TO_END = 120.0


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
