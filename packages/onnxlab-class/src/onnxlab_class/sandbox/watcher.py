"""The watcher: a process outside the sandbox that enforces the limits of the processes in it, and ends them.

It is the subreaper of all that it watches (PR_SET_CHILD_SUBREAPER): a daemon that loses its parent becomes
the watcher's child and not init's, so no process escapes it by forking twice. It reads the files of these
processes from `/proc`, and their memory where there is no control group in which the kernel limits it.
"""

import contextlib
import os
import select
import signal
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import NoReturn

from onnxlab.files import open_untrusted
from onnxlab_class.sandbox.cgroup import Group
from onnxlab_class.sandbox.libc import LINUX, become_subreaper, die_with_parent, libc, set_dumpable

READY, READY_IN_GROUP = b"confined", b"confined, in its group"
"""What the other process writes once it is confined; anything else is the reason why it is not."""
TOO_MUCH = 2**62
"""The size of a folder that cannot be read: no honest submission makes one."""

PATIENCE = 10
"""How many times its limit a submission may take by the clock, where the machine does not let it run."""

_REASON = ".sandbox-failed"
_LONGEST_REASON = 2000
_INTERVAL = 0.25  # seconds between two checks
_GLANCE = 0.02  # seconds between two glances at the machine: if it has lost so much, a check follows at once
_LOSS = 32 * 2**20  # bytes
_BUILDING_SECONDS = 60.0  # for the sandbox on a busy machine; they do not count for the submission
_HONEST_THREADS = 8
_MB = 2**20
_SMALLEST_FILE = 4096  # bytes that an empty file counts as
_SIGKILL = 9  # which Windows has no name for
_LOWEST_PRIORITY = 19  # as a nice value
_RESIDENT = (b"RssAnon:", b"RssShmem:", b"VmSwap:")
_PROPORTIONAL = (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:")
_TICKS = os.sysconf("SC_CLK_TCK") if LINUX else 100  # of /proc's processor times, for each second
# Of a socket: net.core.wmem_default, and half of it for the last message. A pipe has 64 kB.
_LARGEST_BUFFER = 3 * 212_992 // 2
_ROUNDS = 200
# A killed process needs some processor time to end, and those of a fork bomb have the lowest priority.
_SECONDS_TO_END = 120.0


@dataclass(frozen=True)
class Limits:
    """What a submission may use.

    Attributes:
        wall: Seconds from its start to its end. Time in which the machine did not let it run does not count.
        cpu: Seconds of computing, for each process.
        cell: Seconds of one cell of a notebook.
        memory: Megabytes of all its processes, on top of what the fork server has.
        processes: Processes and threads.
        file: Megabytes of one file.
        disk: Megabytes of all files in its folder; each counts as 4 kB at least, and as long as it is read.
        open_files: Descriptors of one process.
    """

    wall: float = 30.0
    cpu: int = 30
    cell: float = 10.0
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
    DISTURBED = 122
    """Something outside killed it, or kept it from running: not the student's fault."""
    SANDBOX_FAILED = 123
    """It was never confined, and nothing of the submission ran: not the student's fault."""
    TIME = 124
    MEMORY = 125
    DISK = 126

    @classmethod
    def of(cls, code: int) -> "Ending":
        """Return what an exit code means; a negative code is a signal.

        A watcher that ended by SIGKILL was killed from outside: nothing in a sandbox can signal it.

        Example:
            >>> Ending.of(124), Ending.of(-9), Ending.of(-11)
            (<Ending.TIME: 124>, <Ending.DISTURBED: 122>, <Ending.CRASHED: 1>)
        """
        if code == -_SIGKILL:
            return cls.DISTURBED
        return cls(code) if code in set(cls) else cls.CRASHED


def prepare(parent: int) -> None:
    """Make this process the subreaper of its descendants, and end it with its parent.

    SIGTERM, which the parent's end sends, too, is blocked from now on. The watcher polls for it, so that it
    first ends what it watches.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    become_subreaper()
    die_with_parent(signal.SIGTERM)
    if os.getppid() != parent:  # it died before, and no signal will come
        msg = "the process that asked for a sandbox is gone"
        raise ProcessLookupError(0, msg)


def watch(
    process: int, report: int, folder: Path, limits: Limits, group: Group | None, user: int | None
) -> NoReturn:
    """Watch a process until it ends or breaks a limit, end all its descendants, and exit with an `Ending`.

    Args:
        process: The process, a child of this one.
        report: The pipe on which it writes that it is confined, or why not.
        folder: Its folder.
        limits: What it may use.
        group: The control group that the process is to join, if there is one.
        user: The user that it becomes, if it is another one.
    """
    try:
        # All of them: no signal may end the watcher before what it watches.
        signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it were ignored, exit codes would be lost
        set_dumpable(False)  # a submission of the same user must not trace it or write its memory
        code = _watch(process, report, folder, limits, group, user)
    except _Disturbed as error:
        failed(folder, error)
        code = Ending.DISTURBED
    except BaseException as error:  # not the submission's fault
        failed(folder, error)
        code = Ending.SANDBOX_FAILED
    finally:
        try:
            everything_ended = end_all(os.getpid())
            if group:
                group.remove()
            if not everything_ended:
                failed(folder, OSError(0, "some of its processes could not be ended"))
                code = Ending.SANDBOX_FAILED
            elif code == Ending.FINISHED and disk(folder, limits.disk * _MB) > limits.disk * _MB:
                code = Ending.DISK
        finally:
            os._exit(code)


def failed(folder: Path, error: BaseException) -> None:
    """Write the reason why there is no sandbox into the folder."""
    path = folder / _REASON
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)  # a new file
        with os.fdopen(opened, "wb") as file:
            file.write(in_words(error).encode("utf-8", "replace"))


def why_it_failed(folder: Path) -> str:
    """Return why there is no sandbox. Only after `Ending.SANDBOX_FAILED` can it be trusted."""
    with contextlib.suppress(OSError), open_untrusted(folder / _REASON) as file:
        return file.read(_LONGEST_REASON).decode("utf-8", "replace")
    return "it did not say why"


def in_words(error: BaseException) -> str:
    """Return an error as one line."""
    text = error.strerror if isinstance(error, OSError) else str(error)
    where = f": {error.filename}" if isinstance(error, OSError) and error.filename else ""
    return f"{text or type(error).__name__}{where}"


@contextlib.contextmanager
def _reading_as(user: int | None) -> Iterator[None]:
    """Read files and `/proc` as another user: root in a container may lack the right to trace others."""
    if not user:
        yield
        return
    libc.setfsgid(user)
    libc.setfsuid(user)
    yield
    libc.setfsuid(os.geteuid())
    libc.setfsgid(os.getegid())


def _asked_to_end() -> bool:
    return signal.SIGTERM in signal.sigpending()


def _watch(
    process: int, report: int, folder: Path, limits: Limits, group: Group | None, user: int | None
) -> Ending:
    most_memory = own_memory() + limits.memory * _MB
    handle = os.pidfd_open(process)  # readable once the process has ended
    message = _read_report(report, _BUILDING_SECONDS)
    if message == READY:
        group = None
    elif message != READY_IN_GROUP:
        msg = message.decode("utf-8", "replace") or "it ended before it was confined"
        raise OSError(0, msg)
    clock, machine = _Clock(process), _Machine(folder)
    while not select.select([handle], [], [], _GLANCE)[0]:
        if _asked_to_end():
            raise _Disturbed("somebody ended its watcher")
        if not clock.due() and not machine.lost():
            continue
        running = descendants(os.getpid())
        clock.count(running)
        machine.remember()
        if clock.seconds > limits.wall:
            return Ending.TIME
        if clock.passed > PATIENCE * limits.wall:
            raise _Disturbed(f"of {clock.passed:.0f} seconds the machine let it run in {clock.seconds:.0f}")
        if disk(folder, limits.disk * _MB) > limits.disk * _MB:
            return Ending.DISK
        if len(running) > 2 * limits.processes:  # RLIMIT_NPROC does not hold for uid 0
            return Ending.CRASHED
        deprioritise(running, _HONEST_THREADS)
        with _reading_as(user):
            buffers, hidden = buffers_and_hidden_disk(running, str(folder), limits.file * _MB)
            too_much = group.exceeded() if group else memory(running) + buffers > most_memory
        if too_much:
            return Ending.MEMORY
        if hidden > limits.disk * _MB:
            return Ending.DISK
    if group and group.exceeded():
        return Ending.MEMORY
    _, status, used = os.wait4(process, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return Ending.FINISHED
    # RLIMIT_CPU: SIGXCPU, a second later SIGKILL. The kernel's limit and wait4 differ a little.
    nearly_all = limits.cpu - max(0.5, 0.1 * limits.cpu)
    if -code in (signal.SIGXCPU, signal.SIGKILL) and used.ru_utime + used.ru_stime > nearly_all:
        return Ending.TIME
    if code == -_SIGKILL:  # nothing in the sandbox can send it
        raise _Disturbed("it was killed from outside, perhaps as the machine had no memory left")
    return Ending.CRASHED


class _Disturbed(Exception):
    """Something outside ended a process, or kept it from running."""


class _Clock:
    """Counts the seconds for which a process is itself to blame.

    A second counts if the process or one that it started computed, or if it waited of its own accord. It does
    not count while the process is ready to run and the system runs others, or is stopped (it cannot stop
    itself), or while this process, the watcher, did not run either: then the whole machine stood still.

    Attributes:
        seconds: The seconds that count.
        passed: All seconds by the clock.
    """

    def __init__(self, process: int) -> None:
        self.seconds = self.passed = 0.0
        self._process = process
        self._last, self._own, self._computed = time.monotonic(), time.process_time(), 0.0

    def due(self) -> bool:
        return time.monotonic() - self._last >= _INTERVAL

    def count(self, running: Sequence["Process"]) -> None:
        """Count the time since the last call."""
        now, own, computed = time.monotonic(), time.process_time(), sum(each.computed for each in running)
        self.passed += now - self._last
        # More than this, and the watcher did not run.
        passed = min(now - self._last, 2 * _INTERVAL + own - self._own)
        used = min(passed, max(0.0, computed - self._computed))
        ready = any(each.id == self._process and each.state in b"RT" for each in running)
        self.seconds += used if ready else passed
        self._last, self._own, self._computed = now, own, computed


class _Machine:
    """The free memory of the machine, and the free space of a folder's file system: quick to read.

    A submission can use much between two checks. If the machine has lost much since the last one, whoever
    took it, the next check is made at once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.remember()

    def remember(self) -> None:
        self._before = self._free()

    def lost(self) -> bool:
        return any(before - now > _LOSS for before, now in zip(self._before, self._free(), strict=True))

    def _free(self) -> tuple[int, int]:
        place = os.statvfs(self._folder)
        return place.f_bfree * place.f_frsize, memory_in("/proc/meminfo", b"MemAvailable:")


def _read_report(report: int, seconds: float) -> bytes:
    """Return what the other process writes, once it has closed its end of the pipe."""
    message = b""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if select.select([report], [], [], _INTERVAL)[0]:
            more = os.read(report, _LONGEST_REASON)
            if not more:
                break
            message += more
        elif _asked_to_end():
            break
    os.close(report)
    return message


def disk(folder: Path, enough: int) -> int:
    """Return the bytes that everything in a folder takes; counting ends once it is more than `enough`."""
    total = 0
    todo = [os.fsencode(folder)]
    while todo and total <= enough:
        try:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    size = status.st_size if stat.S_ISREG(status.st_mode) else 0  # a copy has no holes
                    total += max(_SMALLEST_FILE, size, getattr(status, "st_blocks", 0) * 512)
                    if stat.S_ISDIR(status.st_mode):
                        todo.append(entry.path)
                    if total > enough:
                        break
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:  # no right to, or the path is too long
            return TOO_MUCH
    return total


@dataclass(frozen=True)
class Process:
    """A process. Its start time distinguishes it from a later one with the same id.

    Attributes:
        id: Its process ID.
        started: When it started.
        state: A letter as in proc(5): R for ready or running, S for asleep, T for stopped.
        computed: Seconds of processor time, also of its children that have ended.
    """

    id: int
    started: int
    state: bytes = field(default=b"", compare=False)
    computed: float = field(default=0.0, compare=False)


def descendants(ancestor: int) -> list[Process]:
    """Return all descendants of a process; none where there is no `/proc`.

    The parent of every process is read, as not every kernel lists a process's children.
    """
    if sys.platform != "linux":
        return []
    children: dict[int, list[Process]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - names only, hundreds of them
        if entry := _process_and_parent(int(name)):
            process, parent = entry
            children.setdefault(parent, []).append(process)
    below: list[Process] = []
    todo = [ancestor]
    while todo:
        generation = children.pop(todo.pop(), [])
        below += generation
        todo += [process.id for process in generation]
    return below


def end_all(ancestor: int) -> bool:
    """End all descendants of a process, which must be this one and their subreaper.

    They are stopped first, so that none can start another while the rest are killed.

    Returns:
        Whether they are all gone.
    """
    if not _reap():
        return True  # every orphan would have become its child
    stopped: set[Process] = set()
    for _ in range(_ROUNDS):
        running = set(descendants(ancestor)) - stopped
        if not running:
            break
        for process in running:
            _signal(process, signal.SIGSTOP)
        stopped |= running
    deadline = time.monotonic() + _SECONDS_TO_END
    while time.monotonic() < deadline:
        for process in descendants(ancestor):
            _signal(process, signal.SIGKILL)
        if not _reap():
            return True
        time.sleep(0.001)
    return False


def deprioritise(processes: Iterable[Process], honest: int) -> None:
    """Give processes the lowest priority if they have more threads together than honest ones have.

    Sixty of them then get about as much processor time as one with the usual priority.
    """
    threads: list[int] = []
    for process in processes:
        with contextlib.suppress(OSError):
            threads += map(int, os.listdir(f"/proc/{process.id}/task"))  # noqa: PTH208 - names only
    if len(threads) > honest:
        for thread in threads:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, thread, _LOWEST_PRIORITY)


def memory(processes: Iterable[Process]) -> int:
    """Return the bytes of memory that processes use together; a page that they share counts once."""
    return sum(
        memory_in(f"{place}/smaps_rollup", *_PROPORTIONAL) or memory_in(f"{place}/status", *_RESIDENT)
        for place in map(_place, processes)
    )


def own_memory() -> int:
    """Return the bytes of memory that this process uses."""
    return memory_in("/proc/self/status", *_RESIDENT)


def buffers_and_hidden_disk(processes: Iterable[Process], folder: str, largest: int) -> tuple[int, int]:
    """Return what belongs to no process and no folder, but to descriptors, mappings and programs that run.

    Args:
        processes: The processes.
        folder: Their folder.
        largest: The most bytes that a file can have. A deleted file of which anything is mapped counts as
            that, unless it is open, too: the mapping does not say how long the file is.

    Returns:
        The most bytes that sockets and pipes can hold; the bytes of deleted files that are open, mapped or
        run, `TOO_MUCH` if the descriptors of a process cannot be read.
    """
    buffers: dict[tuple[int, int], int] = {}
    files: dict[tuple[int, int], int] = {}
    mapped: set[tuple[int, int]] = set()
    for place in map(_place, processes):
        try:
            for name in ("exe", *(f"fd/{number}" for number in os.listdir(f"{place}/fd"))):  # noqa: PTH208
                with contextlib.suppress(FileNotFoundError):  # it was closed
                    status = os.stat(f"{place}/{name}")  # noqa: PTH116 - many times a second
                    key = status.st_dev, status.st_ino
                    if stat.S_ISREG(status.st_mode) and not status.st_nlink:
                        files[key] = status.st_blocks * 512
                    elif stat.S_ISSOCK(status.st_mode) or stat.S_ISFIFO(status.st_mode):
                        buffers[key] = _LARGEST_BUFFER
            mapped |= set(_deleted_maps(place, os.fsencode(folder)))
        except OSError:
            if memory_in(f"{place}/status", *_RESIDENT):  # it has not ended
                return 0, TOO_MUCH
    return sum(buffers.values()), sum(files.values()) + largest * len(mapped - files.keys())


def _place(process: Process) -> str:
    """Return the folder in `/proc` of a process or, if its first thread has ended, of a thread that has not.

    A process has one memory and one table of descriptors: no thread can get a table of its own.
    """
    place = f"/proc/{process.id}"
    if process.state == b"Z":
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"{place}/task"):  # noqa: PTH208 - names only
                if memory_in(f"{place}/task/{thread}/status", *_RESIDENT):
                    return f"{place}/task/{thread}"
    return place


def _deleted_maps(place: str, folder: bytes) -> Iterator[tuple[int, int]]:
    """Yield device and inode of the deleted files of a folder that a process has mapped."""
    for line in _read(f"{place}/maps").splitlines():
        if line.endswith(b" (deleted)") and folder in line:
            _, _, _, device, number, _ = line.split(maxsplit=5)
            yield os.makedev(*(int(part, 16) for part in device.split(b":"))), int(number)


def _process_and_parent(number: int) -> tuple[Process, int] | None:
    """Return a process and its parent's id; None if it has ended."""
    try:
        text = _read(f"/proc/{number}/stat")
    except OSError:
        return None
    after_name = text[text.rfind(b")") + 2 :].split()  # the name may contain anything
    ticks = sum(map(int, after_name[11:15]))  # utime, stime, cutime, cstime
    return Process(number, int(after_name[19]), after_name[0], ticks / _TICKS), int(after_name[1])


def _signal(process: Process, number: int) -> None:
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(process.id)  # from now on the number is not given to another process
        try:
            entry = _process_and_parent(process.id)
            if entry and entry[0] == process:  # not a later one with the same number
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def _reap() -> bool:
    """Collect the exit codes of children that have ended; return whether others run."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def memory_in(path: str, *names: bytes) -> int:
    """Return the sum of some sizes in a file of `/proc`, in bytes; 0 if it has none or cannot be read."""
    with contextlib.suppress(OSError):
        return sum(int(line.split()[1]) * 1024 for line in _read(path).splitlines() if line.startswith(names))
    return 0


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - many times a second
        return file.read()
