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

import functools
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from onnxlab.errors import OnnxLabError
from onnxlab.sandbox import landlock, seccomp, watcher
from onnxlab.sandbox.landlock import Access
from onnxlab.sandbox.libc import LINUX, die_with_parent, resource, set_dumpable
from onnxlab.sandbox.namespaces import isolate
from onnxlab.sandbox.users import become, can_isolate, no_new_privileges, throw_away_user
from onnxlab.sandbox.watcher import Ending, Limits

__all__ = ["Level", "NoIsolation", "available", "enter", "probe", "strongest"]

_NOTHING_FORBIDDEN = 42
_PROBE = """
import json
from onnxlab.sandbox.entry import Level, probe
print(json.dumps({level: probe(level) for level in Level}))
"""
_PROBE_SECONDS = 300.0
_MB = 2**20
_LINUX_ONLY = "that takes Linux: a machine, a virtual machine or a container; on Windows, WSL2"


class NoIsolation(OnnxLabError):
    """This machine cannot confine a submission at all, or not as far as was asked for."""


class Level(StrEnum):
    """How far a submission is confined, the strongest first. `entry.py` says what each level stops."""

    FULL = "full"
    """Namespaces (users, processes, network, IPC, mounts), Landlock, a filter of system calls, limits."""
    LANDLOCK = "landlock"
    """Landlock, a filter of system calls, limits."""


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
        _limit(limits, counted_alone=alone)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        _restrict(folder, readable, level, same_user=not user)
        os.write(tell, watcher.READY)  # fails with EPIPE if the watcher has died meanwhile
        os.close(tell)
    except BaseException as error:
        try:
            os.write(tell, watcher.in_words(error).encode("utf-8", "replace"))
        finally:
            os._exit(Ending.SANDBOX_FAILED)


@functools.cache
def available() -> dict[Level, str]:
    """Try each level in a process of its own.

    Returns:
        For each level, why this machine does not have it; "" where it has.
    """
    if sys.platform != "linux":
        return dict.fromkeys(Level, _LINUX_ONLY)
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=True
        )
        reasons = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return dict.fromkeys(Level, f"it could not be tried: {error}")
    return {level: str(reasons[level]) for level in Level}


def strongest() -> Level:
    """Return the strongest level that this machine has.

    Raises:
        NoIsolation: If it has none.
    """
    reasons = available()
    for level in Level:
        if not reasons[level]:
            return level
    msg = "This machine cannot confine submissions."
    then = "Grade there; or, only notebooks that you trust, with --isolation none."
    raise NoIsolation(msg, "; ".join(dict.fromkeys(reasons.values())), then)


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
        ending = Ending.of(os.waitstatus_to_exitcode(status))
        if ending is Ending.FINISHED:
            return ""
        return watcher.why_it_failed(folder) if ending is Ending.SANDBOX_FAILED else "it does not confine"


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


def _limit(limits: Limits, *, counted_alone: bool) -> None:
    """Limit this process and all that it will start, by what the kernel keeps for each (setrlimit(2)).

    Each process that a submission starts has these again; what all of them use together, the watcher counts.

    Args:
        limits: The limits.
        counted_alone: Whether this user's other processes are not counted, as in a namespace of its own.
    """

    def at_most(kind: int, most: int, above: int = 0) -> None:
        _, allowed = resource.getrlimit(kind)
        if allowed != resource.RLIM_INFINITY:
            most = min(most, allowed)
            above = min(above, allowed - most)
        resource.setrlimit(kind, (most, most + above))

    has = _sizes()  # of the warm process, which has torch loaded
    at_most(resource.RLIMIT_DATA, has["VmData"] + limits.memory * _MB)
    # Twice as much: address space is not memory, and threads and allocators reserve what they never touch.
    at_most(resource.RLIMIT_AS, has["VmSize"] + 2 * limits.memory * _MB)
    at_most(resource.RLIMIT_MSGQUEUE, 0)
    at_most(resource.RLIMIT_MEMLOCK, 0)
    # The kernel counts all tasks of the user, the grader's own among them.
    others = 0 if counted_alone else _tasks_of(os.getuid())
    at_most(resource.RLIMIT_NPROC, others + limits.processes)
    at_most(resource.RLIMIT_CPU, limits.cpu, above=1)  # SIGXCPU, and a second later SIGKILL
    at_most(resource.RLIMIT_FSIZE, limits.file * _MB)
    at_most(resource.RLIMIT_NOFILE, limits.open_files)
    at_most(resource.RLIMIT_CORE, 0)


def _sizes() -> dict[str, int]:
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return {line[0].rstrip(":"): int(line[1]) * 1024 for line in lines if line[0] in ("VmData:", "VmSize:")}


def _tasks_of(user: int) -> int:
    """Return how many processes and threads a user has.

    Whose a process is stands in its status: the owner of its folder is root, if nobody may look into it.
    """
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - names only, hundreds of them
        try:
            with open(f"/proc/{name}/status", "rb") as file:  # noqa: PTH123 - as above
                found = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
        except OSError:
            continue  # it ended in between
        if int(found[b"Uid"].split()[0]) == user:
            count += int(found[b"Threads"])
    return count


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
