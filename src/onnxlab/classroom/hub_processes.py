"""The processes of a class: whose each is, what it uses, and ending some of them."""

import contextlib
import os
import signal
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from onnxlab.grading.process_tree import Process, descendants

__all__ = ["Seen", "end", "look", "remove_shared_memory", "shares"]


@dataclass(frozen=True)
class Seen:
    """A process.

    Attributes:
        process: Its number, and when it started.
        parent: The number of the one it was started by.
        user: Its user.
        threads: How many threads it has.
        memory: The bytes that it uses, also those that it shares.
    """

    process: Process
    parent: int
    user: int
    threads: int
    memory: int


def look(below: int) -> dict[int, Seen]:
    """Return all processes below one, by number."""
    found = {}
    for process in descendants(below):
        try:
            lines = Path(f"/proc/{process.id}/status").read_bytes().splitlines()
        except OSError:
            continue  # it ended in between
        values = {name: rest.split() for name, _, rest in (line.partition(b":") for line in lines)}
        memory = sum(int(values.get(name, [b"0"])[0]) for name in (b"RssAnon", b"RssShmem", b"VmSwap"))
        if values.get(b"State", [b"Z"])[0] == b"Z":
            continue  # it has ended; whoever started it has only not asked yet
        with contextlib.suppress(KeyError):
            found[process.id] = Seen(
                process,
                int(values[b"PPid"][0]),
                int(values[b"Uid"][0]),
                int(values[b"Threads"][0]),
                memory * 1024,
            )
    return found


def shares(own: Mapping[int, Seen], server: int) -> list[list[Seen]]:
    """Return an account's processes in groups: each kernel or terminal with all that it started.

    Args:
        own: The account's processes.
        server: Its server, which belongs to no group.
    """
    groups: dict[int, list[Seen]] = {}
    for number in own:
        top = number
        while top != server and own[top].parent in own and own[top].parent != server:
            top = own[top].parent
        if top != server:
            groups.setdefault(top, []).append(own[number])
    return list(groups.values())


def end(processes: Iterable[Seen], number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to processes; not to others that got their numbers meanwhile."""
    for seen in processes:
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(seen.process.id)
            try:
                if _started(seen.process.id) == seen.process.started:
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)


def remove_shared_memory(users: Container[int]) -> None:
    """Remove what users have left in /dev/shm: it takes memory for as long as the machine runs."""
    with contextlib.suppress(OSError), os.scandir("/dev/shm") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_uid in users:
                    Path(entry).unlink()


def _started(number: int) -> int:
    text = Path(f"/proc/{number}/stat").read_bytes()
    return int(text[text.rfind(b")") + 2 :].split()[19])
