"""The folders that submissions and judges work in: made, given to somebody, and gone afterwards."""

import contextlib
import os
import tempfile
from pathlib import Path

from onnxlab.grading.folders import remove
from onnxlab.grading.tasks import PREFIX

__all__ = ["WorkFolder", "give", "sweep"]


def sweep() -> int:
    """Remove folders that a killed grader left behind; return how many."""
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdigit() and not _runs(int(owner)):
            with contextlib.suppress(OSError):
                remove(folder)
            removed += 1
    return removed


class WorkFolder:
    """A folder that is gone afterwards, whatever was done to the rights of what is in it."""

    def __init__(self, what: str) -> None:
        self._path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-{what}-"))

    def __enter__(self) -> Path:
        return self._path

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # what is left, the next run sweeps away
            remove(self._path)


def give(folder: Path, user: int | None) -> None:
    """Make somebody the owner of a folder and of all in it; None leaves it to whoever grades."""
    if user is not None:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, user, user)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
