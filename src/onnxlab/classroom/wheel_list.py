"""What a wheelhouse says about itself: a list for the next run, and a note for whoever installs from it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnxlab.classroom.wheel_targets import Target

__all__ = ["WHEELS", "read_list", "write_list", "write_note"]

WHEELS = "wheelhouse"
"""The folder beside course.py in which the starter looks for wheels."""

_LIST = "wheelhouse.json"
_NOTE = "INSTALL-OFFLINE.txt"


def read_list(folder: Path) -> dict[str, Any] | None:
    """Return the list of a folder; None if it has none that can be read."""
    try:
        found: dict[str, Any] = json.loads((folder / WHEELS / _LIST).read_text("utf-8"))
        return found if found["format"] == 1 else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_list(
    folder: Path,
    course: Sequence[str],
    wheels: dict[str, list[Any]],
    targets: Sequence[Target],
    files: Sequence[str],
) -> None:
    """Write the list in one step.

    Args:
        folder: The folder.
        course: The course's own files that were put there.
        wheels: Each wheel with its size in bytes and its SHA-256.
        targets: The machines.
        files: The requirements files.
    """
    content = {
        "format": 1,
        "targets": [[each.system, each.python] for each in targets],
        "files": list(files),
        "wheels": wheels,
        "course": list(course),
    }
    new = folder / WHEELS / f"{_LIST}.new"
    new.write_text(json.dumps(content, indent=1), "utf-8")
    new.replace(folder / WHEELS / _LIST)


def write_note(folder: Path, targets: Sequence[Target]) -> None:
    """Write what to do on a laptop."""
    machines = "\n".join(f"  - {target}" for target in targets)
    text = (
        "ONNX Lab, to be installed without the network\n\n"
        "1. Copy this whole folder to the laptop, to a place where you may write.\n"
        "2. A Python has to be on it already. The wheels are for:\n"
        f"{machines}\n"
        "3. In the folder:   python3 course.py      (on Windows: py course.py)\n\n"
        "It makes .venv, installs from the folder wheelhouse and opens JupyterLab; 2 GB of disk are needed.\n"
        "The folder wheelhouse may be deleted afterwards. With an environment of your own:\n"
        "    pip install --no-index --find-links wheelhouse -r requirements.txt\n"
    )
    (folder / _NOTE).write_text(text, "utf-8")
