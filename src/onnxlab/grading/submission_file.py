"""The bytes of a submission: an ordinary file of a reasonable size, or a reason why not."""

import hashlib
import os
import stat
from pathlib import Path

from onnxlab.grading.submission_cells import NotebookUnreadable

__all__ = ["LARGEST", "TOO_LARGE", "CannotRead", "digest", "read"]

LARGEST = 8 * 2**20
"""Bytes that a notebook may have."""
TOO_LARGE = f"It has more than {LARGEST // 2**20} MB; outputs can be cleared."


class CannotRead(NotebookUnreadable):
    """The system does not give a submission's bytes (rights, a disk): not the student's fault."""


def read(path: Path) -> bytes:
    """Read a submission; no link is followed, no pipe waited for.

    Raises:
        NotebookUnreadable: If it is not an ordinary file of a reasonable size.
        CannotRead: If the system refuses.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    flags |= getattr(os, "O_BINARY", 0)  # Windows would translate line ends
    try:
        ordinary = stat.S_ISREG(path.lstat().st_mode)
        if ordinary:
            with os.fdopen(os.open(path, flags), "rb") as file:
                ordinary = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                data = file.read(LARGEST + 1) if ordinary else b""
    except OSError as error:
        msg = f"The file cannot be read: {error.strerror or error}."
        raise CannotRead(msg) from None
    if not ordinary:
        msg = "It is not an ordinary file."
        raise NotebookUnreadable(msg)
    if len(data) > LARGEST:
        raise NotebookUnreadable(TOO_LARGE)
    return data


def digest(path: Path) -> str:
    """Return what a submission's content is, as in `intake.Submission`."""
    try:
        data = read(path)
    except NotebookUnreadable as error:
        data = f"unreadable {error}".encode()
    return hashlib.sha256(data).hexdigest()
