"""Files that are whole or not there, whatever happens while they are written."""

import contextlib
import os
import tempfile
from pathlib import Path

from onnxlab.errors import OnnxLabError

__all__ = ["CannotWrite", "remove_torn", "write_whole"]

_TORN = ".writing-"


class CannotWrite(OnnxLabError):
    """The output folder takes nothing more: the disk is full, or it is read-only."""


def write_whole(path: Path, data: bytes | str, *, private: bool = False) -> Path:
    """Write a file beside its place and put it there in one step.

    Text that has no UTF-8 form (names of files can be such) is written with escapes.

    Args:
        path: The file; its folder is made if need be.
        data: Its content.
        private: Whether only its owner may read it.

    Raises:
        CannotWrite: If it cannot be written; a file that was there stays as it was.
    """
    content = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=_TORN, dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if not private:
            Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
        raise cannot_write(path, error) from None
    return path


def remove_torn(folder: Path) -> None:
    """Remove what a killed run left half written in a folder, which nobody else may be writing to."""
    for path in folder.glob(f"{_TORN}*"):
        with contextlib.suppress(OSError):
            path.unlink()


def cannot_write(path: Path, error: OSError) -> CannotWrite:
    """Return the error that says why something is not written."""
    msg = f"{path} cannot be written: {error.strerror or error}."
    return CannotWrite(
        msg, "", "Make room or give another --out; the same command then goes on where it was."
    )
