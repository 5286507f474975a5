"""A folder that a submission wrote in: how much it holds, and removing it whatever is in it."""

import errno
import os
import shutil
import stat
from pathlib import Path

from onnxlab.files import open_folder

__all__ = ["disk", "remove"]

_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)
_LEAST = 4096  # bytes that a file counts as, however small
TOO_MUCH = 2**62
"""What a folder counts as that cannot be looked into: nothing honest makes one."""


def disk(folder: Path, enough: int) -> int:
    """Return the bytes that everything in a folder takes; once it is more than enough, counting ends."""
    total = 0
    todo = [os.fsencode(folder)]
    while todo and total <= enough:
        try:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    total += max(_LEAST, getattr(found, "st_blocks", 0) * 512)
                    if stat.S_ISDIR(found.st_mode):
                        todo.append(entry.path)
                    if total > enough:
                        break
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:  # not allowed, or a path that is too long
            return TOO_MUCH
    return total


def remove(folder: Path) -> None:
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
    number = 0
    while names := os.listdir(top):
        for name in names:
            if not stat.S_ISDIR(os.lstat(name, dir_fd=top).st_mode):
                os.unlink(name, dir_fd=top)
                continue
            os.chmod(name, 0o700, dir_fd=top)
            with open_folder(name, folder=top) as inner:
                for below in os.listdir(inner):  # noqa: PTH208 - of a descriptor
                    number += 1
                    _move_up(below, inner, f".{number}.removed", top)
            os.rmdir(name, dir_fd=top)


def _move_up(name: str, inner: int, new: str, top: int) -> None:
    if stat.S_ISDIR(os.lstat(name, dir_fd=inner).st_mode):
        os.chmod(name, 0o700, dir_fd=inner)
    else:
        os.unlink(name, dir_fd=inner)
        return
    while True:
        try:
            os.rename(name, new, src_dir_fd=inner, dst_dir_fd=top)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            new += "x"
        else:
            return
