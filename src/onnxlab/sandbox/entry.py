"""The sandbox that a submission runs in.

    enter(folder, readable, level, limits, user)

forks. The process that called it becomes the watcher (`watcher.py`) and never returns; the one in which the
call returns is confined, for ever, with all that it starts. Only its working folder can be written.

What somebody inside can do at each level, as root's throw-away user and as the instructor's own user. A test
tries each and compares it with this table:

    attempt                            full          landlock
                                       root   user   root   user
    read a file of the grader          no     no     no     no
    read a file that all may read      no     no     no     no
    write a file of the grader         no     no     no     no
    write in /tmp                      no     no     no     no
    empty a file of the judge          no     no     no     no
    change the mode of a file          no     no     no     no
    connect by TCP                     no     no     no     no
    send by UDP                        no     no     no     no
    connect to a Unix socket           no     no     no     no
    connect to an abstract socket      no     no     no     no
    send to the grader by a datagram   no     no     no     no
    signal the grader                  no     no     no     no
    signal the watcher                 no     no     no     no
    have the kernel signal the grader  no     no     no     no
    trace the grader                   no     no     no     no
    trace the watcher                  no     no     no     no
    limit the grader                   no     no     no     no
    see the grader                     no     no     no     no
    read the grader's variables        no     no     no     no
    write the grader's memory          no     no     no     no
    write the watcher's memory         no     no     no     no
    use shared memory (/dev/shm)       no     no     no     no
    use shared memory (System V)       no     no     no     no
    use memory without a process       no     no     no     no
    make a namespace                   no     no     no     no
    open a file by its handle          no     no     no     no
    keep running after the end         no     no     no     no
    fork more than allowed             no     no     no     no
    pass for a limit reached           no     no     no     no

This holds with every Landlock, from Linux 5.13: what an older one does not know (see `landlock.py`), the
filter of system calls refuses. Where a machine has neither level, nothing keeps a submission of the grader's
own user from ending its watcher or writing the judge's files, so there is no third. Root needs a throw-away
user, which must be nobody else's at the same time. Whether a file exists, and how large it is, can be seen at
both levels.
"""

import os
import signal
import stat
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from onnxlab.sandbox import landlock, seccomp, watcher
from onnxlab.sandbox.landlock import Access
from onnxlab.sandbox.levels import Ending, Level, Limits, ending, limit
from onnxlab.sandbox.libc import LINUX, die_with_parent, set_dumpable
from onnxlab.sandbox.namespaces import isolate
from onnxlab.sandbox.users import become, can_isolate, no_new_privileges, throw_away_user
from onnxlab.sandbox.watcher import why_it_failed

__all__ = ["enter", "probe", "why_it_failed"]

_NOTHING_FORBIDDEN = 42


def enter(
    folder: Path, readable: Sequence[Path], level: Level, limits: Limits, user: int | None = None
) -> None:
    """Confine this process: fork, watch the fork from outside, and return only in it.

    To be called in a process with one thread that nothing else needs. The watcher exits with an `Ending`. Ask
    it to end with SIGTERM, not SIGKILL: then it ends what it watches first. It does so too when its parent
    dies.

    Args:
        folder: The only folder in which it may write. It must belong to the user.
        readable: Files and folders that it may read and run.
        level: How far it is confined.
        limits: What it may use.
        user: The user that it becomes, of `throw_away_user`. It must be nobody else's at the same time.
    """
    parent = os.getppid()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    alone = bool(user)  # no other process is this user's, or is counted with its own
    try:
        watcher.prepare(parent)
        folder = folder.resolve(strict=True)
        if level is Level.FULL:
            users_too = not user and not can_isolate()
            isolate(folder, users_too=users_too)
            alone = alone or users_too
            watcher.prepare(parent)  # new namespaces can undo it
        hear, tell = os.pipe()
        process = os.fork()
    except BaseException as error:
        watcher.failed(folder, error)
        os._exit(Ending.SANDBOX_FAILED)
    if process:
        os.close(tell)
        watcher.watch(process, hear, folder, limits)
    try:
        os.close(hear)
        _settle(folder, readable, user)
        limit(limits, counted_alone=alone)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        _restrict(folder, readable, level, same_user=not user)
        os.write(tell, watcher.READY)  # fails with EPIPE if the watcher has died meanwhile
        os.close(tell)
    except BaseException as error:
        try:
            os.write(tell, watcher.in_words(error).encode("utf-8", "replace"))
        finally:
            os._exit(Ending.SANDBOX_FAILED)


def probe(level: Level) -> str:
    """Try a level in a process forked from this one, which must have one thread.

    Returns:
        Why it cannot be had; "" if it can.
    """
    if not LINUX:
        return f"{sys.platform} has neither namespaces nor Landlock; grade on Linux for that"
    if seccomp.processor() not in seccomp.PROCESSORS:
        return f"the system calls of this processor ({seccomp.processor()}) are not known"
    user = throw_away_user(0)
    with tempfile.TemporaryDirectory(prefix="onnxlab-probe-") as name:
        folder = Path(name)
        if user:
            os.chown(folder, user, user)
        process = os.fork()
        if not process:
            code = 1
            try:
                enter(folder, [Path("/usr"), Path("/lib")], level, Limits(wall=60), user)
                code = _holes(folder, level)
            finally:
                os._exit(code)
        _, status = os.waitpid(process, 0)
        came = ending(os.waitstatus_to_exitcode(status))
        if came is Ending.FINISHED:
            return ""
        return why_it_failed(folder) if came is Ending.SANDBOX_FAILED else "it does not confine"


def _settle(folder: Path, readable: Sequence[Path], user: int | None) -> None:
    """Become the user, in the folder, which is also home and the place for temporary files."""
    os.setsid()  # no terminal, and a process group of its own: kill(0) stays inside
    become(user, readable)
    set_dumpable(True)  # the watcher has to see what it uses; a change of user takes that away
    die_with_parent(signal.SIGKILL)
    os.umask(0o077)
    os.chdir(folder)
    os.environ.update(HOME=str(folder), TMPDIR=str(folder))
    tempfile.tempdir = str(folder)  # what it found before may not be written any more
    if not os.access(".", os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(0, f"user {os.geteuid()} cannot write in its folder", str(folder))


def _restrict(folder: Path, readable: Sequence[Path], level: Level, *, same_user: bool) -> None:
    """Give up what a level takes away."""
    no_new_privileges()
    places = [(place, Access.READ) for place in readable]
    landlock.confine([*places, (folder, Access.WRITE)])
    # In namespaces of its own it sees no other process, and all but its folder is mounted read-only.
    seccomp.filter_calls(same_user=same_user and level is not Level.FULL)


def _holes(folder: Path, level: Level) -> int:
    """Return 0 in a process that is confined as it should be."""
    (folder / "own").write_text("")
    if not stat.S_ISDIR(Path.cwd().stat().st_mode):
        return _NOTHING_FORBIDDEN
    if level is Level.FULL and os.getpid() != 1:
        return _NOTHING_FORBIDDEN
    try:
        os.listdir("/etc")  # noqa: PTH208 - the call itself is the question
    except PermissionError:
        return 0
    return _NOTHING_FORBIDDEN
