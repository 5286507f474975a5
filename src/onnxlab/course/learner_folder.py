"""A learner's own copy of the course: as before the first run, and updated without overwriting any work.

`course.py` waits for this module at every start, and a class's server for each learner: it imports little.
"""

import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from onnxlab.course.fresh import fresh
from onnxlab.files import write_atomically
from onnxlab.message import Message

HANDED_OUT = Path(".onnxlab", "handed_out.json")
"""The digest of each file as it was handed out, by its path below the learner's folder."""

_UNTOUCHED = Path(".onnxlab", "untouched")  # for `onnxlab reset`, whose module is too large to import here
_LINKED = ("course", "coverage", "gpu", "targets", "versions", "weights")
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
        return [Message("A new version is beside your own: {name}.", name=name) for name in self.beside]


def course_files(course: Path, labs: Path | None = None) -> dict[str, bytes]:
    """Return the files that every learner gets: path below the learner's folder -> content.

    The chapters have no outputs: an answer would stand below its question before anything was run.

    Args:
        course: The course's folder, with notebooks/, labs/ and docs/.
        labs: A folder with a class's own labs, `<lab>/<lab>.ipynb`, instead of labs/.
    """
    sources = [*_notebooks(course / "notebooks"), *(_notebooks(course / "labs") if labs is None else ())]
    # What they link to: the other editions, and documents with their images.
    sources += [path for kind in ("notebooks", "labs") for path in sorted((course / kind).glob("*/*.ipynb"))]
    sources += [path for name in _LINKED for path in sorted((course / "docs").glob(f"{name}*.md"))]
    sources += sorted((course / "docs" / "images").glob("**/lab_check.png"))
    files = {path.relative_to(course).as_posix(): fresh(path.read_bytes()) for path in sources}
    for path in sorted(labs.glob("*/*.ipynb")) if labs else ():
        # For a learner all labs lie in one folder, as the chapters' links expect.
        files[f"labs/{path.name}"] = _LINK.sub(rb"](\1.ipynb)", path.read_bytes())
    return files


def bring_up_to_date(home: Path, files: Mapping[str, bytes]) -> FolderChanges:
    """Write missing and new files into a learner's folder; the learner's work is not overwritten.

    A notebook whose texts are those that were handed out has not been changed, even if it was run. To be
    called as the learner's user, because links in the folder are followed.

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
            data = path.read_bytes()
            # Earlier versions kept the digest of the file as it is, with its outputs.
            current: set[str] | None = {_digest(data), hashlib.sha256(data).hexdigest()}
        except (FileNotFoundError, NotADirectoryError):
            current = None
        except OSError:
            current = set()  # cannot be read: whatever it is, it stays
        if current is not None and (digest in current or previous.get(name) == digest):
            pass  # up to date, or the learner's changes of the newest version
        elif current is None or previous.get(name) in current:
            write_atomically(path, content, mode=0o600)
            (added if current is None else updated).append(name)
        else:
            new_version = _path_beside(path, digest)
            if new_version is not None:
                write_atomically(new_version, content, mode=0o600)
                beside.append(new_version.relative_to(home).as_posix())
        state[name] = digest
        if path.parent == home / "labs":  # other editions are made from these
            _write_untouched(home / _UNTOUCHED / path.name, content)
    if state != previous:
        write_atomically(home / HANDED_OUT, json.dumps(state, indent=1), mode=0o600)
    return FolderChanges(tuple(added), tuple(updated), tuple(beside))


def _write_untouched(copy: Path, content: bytes) -> None:
    if not copy.is_file() or copy.read_bytes() != content:
        write_atomically(copy, content, mode=0o600)


def names_beside(path: Path, what: str) -> Iterator[Path]:
    """Yield names for another version of a notebook: they sort beside it, and begin with what they are.

    JupyterLab's tabs and file list cut a name at its end.

    >>> [name.name for name in itertools.islice(names_beside(Path("lab05_bitshift.ipynb"), "new"), 2)]
    ['lab05-new_bitshift.ipynb', 'lab05-new-2_bitshift.ipynb']
    """
    number, rest = re.findall(r"(lab\d\d|\d\d[a-z]?|)(.*)", path.name)[0]
    for count in itertools.count(1):
        suffix = what if count == 1 else f"{what}-{count}"
        yield path.with_name(f"{number}-{suffix}{rest}" if number else f"{suffix}-{rest}")


def _path_beside(path: Path, digest: str) -> Path | None:
    """Return the path for a new version beside the learner's file; None if it is there already."""
    for candidate in itertools.islice(names_beside(path, "new"), 1000):
        if not os.path.lexists(candidate):
            return candidate
        if candidate.is_file() and _digest(candidate.read_bytes()) == digest:
            return None
    return None


def _read_state(home: Path) -> dict[str, str]:
    try:
        state = json.loads((home / HANDED_OUT).read_text("utf-8"))
        return {str(name): str(digest) for name, digest in state.items()}
    except (OSError, ValueError, AttributeError):
        return {}  # then every file that differs counts as the learner's


def _notebooks(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.ipynb") if not path.name.startswith("."))


def _digest(content: bytes) -> str:
    """Return the digest of what a learner can change: for a notebook its texts, not its outputs."""
    return hashlib.sha256(fresh(content)).hexdigest()
