"""Control groups (cgroups(7)): the kernel counts and limits the memory and the threads of a submission.

It also counts what `/proc` shows nowhere: what sockets and pipes hold, and memory of the kernel itself. Root
can make a group, and an ordinary user in a part of the tree that systemd has given to them. Elsewhere the
watcher counts (see `watcher.py`).
"""

import contextlib
import os
from pathlib import Path

_MOUNT = Path("/sys/fs/cgroup")
_CONTROLLERS = ("memory", "pids")
_PREFIX = "onnxlab-"
_HUGE_PAGE = 2**21  # bytes


class Group:
    """A group for what one process starts. Its folders stay open, as all mounts become read-only later.

    Args:
        parents: Where to make it, from `parents`.
        memory: The most bytes that it may use.
        threads: The most processes and threads that it may have.

    Raises:
        OSError: If the kernel refuses it.
    """

    def __init__(self, parents: list[Path], memory: int, threads: int) -> None:
        self._name = f"{_PREFIX}{os.getpid()}"
        self._nearly_all = memory - _HUGE_PAGE
        self._parents = [os.open(parent, os.O_PATH) for parent in parents]
        self._folders: list[int] = []
        try:
            for parent in self._parents:
                os.mkdir(self._name, dir_fd=parent)
                self._folders.append(os.open(self._name, os.O_PATH, dir_fd=parent))
            for name, most in {
                "memory.max": memory,
                "memory.swap.max": 0,
                "memory.limit_in_bytes": memory,  # the same in version 1, and memory with swap
                "memory.memsw.limit_in_bytes": memory,
                "pids.max": threads,
            }.items():
                self._write(name, most)
        except OSError:
            self.remove()
            raise

    def join(self) -> bool:
        """Move this process into the group, and forget the group here: what runs now must not change it.

        Returns:
            Whether it is in the group now: the kernel may refuse it.
        """
        try:
            self._write("cgroup.procs", 0, must_exist=True)
        except OSError:
            return False
        finally:
            self._close()
        return True

    def exceeded(self) -> bool:
        """Whether the kernel refused memory, or ended a process, because of the group's limit."""
        events = self._read("memory.events") or self._read("memory.oom_control")
        counts = dict(line.split() for line in events.splitlines())
        if b"oom" in counts:
            return int(counts[b"oom"]) > 0
        # Version 1 also counts those that were ended as the machine had no memory left.
        return (
            int(counts[b"oom_kill"]) > 0 and int(self._read("memory.max_usage_in_bytes")) > self._nearly_all
        )

    def remove(self) -> None:
        """Remove the group, whose processes have ended."""
        for parent in self._parents:
            with contextlib.suppress(OSError):  # something is still ending: `create` removes it later
                os.rmdir(self._name, dir_fd=parent)
        self._close()

    def _write(self, name: str, value: int, *, must_exist: bool = False) -> None:
        for folder in self._folders:
            try:
                file = os.open(name, os.O_WRONLY, dir_fd=folder)
            except FileNotFoundError:  # a file of the other version or controller
                if must_exist:
                    raise
                continue
            try:
                os.write(file, b"%d" % value)
            finally:
                os.close(file)

    def _read(self, name: str) -> bytes:
        for folder in self._folders:
            with contextlib.suppress(FileNotFoundError):
                file = os.open(name, os.O_RDONLY, dir_fd=folder)
                try:
                    return os.read(file, 4096)
                finally:
                    os.close(file)
        return b""

    def _close(self) -> None:
        for folder in (*self._parents, *self._folders):
            os.close(folder)


def create(memory: int, threads: int) -> Group | None:
    """Return a new group; None where this process may not make one. See `Group`."""
    try:
        places = parents(Path("/proc/self/cgroup").read_text())
        for old in (entry for place in places for entry in place.glob(f"{_PREFIX}*")):
            if not Path("/proc", old.name.removeprefix(_PREFIX)).exists():  # its watcher was killed
                with contextlib.suppress(OSError):
                    old.rmdir()
        return Group(places, memory, threads) if places else None
    except OSError:
        return None


def parents(groups: str, mount: Path = _MOUNT) -> list[Path]:
    """Return where a group for a submission can be made.

    In version 1 that is below the groups that this process is in, one for each controller. In version 2 a
    group with processes hands no controller on, so it is the nearest one above that does.

    Args:
        groups: The groups of this process, as in `/proc/self/cgroup`.
        mount: Where the tree is mounted.
    """
    paths = {
        names: path.strip("/") for _, names, path in (line.split(":", 2) for line in groups.splitlines())
    }
    places = [mount / name / paths[name] for name in _CONTROLLERS if name in paths]
    if "memory" not in paths:
        places = []
        own = mount / paths.get("", "")
        for folder in (own, *own.parents):
            handed_on = folder / "cgroup.subtree_control"
            if handed_on.exists() and set(_CONTROLLERS) <= set(handed_on.read_text().split()):
                places = [folder]
            if places or folder == mount:
                break
    return places if all(os.access(place / "cgroup.procs", os.W_OK) for place in places) else []
