"""Taking what a submission made out of its folder: ordinary files of a reasonable size, nothing else."""

import json
import os
import stat
from pathlib import Path
from typing import Any

from onnxlab.grading.tasks import PRODUCTION
from onnxlab.labs.work import LARGEST

__all__ = ["read_json", "take_out"]

_FILES = 24  # of one exercise
_JSON = 1 << 20  # bytes of a note


def take_out(source: Path, target: Path) -> dict[str, Any]:
    """Copy an exercise's plain files out of a student's folder; return what is said about them."""
    target.mkdir()
    try:
        descriptor = os.open(
            source, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0)
        )
        with os.scandir(source) as entries:
            names = sorted(entry.name for entry in entries)[: 10 * _FILES]
        os.close(descriptor)
    except OSError:
        return {"status": "missing"}
    kept = [name for name in names if name.endswith((".onnx", ".json", ".npy")) and name != PRODUCTION]
    for name in kept[:_FILES]:
        if (data := _plain(source / name)) is not None:
            (target / name).write_bytes(data)
    made = read_json(source / PRODUCTION)
    return made if isinstance(made, dict) else {"status": "missing"}


def _plain(path: Path) -> bytes | None:
    """The content of an ordinary file of a reasonable size; no link is followed, no pipe waited for."""
    flags = (
        os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    )
    try:
        descriptor = os.open(path, flags)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        return file.read(LARGEST) if stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST else None


def read_json(path: Path) -> Any:  # noqa: ANN401 - JSON can be anything
    """Read a file that a submission may have written; None if it is no JSON of a reasonable size."""
    data = _plain(path)
    try:
        return None if data is None or len(data) > _JSON else json.loads(data)
    except (ValueError, RecursionError):
        return None
