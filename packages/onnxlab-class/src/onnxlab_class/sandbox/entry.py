"""The sandbox's levels, and the way into it.

    enter(folder, readable, level, limits, user)

forks. The calling process becomes the watcher (`watcher.py`) and never returns. The call returns in the fork,
which is confined for ever, with all that it starts, and can write only in its working folder.

A submission can do none of these, at either level, as root's throw-away user or as the instructor's own user,
but for one: at level `landlock` it can see who runs. A test tries each:

    read a file of the grader; read a file that all may read; write a file of the grader; write in /tmp;
    empty a file of the judge; change the mode of a file; change the attributes of a file; make a rule of
    Landlock; keep descriptors of one thread; keep locks on files; list the machine's mounts; see who
    runs; connect by TCP; send by UDP; connect to a Unix socket; connect to an abstract socket; send to
    the grader by a datagram; see names appear in /tmp; list /tmp; list the grader's folder; enlarge the
    buffer of a socket; enlarge a pipe; send a descriptor away; keep pages in a pipe; reserve space on the
    disk; kill or stop itself; signal the grader; signal the watcher; have the kernel signal the grader;
    trace the grader or the watcher; limit the grader; see the grader; read the grader's variables; write
    the memory of the grader or the watcher; use shared memory (/dev/shm); use shared memory (System V); use
    queues of messages (System V); use memory without a process; make a namespace; open a file by its
    handle; keep running after the end; fork more than allowed; pass for a limit reached

This holds with every Landlock, from Linux 5.13: the seccomp filter refuses what an older Landlock does not
control (see `landlock.py`). There is no third, weaker level: without Landlock, a submission that runs as the
grader's own user could end its watcher or write the judge's files. Root needs a throw-away user that no other
process has at the same time. At both levels a submission can see whether a file of a known name exists and
how large it is; the names of the grader's folders are drawn at random. At level `landlock`, and where a
container covers parts of `/proc`, this includes `/proc/PID`: which processes run, and whose they are.
"""

import functools
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from enum import StrEnum
from pathlib import Path

from onnxlab.errors import OnnxLabError
from onnxlab_class.sandbox import cgroup, landlock, seccomp, watcher
from onnxlab_class.sandbox.landlock import Access
from onnxlab_class.sandbox.libc import LINUX, die_with_parent, limit, resource, set_dumpable
from onnxlab_class.sandbox.namespaces import isolate, mount_processes
from onnxlab_class.sandbox.users import become, can_isolate, no_new_privileges, throw_away_user
from onnxlab_class.sandbox.watcher import Ending, Limits, memory_in

_NOT_CONFINED = 42
_PROBE = """
import json
from onnxlab_class.sandbox.entry import Level, probe
print(json.dumps({level: probe(level) for level in Level}))
"""
_PROBE_SECONDS = 300.0
_MB = 2**20
_LINUX_ONLY = "that takes Linux: a machine, a virtual machine or a container; on Windows, WSL2"


class NoIsolation(OnnxLabError):
    """This machine cannot confine submissions, or not at the requested level."""


class Level(StrEnum):
    """The sandbox's levels, the strongest first. The table above says what each one stops."""

    FULL = "full"
    """Namespaces (users, processes, network, IPC, mounts), Landlock, a filter of system calls, limits."""
    LANDLOCK = "landlock"
    """Landlock, a filter of system calls, limits."""


def enter(
    folder: Path,
    readable: Sequence[Path],
    level: Level,
    limits: Limits,
    user: int | None = None,
    *,
    hidden: Collection[Path] = (),
) -> None:
    """Fork, confine the fork, and return only in it; this process becomes its watcher.

    Call it in a process with one thread that has nothing else to do. The watcher exits with an `Ending`. End
    it with SIGTERM, not SIGKILL: it then first ends what it watches. It does the same when its parent dies.

    Args:
        folder: The only folder in which the fork may write. It must belong to the user.
        readable: Files and folders that the fork may read and run.
        level: The level.
        limits: What the fork may use.
        user: The user that it becomes, from `throw_away_user`; no other process may have it at the same time.
        hidden: Files and folders in the readable ones that it may not read all the same; only their names.
    """
    parent = os.getppid()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    counted_alone = bool(user)  # the kernel counts the user's processes
    try:
        watcher.prepare(parent)
        folder = folder.resolve(strict=True)
        group = cgroup.create(watcher.own_memory() + limits.memory * _MB, limits.processes)
        if level is Level.FULL:
            users_too = not user and not can_isolate()
            isolate(folder, users_too=users_too)
            counted_alone = counted_alone or users_too
            watcher.prepare(parent)  # new namespaces can reset it
        report, ready = os.pipe()
        process = os.fork()
    except BaseException as error:
        watcher.failed(folder, error)
        os._exit(Ending.SANDBOX_FAILED)
    if process:
        os.close(ready)
        watcher.watch(process, report, folder, limits, group, user)
    try:
        os.close(report)
        in_group = group is not None and group.join()
        if level is Level.FULL:
            mount_processes()
        _enter_folder(folder, readable, user)
        _limit(limits, counted_alone=counted_alone)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        _restrict(folder, readable, hidden, level, same_user=not user)
        # Fails with EPIPE if the watcher has died meanwhile.
        os.write(ready, watcher.READY_IN_GROUP if in_group else watcher.READY)
        os.close(ready)
    except BaseException as error:
        try:
            os.write(ready, watcher.in_words(error).encode("utf-8", "replace"))
        finally:
            os._exit(Ending.SANDBOX_FAILED)


@functools.cache
def available() -> dict[Level, str]:
    """Try each level in a process of its own.

    Returns:
        For each level, why this machine does not have it; "" if it has.
    """
    if sys.platform != "linux":
        return dict.fromkeys(Level, _LINUX_ONLY)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _PROBE],  # -P: the working directory may be a student's
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=True,
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
    """Try a level in a fork of this process, which must have one thread.

    Returns:
        Why the level is not available; "" if it is.
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
                code = _check_confinement(folder, level)
            finally:
                os._exit(code)
        _, status = os.waitpid(process, 0)
        ending = Ending.of(os.waitstatus_to_exitcode(status))
        if ending is Ending.FINISHED:
            return ""
        return watcher.why_it_failed(folder) if ending is Ending.SANDBOX_FAILED else "it does not confine"


def _enter_folder(folder: Path, readable: Sequence[Path], user: int | None) -> None:
    """Become the user, with the folder as working folder, home and folder for temporary files."""
    os.setsid()  # no terminal, and its own process group, so kill(0) stays inside
    become(user, readable)
    set_dumpable(True)  # else the watcher cannot read its memory use; a change of user resets it
    die_with_parent(signal.SIGKILL)
    os.umask(0o077)
    os.chdir(folder)
    os.environ.update(HOME=str(folder), TMPDIR=str(folder))
    tempfile.tempdir = str(folder)  # tempfile caches the old one
    if not os.access(".", os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(0, f"user {os.geteuid()} cannot write in its folder", str(folder))


def _restrict(
    folder: Path, readable: Sequence[Path], hidden: Collection[Path], level: Level, *, same_user: bool
) -> None:
    """Apply Landlock and the seccomp filter."""
    no_new_privileges()
    resolved = {path.resolve() for path in hidden}
    places = [rule for path in readable for rule in landlock.without(path, resolved)]
    landlock.confine([*places, (folder, Access.WRITE)])
    # In its own namespaces it sees no other process, and all but its folder is mounted read-only.
    full = level is Level.FULL
    seccomp.filter_calls(same_user=same_user and not full, first_of_namespace=full)


def _limit(limits: Limits, *, counted_alone: bool) -> None:
    """Set the kernel's limits (setrlimit(2)) of this process and of all that it starts.

    They hold for each process by itself; the watcher counts what all of them use together.

    Args:
        limits: The limits.
        counted_alone: Whether the kernel counts no other processes of this user, as in a new user namespace.
    """
    own = "/proc/self/status"  # of the fork server, which has torch loaded
    limit(resource.RLIMIT_DATA, memory_in(own, b"VmData:") + limits.memory * _MB)
    # Twice as much: address space is not memory, and threads and allocators reserve what they never touch.
    limit(resource.RLIMIT_AS, memory_in(own, b"VmSize:") + 2 * limits.memory * _MB)
    limit(resource.RLIMIT_MSGQUEUE, 0)
    limit(resource.RLIMIT_MEMLOCK, 0)
    # The kernel counts all tasks of the user, the grader's own among them.
    others = 0 if counted_alone else _tasks_of(os.getuid())
    limit(resource.RLIMIT_NPROC, others + limits.processes)
    limit(resource.RLIMIT_CPU, limits.cpu, above=1)  # SIGXCPU, and a second later SIGKILL
    limit(resource.RLIMIT_FSIZE, limits.file * _MB)
    limit(resource.RLIMIT_NOFILE, limits.open_files)
    limit(resource.RLIMIT_CORE, 0)


def _tasks_of(user: int) -> int:
    """Return how many processes and threads a user has.

    The owner of a process's folder in `/proc` is root if it is not dumpable, so its status is read.
    """
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - names only, hundreds of them
        try:
            with open(f"/proc/{name}/status", "rb") as file:  # noqa: PTH123 - as above
                status = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
        except OSError:
            continue  # it ended in between
        if int(status[b"Uid"].split()[0]) == user:
            count += int(status[b"Threads"])
    return count


def _check_confinement(folder: Path, level: Level) -> int:
    """Return the exit code of a probe: 0 if this process is confined."""
    (folder / "own").write_text("")
    if not stat.S_ISDIR(Path.cwd().stat().st_mode):
        return _NOT_CONFINED
    if level is Level.FULL and os.getpid() != 1:
        return _NOT_CONFINED
    try:
        os.listdir("/etc")  # noqa: PTH208 - to see whether the call is refused
    except PermissionError:
        return 0
    return _NOT_CONFINED
