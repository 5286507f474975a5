"""Who takes how much of the disk: nothing limits it, so the person who serves is told in time."""

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["DiskWatcher", "taken"]

_GB = 10**9
_MUCH = 2 * _GB  # of one account; a learner who has run every chapter has some hundred MB
_LITTLE = 5 * _GB  # left for all
_MOST_ENTRIES = 20_000  # are counted of one folder: some tenths of a second


def taken(folder: Path) -> int:
    """Return the bytes that a folder takes on the disk: at least, if it holds more files than are counted.

    The folder is a learner's: links are counted and not followed, and what cannot be read is left out.
    """
    found, entries, todo = 0, 0, [str(folder)]
    while todo and entries < _MOST_ENTRIES:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as inside:
            for entry in inside:
                entries += 1
                if entries > _MOST_ENTRIES:
                    break
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # it is gone again
                found += status.st_blocks * 512
                if stat.S_ISDIR(status.st_mode):
                    todo.append(entry.path)
    return found


class DiskWatcher:
    """Looks at one home after the other, a home at a time.

    Args:
        homes: The folder of the homes.
        told: Is called with a line when a home is large, and again when it is twice as large; and when the
            disk is nearly full.
    """

    def __init__(self, homes: Path, told: Callable[[str], None]) -> None:
        self._homes, self._told = homes, told
        self._next: Iterator[Path] = iter(())
        self._said: dict[str, int] = {}
        self._left = _LITTLE

    def look(self) -> None:
        """Look at the next home, and at the disk after the last one."""
        home = next(self._next, None)
        if home is None:
            self._look_at_disk()
            self._next = iter(sorted(self._homes.iterdir()))
            return
        much = taken(home)
        if much >= self._said.get(home.name, _MUCH):
            self._told(f"{home.name}'s folder takes {much / _GB:.1f} GB of the disk.")
            self._said[home.name] = 2 * much

    def _look_at_disk(self) -> None:
        left = shutil.disk_usage(self._homes).free
        if left < self._left:
            self._told(f"The class's disk is nearly full: {left / _GB:.1f} GB are left.")
            self._left = left // 2
        elif left > _LITTLE:
            self._left = _LITTLE
