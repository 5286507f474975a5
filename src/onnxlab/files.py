"""Write files atomically, and read files that somebody untrusted wrote.

A learner or a submission can put a link, a pipe or a huge file where a small file is expected, also while it
is being opened. So an untrusted file is opened without following links and without waiting, and the checks
are made on the open file, not on its name.
"""

import contextlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from onnxlab.errors import OnnxLabError

FOLDERS_STAY_OPEN = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
"""Whether files can be opened relative to an open folder, even if it is moved meanwhile; not on Windows."""

_UNFINISHED = ".writing-"
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | _NOFOLLOW | getattr(os, "O_DIRECTORY", 0)
# O_NONBLOCK: opening a pipe would wait for a writer. O_BINARY: Windows would translate line ends.
_FILE = os.O_RDONLY | _NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class CannotWrite(OnnxLabError):
    """A file cannot be written: the disk is full, the folder read-only, or the like."""


class NotRegularFile(OSError):
    """A link, a folder, a pipe or a device is where a file was expected."""

    def __init__(self) -> None:
        super().__init__(0, "it is not a regular file")


class FileTooLarge(OSError):
    """A file has more bytes than its reader accepts."""

    def __init__(self, most: int) -> None:
        super().__init__(0, f"it has more than {most:,} bytes")


def open_untrusted(path: str | Path, *, folder: int | None = None) -> BinaryIO:
    """Open a regular file for reading, without following a link or waiting for a pipe.

    Args:
        path: The file. Links are refused in its last part only; `open_folder` refuses them in those before.
        folder: An open folder that the path starts from.

    Raises:
        NotRegularFile: If it is not a regular file.
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
    """Return the content of a regular file, opened by `open_untrusted`.

    Raises:
        NotRegularFile: If it is not a regular file.
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
    """Open a folder, or one below it, for a block, without following links; give its descriptor.

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
    """Write a temporary file and rename it: the file is complete, or as it was before.

    Its folder is made if necessary. Characters that have no UTF-8 form, as in some names of files, become
    escapes. With the mode 0o600 only its owner may read it.

    Raises:
        CannotWrite: If it cannot be written; an earlier file stays as it was.
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
    """Remove the temporary files of killed runs from a folder; no other process may be writing to it."""
    for path in folder.glob(f"{_UNFINISHED}*"):
        with contextlib.suppress(OSError):
            path.unlink()


def remove_untrusted(folder: Path) -> None:
    """Remove a folder with all that is in it: unreadable, deeper than any path is long, linked elsewhere.

    Nobody may be writing in it any more. Nothing outside is touched.

    Raises:
        OSError: If something is left.
    """
    if os.name == "nt" or not folder.is_dir() or folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
        return
    folder.chmod(0o700)
    with open_folder(folder) as top:
        _empty(top)
    folder.rmdir()


def _empty(top: int) -> None:
    """Remove everything in an open folder: what is in its folders is moved up, so that nothing is deep."""
    while names := os.listdir(top):
        for name in names:
            if not stat.S_ISDIR(os.lstat(name, dir_fd=top).st_mode):
                os.unlink(name, dir_fd=top)
                continue
            os.chmod(name, 0o700, dir_fd=top)
            with open_folder(name, folder=top) as inner:
                for below in os.listdir(inner):  # noqa: PTH208 - of a descriptor
                    _move_up(below, inner, top)
            os.rmdir(name, dir_fd=top)


def _move_up(name: str, inner: int, top: int) -> None:
    if stat.S_ISDIR(os.lstat(name, dir_fd=inner).st_mode):
        os.chmod(name, 0o700, dir_fd=inner)
    else:
        os.unlink(name, dir_fd=inner)
        return
    # A name that nobody can guess: whoever made these folders cannot have taken it.
    os.rename(name, f".{secrets.token_hex(16)}", src_dir_fd=inner, dst_dir_fd=top)


def cannot_write(path: Path, error: OSError) -> CannotWrite:
    """Return the error that says why a file cannot be written."""
    msg = "{path} cannot be written: {reason}."
    then = "Make room there or name another folder; the same command then goes on where it was."
    return CannotWrite(msg, "", then, path=path, reason=error.strerror or error)
