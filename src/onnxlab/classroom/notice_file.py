"""The word that the hub's watcher leaves for a learner's server: why a kernel was ended."""

import os
import time
from pathlib import Path

__all__ = ["VARIABLE", "fresh_notice", "leave_notice"]

VARIABLE = "ONNXLAB_NOTICE"
"""Names the file; a learner's server can only read it."""

_FRESH = 20.0  # seconds; that a kernel is dead is noticed within three


def leave_notice(path: Path, text: str) -> None:
    """Say why something of a learner's was ended. Into the same file: a cage names files, not names."""
    with path.open("w", encoding="utf-8") as file:
        file.write(text)


def fresh_notice() -> str:
    """Return what was said in the last seconds to the server that this process is; "" if nothing was."""
    path = Path(os.environ.get(VARIABLE, ""))
    try:
        if time.time() - path.stat().st_mtime < _FRESH:
            return path.read_text("utf-8").strip()
    except OSError:
        pass
    return ""
