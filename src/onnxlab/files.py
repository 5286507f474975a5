"""Files written in one step, and files read that somebody untrusted wrote.

A learner or a submission can put a link, a pipe or a huge file where a small file is expected, also while it
is being opened. So what is untrusted is opened without following a link and without waiting, and what was
opened is looked at, not what has the name.
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from onnxlab.errors import OnnxLabError

__all__ = [
    "FOLDERS_STAY_OPEN",
    "CannotWrite",
    "FileTooLarge",
    "NotRegularFile",
    "cannot_write",
    "open_folder",
    "open_untrusted",
    "read_untrusted",
    "remove_unfinished",
    "write_atomically",
]

FOLDERS_STAY_OPEN = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
"""Whether a file can be opened from an open folder, whatever its path leads to meanwhile; not on Windows."""

_UNFINISHED = ".writing-"
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | _NOFOLLOW | getattr(os, "O_DIRECTORY", 0)
# O_NONBLOCK: opening a pipe would wait for a writer. O_BINARY: Windows would translate line ends.
_FILE = os.O_RDONLY | _NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class CannotWrite(OnnxLabError):
    """The output folder takes nothing more: the disk is full, or it is read-only."""


class NotRegularFile(OSError):
    """A link, a folder, a pipe or a device is where a file was expected."""

    def __init__(self) -> None:
        super().__init__(0, "it is not a regular file")


class FileTooLarge(OSError):
    """A file has more bytes than anything honest."""

    def __init__(self, most: int) -> None:
        super().__init__(0, f"it has more than {most:,} bytes")


def open_untrusted(path: str | Path, *, folder: int | None = None) -> BinaryIO:
    """Open a regular file for reading; no link is followed, no pipe waited for.

    Args:
        path: The file. Only its last part is guarded: `open_folder` guards those before it.
        folder: An open folder that the path starts from.

    Raises:
        NotRegularFile: If it is anything but a regular file.
        OSError: If there is none, or the system refuses.
    """
    if not stat.S_ISREG(os.stat(path, dir_fd=folder, follow_symlinks=False).st_mode):
        raise NotRegularFile  # opening a device can have effects, and Windows has no O_NOFOLLOW
    file = os.fdopen(os.open(path, _FILE, dir_fd=folder), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # exchanged meanwhile
        file.close()
        raise NotRegularFile
    return file


def read_untrusted(path: str | Path, most: int, *, folder: int | None = None) -> bytes:
    """Return what is in a regular file, as `open_untrusted` opens it.

    Args:
        path: The file.
        most: How many bytes it may have.
        folder: An open folder that the path starts from.

    Raises:
        NotRegularFile: If it is anything but a regular file.
        FileTooLarge: If it has more bytes.
        OSError: If there is none, or the system refuses.

    Example:
        >>> read_untrusted(".", 10)
        Traceback (most recent call last):
            ...
        onnxlab.files.NotRegularFile: [Errno 0] it is not a regular file
    """
    with open_untrusted(path, folder=folder) as file:
        data = file.read(most + 1)  # its size could change between asking and reading
    if len(data) > most:
        raise FileTooLarge(most)
    return data


@contextlib.contextmanager
def open_folder(path: str | Path, *below: str, folder: int | None = None) -> Iterator[int]:
    """Open a folder for a block, or one below it, none of them through a link.

    Args:
        path: A folder.
        below: The names of folders, each in the one before.
        folder: An open folder that the path starts from.

    Yields:
        The innermost folder's descriptor.

    Raises:
        OSError: If one is missing, or is a link or a file.
    """
    with contextlib.ExitStack() as stack:
        for name in (path, *below):
            folder = os.open(name, _FOLDER, dir_fd=folder)
            stack.callback(os.close, folder)
        assert folder is not None
        yield folder


def write_atomically(path: Path, data: bytes | str, *, mode: int = 0o644) -> Path:
    """Write a file beside its place and put it there in one step: it is whole or not there.

    Text that has no UTF-8 form (names of files can be such) is written with escapes.

    Args:
        path: The file; its folder is made if need be.
        data: Its content.
        mode: Its permissions; 0o600 if only its owner may read it.

    Raises:
        CannotWrite: If it cannot be written; a file that was there stays as it was.
    """
    content = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=_UNFINISHED, dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
        if isinstance(error, OSError):
            raise cannot_write(path, error) from None
        raise
    return path


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed run left half written in a folder, which nobody else may be writing to."""
    for path in folder.glob(f"{_UNFINISHED}*"):
        with contextlib.suppress(OSError):
            path.unlink()


def cannot_write(path: Path, error: OSError) -> CannotWrite:
    """Return the error that says why something is not written."""
    msg = f"{path} cannot be written: {error.strerror or error}."
    then = "Make room there or name another folder; the same command then goes on where it was."
    return CannotWrite(msg, "", then)
