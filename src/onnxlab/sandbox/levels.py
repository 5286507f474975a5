"""How far a machine can confine a submission, what it may use, and how it can end."""

import functools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any

from onnxlab.errors import OnnxLabError

resource: Any
try:  # now: a confined process may not be able to import anything any more
    import resource
except ImportError:  # Windows
    resource = None

__all__ = [
    "Ending",
    "Level",
    "Limits",
    "NoIsolation",
    "available",
    "ending",
    "limit",
    "resource",
    "strongest",
]

_PROBE = """
import json
from onnxlab.sandbox.levels import Level
from onnxlab.sandbox.entry import probe
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


def ending(code: int) -> Ending:
    """Return what an exit code means; a negative code is a signal.

    Example:
        >>> ending(124), ending(-9)
        (<Ending.TIME: 124>, <Ending.CRASHED: 1>)
    """
    return Ending(code) if code in set(Ending) else Ending.CRASHED


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


def limit(limits: Limits, *, counted_alone: bool) -> None:
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
