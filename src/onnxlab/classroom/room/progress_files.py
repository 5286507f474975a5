"""The progress files of a class, written by learners and so never trusted; and who asked not to be shown.

Nothing is followed that a learner could have put in place of a folder or a file, nothing is waited for, and
only a file that changed is read again.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from onnxlab.classroom.course.folder import CLASS_FILE
from onnxlab.errors import OnnxLabError
from onnxlab.files import (
    FOLDERS_STAY_OPEN,
    CannotWrite,
    NotRegularFile,
    open_folder,
    read_untrusted,
    write_atomically,
)

__all__ = ["LARGEST", "NoRoom", "OptedOut", "ProgressFile", "ProgressFiles"]

LARGEST = 64 * 1024
"""Bytes of a progress file; one with every exercise in it has about 5 kB."""

_STATE = (".onnxlab", "progress.json")
_NO_LEARNERS = {"instructor"}  # the account that the hub keeps for who teaches

_Stamp = tuple[int, int, int, int]


class NoRoom(OnnxLabError):
    """A folder was named in which nobody's progress can be."""


@dataclass(frozen=True)
class ProgressFile:
    """What one learner's file holds now.

    Attributes:
        account: Whose it is: the name of a folder, or of the file without its ending.
        content: The bytes; empty where there is no file yet, None where it cannot be used.
    """

    account: str
    content: bytes | None


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
            top = os.open(self._top, os.O_RDONLY) if FOLDERS_STAY_OPEN else None
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
        path = os.path.join(*parts) if FOLDERS_STAY_OPEN else str(self._top.joinpath(*parts))  # noqa: PTH118
        try:
            found = os.stat(path, dir_fd=top, follow_symlinks=False)
        except OSError:
            return None
        return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def _read(self, top: int | None, account: str, parts: tuple[str, ...]) -> ProgressFile:
        try:
            return ProgressFile(account, self._content(top, parts))
        except FileNotFoundError:
            return ProgressFile(account, b"")
        except OSError:
            return ProgressFile(account, None)

    def _content(self, top: int | None, parts: tuple[str, ...]) -> bytes:
        """Read a file below the folder, opened one step after the other, through no link."""
        *folders, name = parts
        if top is None:
            place = self._top
            for folder in folders:
                place /= folder
                if place.is_symlink():
                    raise NotRegularFile
            return read_untrusted(place / name, LARGEST)
        with open_folder(".", *folders, folder=top) as opened:
            return read_untrusted(name, LARGEST, folder=opened)


class OptedOut:
    """The accounts that asked not to be shown, so that who loses the file that says so stays out of the page.

    Args:
        file: Where they are kept for the next start; None to remember them only as long as this runs.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._accounts = set[str]()
        if file is not None:
            with contextlib.suppress(OSError, ValueError, TypeError):
                self._accounts = {
                    each for each in json.loads(file.read_text("utf-8")) if isinstance(each, str)
                }

    @classmethod
    def of(cls, folder: Path) -> "OptedOut":
        """Return those of a class folder, whose `hub/` nobody but who teaches can enter; or of any folder."""
        return cls(folder / "hub" / "not_shown.json" if (folder / "hub").is_dir() else None)

    def still(self, account: str, asked: bool | None) -> bool:
        """Return whether an account is left out, and remember it.

        Args:
            account: The account.
            asked: Whether its file asks for it now; None if it does not say.

        Example:
            >>> out = OptedOut(None)
            >>> [out.still("ada", asked) for asked in (None, True, None, False, None)]
            [False, True, True, False, False]
        """
        if asked is not None and asked != (account in self._accounts):
            self._accounts ^= {account}
            self._write()
        return account in self._accounts

    def _write(self) -> None:
        if self._file is not None:
            with contextlib.suppress(CannotWrite):  # then it is forgotten with this process
                write_atomically(self._file, json.dumps(sorted(self._accounts)), mode=0o600)
