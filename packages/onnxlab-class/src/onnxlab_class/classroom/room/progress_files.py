"""The progress files of a class, which are untrusted, and the accounts that opted out of the live page.

Learners write these files. So no link is followed, nothing but a regular file is opened, and only a file that
has changed is read again.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from onnxlab.errors import OnnxLabError
from onnxlab.files import (
    FOLDERS_STAY_OPEN,
    CannotWrite,
    NotRegularFile,
    open_folder,
    read_untrusted,
    write_atomically,
)
from onnxlab_class.classroom.course.folder import CLASS_FILE

LARGEST = 64 * 1024
"""Bytes of a progress file; one with every exercise in it has about 5 kB."""

_STATE = (".onnxlab", "progress.json")
_TEACHERS = {"instructor"}  # accounts in the class's folder that are no learners

_Stamp = tuple[int, int, int, int]


class NoRoom(OnnxLabError):
    """A folder is missing or cannot be read."""


@dataclass(frozen=True)
class ProgressFile:
    """The present content of one learner's file.

    Attributes:
        account: The learner: the name of the folder, or of the file without its ending.
        content: The bytes; empty if there is no file yet, None if it cannot be used.
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
        self._class = (folder / CLASS_FILE).is_file()  # no folder's name says so: a learner can have it
        self._top = folder / "learners" if self._class else folder
        self._stamps: dict[str, _Stamp | None] = {}
        if not folder.is_dir():
            raise NoRoom(
                f"There is no folder {folder}.", "", "Name the class's folder, or a folder of progress files."
            )

    def changes(self) -> tuple[list[ProgressFile], list[str]]:
        """Read what has changed since the last call.

        Returns:
            The files that are new or have changed, and the accounts that are gone.
        """
        try:
            top = os.open(self._top, os.O_RDONLY) if FOLDERS_STAY_OPEN else None
            present = dict(self._accounts())
        except FileNotFoundError:  # a class that nobody has come to yet
            top, present = None, {}
        except OSError as error:
            raise NoRoom(
                f"{self._top} cannot be read: {error.strerror}.", "", "Run this as somebody who may read it."
            ) from None
        try:
            changed = []
            for account, parts in present.items():
                stamp = self._stamp(top, parts)
                if account in self._stamps and self._stamps[account] == stamp:
                    continue
                self._stamps[account] = stamp
                changed.append(self._read(top, account, parts))
            gone = [account for account in self._stamps if account not in present]
            for account in gone:
                del self._stamps[account]
            return changed, gone
        finally:
            if top is not None:
                os.close(top)

    def _accounts(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        with os.scandir(self._top) as entries:
            for entry in entries:
                if entry.name.startswith(".") or (self._class and entry.name in _TEACHERS):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield entry.name, (entry.name, *_STATE)
                elif entry.name.endswith(".json") and not self._class:
                    yield entry.name.removesuffix(".json"), (entry.name,)

    def _stamp(self, top: int | None, parts: tuple[str, ...]) -> _Stamp | None:
        """Return the fields of a file's stat that change with it: cheap enough for 500 files a second."""
        path = os.path.join(*parts) if FOLDERS_STAY_OPEN else str(self._top.joinpath(*parts))  # noqa: PTH118
        try:
            info = os.stat(path, dir_fd=top, follow_symlinks=False)
        except OSError:
            return None
        return (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)

    def _read(self, top: int | None, account: str, parts: tuple[str, ...]) -> ProgressFile:
        try:
            return ProgressFile(account, self._content(top, parts))
        except FileNotFoundError:
            return ProgressFile(account, b"")
        except OSError:
            return ProgressFile(account, None)

    def _content(self, top: int | None, parts: tuple[str, ...]) -> bytes:
        """Read a file below the folder, without following links."""
        *folders, name = parts
        if top is None:
            path = self._top
            for folder in folders:
                path /= folder
                if path.is_symlink():
                    raise NotRegularFile
            return read_untrusted(path / name, LARGEST)
        with open_folder(".", *folders, folder=top) as opened:
            return read_untrusted(name, LARGEST, folder=opened)


class OptedOut:
    """The accounts that opted out; one whose progress file is lost afterwards stays hidden.

    Args:
        file: Where they are stored for the next start; None to store them nowhere.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._accounts = set[str]()
        if file is not None:
            with contextlib.suppress(OSError, ValueError, TypeError):
                self._accounts = {
                    account for account in json.loads(file.read_text("utf-8")) if isinstance(account, str)
                }

    @classmethod
    def of(cls, folder: Path) -> "OptedOut":
        """Return those of a class, stored in its `hub/`, or of any other folder."""
        stored = (folder / CLASS_FILE).is_file() and (folder / "hub").is_dir()
        return cls(folder / "hub" / "not_shown.json" if stored else None)

    def update(self, account: str, private: bool | None) -> bool:
        """Record an account's wish, and return whether it is hidden.

        Args:
            account: The account.
            private: Whether its file opts out now; None if the file does not say.

        Example:
            >>> out = OptedOut(None)
            >>> [out.update("ada", private) for private in (None, True, None, False, None)]
            [False, True, True, False, False]
        """
        if private is not None and private != (account in self._accounts):
            self._accounts ^= {account}
            self._write()
        return account in self._accounts

    def _write(self) -> None:
        if self._file is not None:
            with contextlib.suppress(CannotWrite):  # then it is known to this process only
                write_atomically(self._file, json.dumps(sorted(self._accounts)), mode=0o600)
