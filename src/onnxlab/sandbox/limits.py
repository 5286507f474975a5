"""The limits that the kernel keeps for each process (setrlimit(2)).

Each process that a submission starts has these again; what all of them use together, the watcher counts.
"""

import os
from pathlib import Path
from typing import Any

from onnxlab.sandbox.levels import Limits

resource: Any
try:  # now: a confined process may not be able to import anything any more
    import resource
except ImportError:  # Windows
    resource = None

__all__ = ["limit"]

_MB = 2**20


def limit(limits: Limits, *, counted_alone: bool) -> None:
    """Limit this process and all that it will start.

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
