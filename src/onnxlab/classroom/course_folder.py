"""The class folder: an nbgrader course directory with the labs in it, and the places beside it.

Every path is computed from the folder's own, so that a class can be moved. `class.json` says what was put
into it: a file still as it was written may be brought up to date, one that the instructor changed never is.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from onnxlab.errors import OnnxLabError

__all__ = ["CLASS_FILE", "ClassFolder", "ClassRefused", "as_json", "course_name", "digest", "open_class"]

CLASS_FILE = "class.json"
_FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class ClassRefused(OnnxLabError):
    """A folder is no class, or cannot become one."""


@dataclass(frozen=True)
class ClassFolder:
    """A class: where things are, and what it is called.

    Attributes:
        path: The folder, absolute. It is nbgrader's course directory.
        name: The course's name, nbgrader's `course_id`.
        version: The version of the package that made the class, or added to it last.
        made: When it was made: a date in ISO form.
        written: What was put into the folder: relative path (with /) and SHA-256 of the content.
    """

    path: Path
    name: str
    version: str
    made: str
    written: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def config(self) -> Path:
        """The settings for nbgrader."""
        return self.path / "nbgrader_config.py"

    @property
    def source(self) -> Path:
        """The labs with their solutions; for the instructor only."""
        return self.path / "source"

    @property
    def release(self) -> Path:
        """The labs as they are handed out."""
        return self.path / "release"

    @property
    def submitted(self) -> Path:
        """What was handed in: `<student>/<lab>/<lab>.ipynb`."""
        return self.path / "submitted"

    @property
    def autograded(self) -> Path:
        """The graded copies that formgrader shows."""
        return self.path / "autograded"

    @property
    def feedback(self) -> Path:
        """The pages for students that nbgrader makes."""
        return self.path / "feedback"

    @property
    def gradebook(self) -> Path:
        """The database of nbgrader."""
        return self.path / "gradebook.db"

    @property
    def exchange(self) -> Path:
        """The root of nbgrader's exchange: where learners fetch and submit."""
        return self.path / "exchange"

    @property
    def hub(self) -> Path:
        """What the hub keeps: cookie secret, database, logs."""
        return self.path / "hub"

    @property
    def learners(self) -> Path:
        """The learners' homes, one folder for each account."""
        return self.path / "learners"

    @property
    def labs(self) -> tuple[str, ...]:
        """The assignments that the class has, by name."""
        return tuple(sorted({each.parent.name for each in self.source.glob("*/*.ipynb")}))


def open_class(path: Path) -> ClassFolder:
    """Return the class in a folder.

    Raises:
        ClassRefused: If there is none, or its `class.json` cannot be read.
    """
    folder = path.absolute()
    try:
        found = json.loads((folder / CLASS_FILE).read_text("utf-8"))
        if found["format"] != _FORMAT:
            msg = f"{path} was made by a newer version of ONNX Lab."
            raise ClassRefused(msg, "", "Use that version.")
        texts = [found[key] for key in ("name", "version", "made")]
        written = found["written"]
        if not (all(isinstance(each, str) for each in [*texts, *written, *written.values()])):
            raise TypeError
        name, version, made = texts
    except (FileNotFoundError, NotADirectoryError):
        msg = f"{path} is not a class: it has no {CLASS_FILE}."
        raise ClassRefused(msg, "", f"Make one with: onnxlab class init {path}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        msg = f"{path / CLASS_FILE} cannot be read."
        then = f"Delete that file and run: onnxlab class init {path} (the class itself is kept)"
        raise ClassRefused(msg, "", then) from None
    return ClassFolder(folder, name, version, made, written)


def course_name(given: str | None, folder: Path) -> str:
    """Return a class's name: the one given, else the folder's where that will do.

    Raises:
        ClassRefused: If nbgrader cannot use the name given.

    Example:
        >>> course_name(None, Path("spring-2027")), course_name(None, Path("My class"))
        ('spring-2027', 'onnxlab')
    """
    if given is None:
        own = folder.absolute().name
        return own if _NAME.fullmatch(own) else "onnxlab"
    if not _NAME.fullmatch(given):
        msg = f"{given!r} cannot be the name of a course."
        raise ClassRefused(
            msg, "It becomes a folder's name.", "Use letters, digits and _ . - without spaces."
        )
    return given


def digest(data: bytes) -> str:
    """Return what a file's content is: SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def as_json(made: ClassFolder) -> str:
    """Return the content of `class.json`."""
    texts = {"format": _FORMAT, "name": made.name, "version": made.version, "made": made.made}
    return json.dumps(texts | {"written": dict(sorted(made.written.items()))}, indent=1) + "\n"
