"""Updates a learner's own copy of the course without overwriting the learner's work."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from onnxlab.files import write_atomically

_STATE = Path(".onnxlab", "handed_out.json")
_UNTOUCHED = Path(".onnxlab", "untouched")  # for `onnxlab reset`, whose module is too large to import here
_LINK = re.compile(rb"\]\(\.\./(lab\d\d_\w+)/\1\.ipynb\)")


@dataclass(frozen=True)
class FolderChanges:
    """What `bring_up_to_date` has written, as paths below the learner's folder.

    Attributes:
        added: Files that were missing.
        updated: Older files that the learner had not changed.
        beside: New versions, written beside files that the learner has changed.
    """

    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return messages for the learner."""
        return [f"A new version, beside your own: {name}" for name in self.beside]


def course_files(course: Path, labs: Path | None = None) -> dict[str, bytes]:
    """Return the files that every learner gets: path below the learner's folder -> content.

    Args:
        course: The course's folder, with notebooks/ and labs/.
        labs: A folder with a class's own labs, `<lab>/<lab>.ipynb`, instead of labs/.
    """
    files = {f"notebooks/{path.name}": path.read_bytes() for path in _notebooks(course / "notebooks")}
    if labs is None:
        return files | {f"labs/{path.name}": path.read_bytes() for path in _notebooks(course / "labs")}
    for path in sorted(labs.glob("*/*.ipynb")):
        # For a learner all labs lie in one folder, as the chapters' links expect.
        files[f"labs/{path.name}"] = _LINK.sub(rb"](\1.ipynb)", path.read_bytes())
    return files


def bring_up_to_date(home: Path, files: Mapping[str, bytes]) -> FolderChanges:
    """Write missing and new files into a learner's folder; the learner's work is not overwritten.

    To be called as the learner's user, because links in the folder are followed.

    Args:
        home: The learner's folder.
        files: The files of `course_files`.

    Raises:
        CannotWrite: If a file cannot be written.
    """
    previous = _read_state(home)
    state: dict[str, str] = dict(previous)
    added: list[str] = []
    updated: list[str] = []
    beside: list[str] = []
    for name, content in files.items():
        path, digest = home / name, _digest(content)
        try:
            current: str | None = _digest(path.read_bytes())
        except FileNotFoundError:
            current = None
        except OSError:
            current = "unreadable"
        if current == digest or (current is not None and previous.get(name) == digest):
            pass  # up to date, or the learner's changes of the newest version
        elif current is None or current == previous.get(name):
            write_atomically(path, content, mode=0o600)
            (added if current is None else updated).append(name)
        else:
            new_version = _path_beside(path, digest)
            if new_version is not None:
                write_atomically(new_version, content, mode=0o600)
                beside.append(str(new_version.relative_to(home)))
        state[name] = digest
        if name.startswith("labs/"):
            _write_untouched(home / _UNTOUCHED / path.name, content)
    if state != previous:
        write_atomically(home / _STATE, json.dumps(state, indent=1), mode=0o600)
    return FolderChanges(tuple(added), tuple(updated), tuple(beside))


def _write_untouched(copy: Path, content: bytes) -> None:
    if not copy.is_file() or copy.read_bytes() != content:
        write_atomically(copy, content, mode=0o600)


def _path_beside(path: Path, digest: str) -> Path | None:
    """Return the path for a new version beside the learner's file; None if it is there already."""
    for number in range(1, 1000):
        suffix = "" if number == 1 else f"-{number}"
        candidate = path.with_name(f"{path.stem}.new-version{suffix}{path.suffix}")
        if not os.path.lexists(candidate):
            return candidate
        if candidate.is_file() and _digest(candidate.read_bytes()) == digest:
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
