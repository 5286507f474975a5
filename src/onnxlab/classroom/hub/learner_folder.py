"""A learner's own copy of the course: made, and changes up to date around what the learner changed."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from onnxlab.files import write_atomically

__all__ = ["FolderChanges", "bring_up_to_date", "handed_out"]

_STATE = Path(".onnxlab", "handed_out.json")
_UNTOUCHED = Path(".onnxlab", "untouched")  # `onnxlab reset` looks there; its module is too large for here
_LINK = re.compile(rb"\]\(\.\./(lab\d\d_\w+)/\1\.ipynb\)")


@dataclass(frozen=True)
class FolderChanges:
    """What was done in a learner's folder, as paths below it.

    Attributes:
        added: Files that were not there.
        updated: Files that the learner had not touched, and that are new now.
        beside: New versions that were put beside files in which the learner worked.
    """

    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return what a learner should know."""
        return [f"A new version, beside your own: {name}" for name in self.beside]


def handed_out(course: Path, labs: Path | None = None) -> dict[str, bytes]:
    """Return what a learner gets: for each path in the folder, the content.

    Args:
        course: The course's folder, with notebooks/ and labs/.
        labs: Where a class's own labs are, `<lab>/<lab>.ipynb`, to hand out instead of labs/.
    """
    files = {f"notebooks/{path.name}": path.read_bytes() for path in _notebooks(course / "notebooks")}
    if labs is None:
        return files | {f"labs/{path.name}": path.read_bytes() for path in _notebooks(course / "labs")}
    for path in sorted(labs.glob("*/*.ipynb")):
        # Here all labs lie in one folder, as the chapters' links say.
        files[f"labs/{path.name}"] = _LINK.sub(rb"](\1.ipynb)", path.read_bytes())
    return files


def bring_up_to_date(home: Path, files: Mapping[str, bytes]) -> FolderChanges:
    """Write what is missing or new into a learner's folder; nothing of theirs is overwritten.

    To be called as the learner: what lies in the folder is theirs, and may lead anywhere.

    Args:
        home: The folder.
        files: What is handed out; of `handed_out`.

    Raises:
        CannotWrite: If a file cannot be written.
    """
    before = _read_state(home)
    now: dict[str, str] = dict(before)
    added: list[str] = []
    updated: list[str] = []
    beside: list[str] = []
    for name, content in files.items():
        path, new = home / name, _digest(content)
        try:
            there: str | None = _digest(path.read_bytes())
        except FileNotFoundError:
            there = None
        except OSError:
            there = "unreadable"
        if there == new or (there is not None and before.get(name) == new):
            pass  # up to date, or the learner's work on what is still the newest
        elif there is None or there == before.get(name):
            write_atomically(path, content, mode=0o600)
            (added if there is None else updated).append(name)
        else:
            twin = _beside(path, new)
            if twin is not None:
                write_atomically(twin, content, mode=0o600)
                beside.append(str(twin.relative_to(home)))
        now[name] = new
        if name.startswith("labs/"):
            _keep_untouched(home / _UNTOUCHED / path.name, content)
    if now != before:
        write_atomically(home / _STATE, json.dumps(now, indent=1), mode=0o600)
    return FolderChanges(tuple(added), tuple(updated), tuple(beside))


def _keep_untouched(copy: Path, content: bytes) -> None:
    if not copy.is_file() or copy.read_bytes() != content:
        write_atomically(copy, content, mode=0o600)


def _beside(path: Path, new: str) -> Path | None:
    """Return where a new version goes; None if it lies beside the learner's already."""
    for number in range(1, 1000):
        suffix = "" if number == 1 else f"-{number}"
        twin = path.with_name(f"{path.stem}.new-version{suffix}{path.suffix}")
        if not os.path.lexists(twin):
            return twin
        if twin.is_file() and _digest(twin.read_bytes()) == new:
            return None
    return None


def _read_state(home: Path) -> dict[str, str]:
    try:
        state = json.loads((home / _STATE).read_text("utf-8"))
        return {str(name): str(digest) for name, digest in state.items()}
    except (OSError, ValueError, AttributeError):
        return {}  # then every file that differs counts as the learner's


def _notebooks(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.ipynb") if not path.name.startswith("."))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
