"""Reading the progress files of a class: written by learners, and so never trusted.

Nothing is followed that a learner could have put in place of a folder or a file, nothing is waited for, and
only a file that changed is read again.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from onnxlab.classroom.course_folder import CLASS_FILE
from onnxlab.errors import OnnxLabError

__all__ = ["LARGEST", "NoRoom", "ProgressFile", "ProgressFiles"]

LARGEST = 64 * 1024
"""Bytes of a progress file; one with every exercise in it has about 5 kB."""

_STATE = (".onnxlab", "progress.json")
_NO_LEARNERS = {"instructor"}  # the account that the hub keeps for who teaches
_SAFELY = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")  # not on Windows
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

_Stamp = tuple[int, int, int, int]


class NoRoom(OnnxLabError):
    """A folder was named in which nobody's progress can be."""


@dataclass(frozen=True)
class ProgressFile:
    """What one learner's file holds now.

    Attributes:
        account: Whose it is: the name of a folder, or of the file without its ending.
        content: The bytes; empty where there is no file yet, None where it cannot be used.
        problem: Why it cannot be used.
    """

    account: str
    content: bytes | None
    problem: str = ""


class ProgressFiles:
    """The progress files below a folder.

    Args:
        folder: A class folder (`learners/<account>/.onnxlab/progress.json`), a folder of such learners'
            folders, or a folder of files `<account>.json`.

    Raises:
        NoRoom: If there is no such folder.
    """

    def __init__(self, folder: Path) -> None:
        learners = folder / "learners"
        self._class = learners.is_dir() or (folder / CLASS_FILE).is_file()
        self._top = learners if self._class else folder
        self._seen: dict[str, _Stamp | None] = {}
        if not folder.is_dir():
            msg = f"There is no folder {folder}."
            raise NoRoom(msg, "", "Name the class's folder, or a folder of progress files.")

    def changes(self) -> tuple[list[ProgressFile], list[str]]:
        """Look again.

        Returns:
            The files that are new or have changed since the last look, and the accounts that are gone.
        """
        try:
            top = os.open(self._top, os.O_RDONLY) if _SAFELY else None
            present = dict(self._accounts())
        except FileNotFoundError:  # a class that nobody has come to yet
            top, present = None, {}
        except OSError as error:
            msg = f"{self._top} cannot be read: {error.strerror}."
            raise NoRoom(msg, "", "Run this as somebody who may read it.") from None
        try:
            changed = []
            for account, parts in present.items():
                stamp = self._stamp(top, parts)
                if account in self._seen and self._seen[account] == stamp:
                    continue
                self._seen[account] = stamp
                changed.append(self._read(top, account, parts))
            gone = [account for account in self._seen if account not in present]
            for account in gone:
                del self._seen[account]
            return changed, gone
        finally:
            if top is not None:
                os.close(top)

    def _accounts(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        with os.scandir(self._top) as entries:
            for entry in entries:
                if entry.name.startswith(".") or (self._class and entry.name in _NO_LEARNERS):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield entry.name, (entry.name, *_STATE)
                elif entry.name.endswith(".json") and not self._class:
                    yield entry.name.removesuffix(".json"), (entry.name,)

    def _stamp(self, top: int | None, parts: tuple[str, ...]) -> _Stamp | None:
        """Return what changes with a file; a stat only, so that it may be asked 500 times at once."""
        path = os.path.join(*parts) if _SAFELY else str(self._top.joinpath(*parts))  # noqa: PTH118
        try:
            found = os.stat(path, dir_fd=top, follow_symlinks=False)
        except OSError:
            return None
        return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def _read(self, top: int | None, account: str, parts: tuple[str, ...]) -> ProgressFile:
        try:
            with self._opened(top, parts) as file:
                found = os.fstat(file)
                if not stat.S_ISREG(found.st_mode):
                    return ProgressFile(account, None, "it is not a file")
                content = os.read(file, LARGEST + 1) if found.st_size <= LARGEST else None
        except FileNotFoundError:
            return ProgressFile(account, b"")
        except OSError as error:
            return ProgressFile(account, None, error.strerror or "it cannot be opened")
        if content is None or len(content) > LARGEST:
            return ProgressFile(account, None, f"it is larger than {LARGEST // 1024} kB")
        return ProgressFile(account, content)

    @contextlib.contextmanager
    def _opened(self, top: int | None, parts: tuple[str, ...]) -> Iterator[int]:
        """Open a file below the folder, one step after the other, through no link."""
        with contextlib.ExitStack() as stack:
            folder = top
            if top is None:
                links = [
                    self._top.joinpath(*parts[: number + 1]).is_symlink() for number in range(len(parts))
                ]
                if any(links):
                    raise OSError(None, "it is a link")
                parts = (str(self._top.joinpath(*parts)),)
            for part in parts[:-1]:
                folder = os.open(part, _FOLDER, dir_fd=folder)
                stack.callback(os.close, folder)
            file = os.open(parts[-1], _FILE, dir_fd=folder)
            stack.callback(os.close, file)
            yield file
