"""The process that stays outside and watches what is confined: its time, its memory, its disk, its end.

It is the subreaper of all that it watches (PR_SET_CHILD_SUBREAPER): a daemon that loses its parent becomes
the watcher's child and not init's, so nothing can slip out by forking twice.
"""

import contextlib
import errno
import os
import select
import shutil
import signal
import stat
import time
from pathlib import Path
from typing import NoReturn

from onnxlab.files import open_folder, open_untrusted
from onnxlab.sandbox.levels import Ending, Limits
from onnxlab.sandbox.libc import die_with_parent, prctl, set_dumpable
from onnxlab.sandbox.process_tree import deprioritise, descendants, end_all, hidden_disk, memory, own_memory

__all__ = ["READY", "TOO_MUCH", "disk", "failed", "in_words", "prepare", "remove", "watch", "why_it_failed"]

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
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)
_PR_SET_CHILD_SUBREAPER = 36


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


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it: unreadable, deeper than any path is long, linked elsewhere.

    Nobody may be writing in it any more. Nothing outside is touched.

    Raises:
        OSError: If something is left.
    """
    if os.name == "nt" or not folder.is_dir() or folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
        return
    folder.chmod(0o700)
    with open_folder(folder) as top:
        _empty(top)
    folder.rmdir()


def _empty(top: int) -> None:
    """Remove everything in an open folder: what is in its folders is moved up, so that nothing is deep."""
    number = 0
    while names := os.listdir(top):
        for name in names:
            if not stat.S_ISDIR(os.lstat(name, dir_fd=top).st_mode):
                os.unlink(name, dir_fd=top)
                continue
            os.chmod(name, 0o700, dir_fd=top)
            with open_folder(name, folder=top) as inner:
                for below in os.listdir(inner):  # noqa: PTH208 - of a descriptor
                    number += 1
                    _move_up(below, inner, f".{number}.removed", top)
            os.rmdir(name, dir_fd=top)


def _move_up(name: str, inner: int, new: str, top: int) -> None:
    if stat.S_ISDIR(os.lstat(name, dir_fd=inner).st_mode):
        os.chmod(name, 0o700, dir_fd=inner)
    else:
        os.unlink(name, dir_fd=inner)
        return
    while True:
        try:
            os.rename(name, new, src_dir_fd=inner, dst_dir_fd=top)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            new += "x"
        else:
            return
