"""A file that only grows, piece by piece: a piece is on disk as a whole, or the file is as it was before."""

import contextlib
import os
from pathlib import Path

from onnxlab.grading.whole_files import cannot_write

__all__ = ["AppendOnlyFile"]


class AppendOnlyFile:
    """Such a file, open to be written. It is not for two threads at a time.

    Args:
        path: The file, which is there.
        size: Up to where it is whole. What comes after, of a run that was cut off, is removed.

    Attributes:
        size: Up to where it is whole now.
        torn: How many bytes were removed.

    Raises:
        CannotWrite: If it cannot be opened, or not be cut.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.size = size
        self._path = path
        self._file: int | None = None
        try:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0))
            self.torn = max(0, os.fstat(self._file).st_size - size)
            if self.torn:
                os.ftruncate(self._file, size)
        except OSError as error:
            self.close()
            raise cannot_write(path, error) from None

    def append(self, data: bytes) -> int:
        """Add a piece and return where it begins. When this returns, it is on disk.

        Raises:
            CannotWrite: If there is no room; the file is then as it was before.
        """
        if self._file is None:
            msg = f"{self._path} is closed."
            raise ValueError(msg)
        try:
            if os.fstat(self._file).st_size != self.size:  # an earlier failure left something
                os.ftruncate(self._file, self.size)
            if os.write(self._file, data) != len(data):
                msg = "no room for a whole row"
                raise OSError(msg)
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self.size)
            raise cannot_write(self._path, error) from None
        start, self.size = self.size, self.size + len(data)
        return start

    def close(self) -> None:
        """Close it; nothing if it is closed."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
