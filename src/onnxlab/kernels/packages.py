"""Whether what was loaded is still what is installed."""

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Loaded"]


@dataclass(frozen=True)
class Loaded:
    """The state of the folders that packages are installed in and of every file that was loaded.

    Attributes:
        state: Path -> time of the last change and size; a folder's time changes with every install.
    """

    state: dict[str, tuple[int, int] | None]

    @classmethod
    def now(cls) -> "Loaded":
        """Return the state of what this process has loaded."""
        return cls({path: _state(path) for path in _paths()})

    def changed(self) -> str:
        """Return the first path that is not as it was; empty if all are."""
        return next((path for path, state in self.state.items() if _state(path) != state), "")


def _paths() -> Iterator[str]:
    yield from (folder for folder in sys.path if Path(folder).is_dir())
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            yield file


def _state(path: str) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        found = os.stat(path)  # noqa: PTH116 (thousands of them before every fork)
        return found.st_mtime_ns, found.st_size
    return None
