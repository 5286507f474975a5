"""The class folder: an nbgrader course directory with the labs, the accounts and the homes of a class.

Every path is relative to the folder, so that a class can be moved. `class.json` records the digest of each
file that was written: a file that still has it is updated, one that the instructor changed never is.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import nbformat

import onnxlab
from onnxlab.course.lab_release import course_root, stamp
from onnxlab.course.notebooks import read
from onnxlab.errors import OnnxLabError
from onnxlab.files import write_atomically
from onnxlab.kit.exercise import LABS
from onnxlab_class.classroom.course.nbgrader import (
    SETTINGS,
    Course,
    CourseUnusable,
    course_at,
    require_nbgrader,
)

CLASS_FILE = "class.json"
RECORDS = "records"
"""The folder of a grading run's results that signed records are in."""

_FORMAT = 1
_PRIVATE = ("source", "release", "submitted", "autograded", "feedback", "hub", "learners")
_LINK = re.compile(r"\]\((lab\d\d_\w+)\.ipynb\)")
_CONFIG = '''"""nbgrader's settings for this class. Yours to change: `onnxlab class init` keeps them."""

from pathlib import Path

here = Path(__file__).resolve().parent  # so that the class can be moved

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "{name}"
c.CourseDirectory.root = str(here)
c.Exchange.root = str(here / "exchange")
c.Execute.timeout = 300  # seconds for a cell, if nbgrader itself runs the labs
'''
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class ClassRefused(OnnxLabError):
    """A folder is no class, or cannot become one."""


@dataclass(frozen=True)
class ClassFolder:
    """A class: its name, and the paths of its parts.

    Attributes:
        path: The folder, absolute. It is nbgrader's course directory.
        name: The course's name, nbgrader's `course_id`.
        version: The version of the package that made the class, or updated it last.
        created: The date on which it was made, in ISO form.
        written: The files that were written: relative path (with /) -> SHA-256 of the content.
    """

    path: Path
    name: str
    version: str
    created: str
    written: Mapping[str, str] = field(default_factory=dict, repr=False)

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
        """The submissions: `<student>/<lab>/<lab>.ipynb`."""
        return self.path / "submitted"

    @property
    def gradebook(self) -> Path:
        """The database of nbgrader."""
        return self.path / "gradebook.db"

    @property
    def hub(self) -> Path:
        """The hub's own files: accounts, passwords, cookie secret, database, logs."""
        return self.path / "hub"

    @property
    def learners(self) -> Path:
        """The learners' homes, one folder for each account."""
        return self.path / "learners"


def open_class(path: Path) -> ClassFolder:
    """Return the class in a folder.

    Raises:
        ClassRefused: If there is none, or its `class.json` cannot be read.
    """
    folder = path.absolute()
    try:
        content = json.loads((folder / CLASS_FILE).read_text("utf-8"))
        if content["format"] != _FORMAT:
            raise ClassRefused(f"{path} was made by a newer version of ONNX Lab.", "", "Use that version.")
        texts = [content[key] for key in ("name", "version", "made")]
        written = content["written"]
        if not (all(isinstance(text, str) for text in [*texts, *written, *written.values()])):
            raise TypeError
        name, version, created = texts
    except (FileNotFoundError, NotADirectoryError):
        raise ClassRefused(
            f"{path} is not a class: it has no {CLASS_FILE}.", "", f"Make one with: onnxlab class init {path}"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        msg = f"{path / CLASS_FILE} cannot be read."
        then = f"Delete that file and run: onnxlab class init {path} (the class itself is kept)"
        raise ClassRefused(msg, "", then) from None
    return ClassFolder(folder, name, version, created, written)


def course_name(name: str | None, folder: Path) -> str:
    """Return a class's name: the requested one, else the folder's if nbgrader can use it.

    Raises:
        ClassRefused: If nbgrader cannot use the requested name.

    Example:
        >>> course_name(None, Path("spring-2027")), course_name(None, Path("My class"))
        ('spring-2027', 'onnxlab')
    """
    if name is None:
        folder_name = folder.absolute().name
        return folder_name if _NAME.fullmatch(folder_name) else "onnxlab"
    if not _NAME.fullmatch(name):
        raise ClassRefused(
            f"{name!r} cannot be the name of a course.",
            "It becomes a folder's name.",
            "Use letters, digits and _ . - without spaces.",
        )
    return name


def digest(data: bytes) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class ClassChanges:
    """The outcome of `make_class`.

    Attributes:
        folder: The class.
        new: Whether it was made just now.
        added: Files that were missing.
        updated: Files of an older version that the instructor had not changed.
        modified: Files that the instructor changed; they are left alone.
        problems: Why nbgrader could not generate assignments, a message each.
    """

    folder: ClassFolder
    new: bool
    added: tuple[str, ...]
    updated: tuple[str, ...]
    modified: tuple[str, ...]
    problems: tuple[str, ...]


def make_class(path: Path, name: str | None = None, *, start: Path | None = None) -> ClassChanges:
    """Make a class in a folder, or update the class that is there.

    Submissions, the gradebook's marks and all files that the instructor changed are left alone.

    Args:
        path: The folder: a new or empty one, a class, or an nbgrader course.
        name: The course's name; None for its present name, else the folder's.
        start: Where the search for solutions/ begins; None for the working directory.

    Raises:
        ClassRefused: If the folder is something else, or the course's solutions are missing.
        ClassroomMissing: If nbgrader is not installed.
        CourseUnusable: If nbgrader does not take the folder's settings.
        CannotWrite: If a file cannot be written.
    """
    require_nbgrader()
    solutions = solutions_folder(start or Path.cwd())
    previous = _previous(path, name)
    folder = replace(previous, version=version("onnxlab"))
    _make_folders(folder)
    contents = {SETTINGS: _CONFIG.format(name=folder.name).encode()}
    contents |= {f"source/{lab}/{lab}.ipynb": _source(solutions, lab) for lab in LABS}
    added: list[str] = []
    updated: list[str] = []
    modified: list[str] = []
    written = dict(previous.written)
    for relative, data in contents.items():
        file = folder.path / relative
        current = digest(file.read_bytes()) if file.exists() else None
        if current not in (None, digest(data), previous.written.get(relative)):
            modified.append(relative)
            continue
        written[relative] = digest(data)
        if current != digest(data):
            write_atomically(file, data)
            (added if current is None else updated).append(relative)
    folder = replace(folder, written=written)
    course = course_at(folder.path)
    problems = _hand_out(course, {Path(name).stem for name in [*added, *updated]})
    if course.name != folder.name:
        line = f'c.CourseDirectory.course_id = "{folder.name}"'
        problems.append(f"{SETTINGS} names the course {course.name!r}: write {line} into it.")
    if folder.gradebook.exists():
        folder.gradebook.chmod(0o600)
    texts = {"format": _FORMAT, "name": folder.name, "version": folder.version, "made": folder.created}
    content = texts | {"written": dict(sorted(written.items()))}
    write_atomically(folder.path / CLASS_FILE, json.dumps(content, indent=1) + "\n")
    new = not previous.version
    return ClassChanges(folder, new, tuple(added), tuple(updated), tuple(modified), tuple(problems))


def solutions_folder(start: Path) -> Path:
    """Return the course's solutions/: of the clone around a folder, else of the package's own clone.

    Raises:
        ClassRefused: If there is none: an installed package does not carry the solutions.
    """
    roots = [course_root(start.absolute()), Path(onnxlab.__file__).resolve().parents[2]]
    for root in filter(None, roots):
        if any((root / "solutions").glob("lab*.ipynb")):
            return root / "solutions"
    raise ClassRefused(
        f"The labs' solutions are neither above {start} nor beside the installed package.",
        "A class is made from solutions/.",
        "Run this in the course's folder, as git gives it.",
    )


def _previous(path: Path, name: str | None) -> ClassFolder:
    """Return the class as it is now; if there is none, a new one with the version ""."""
    folder = path.absolute()
    if (folder / CLASS_FILE).exists():
        existing = open_class(folder)
        if name not in (None, existing.name):
            raise ClassRefused(
                f"{path} is the class {existing.name!r}, not {name!r}.",
                "Submissions are filed under its name.",
                "Leave --name out.",
            )
        return existing
    today = datetime.now(UTC).date().isoformat()
    if folder.exists() and not folder.is_dir():
        raise ClassRefused(f"{path} is not a folder.", "", "Give another place.")
    if (folder / SETTINGS).exists():
        course_id = course_at(folder).name
        if course_id and name not in (None, course_id):
            raise ClassRefused(
                f"{path} is the course {course_id!r}, not {name!r}.",
                f"{SETTINGS} says so.",
                "Leave --name out.",
            )
        return ClassFolder(folder, course_id or course_name(name, folder), "", today)
    if folder.exists() and any(folder.iterdir()):
        raise ClassRefused(
            f"{path} is not empty, and is neither a class nor an nbgrader course.",
            "",
            "Give a folder that is empty or not there yet.",
        )
    return ClassFolder(folder, course_name(name, folder), "", today)


def _make_folders(folder: ClassFolder) -> None:
    # Other accounts of the machine may enter the exchange and no other folder.
    folder.path.mkdir(parents=True, exist_ok=True)
    for name in _PRIVATE:
        (folder.path / name).mkdir(mode=0o700, exist_ok=True)
    exchange = folder.path / "exchange"
    if not exchange.exists():
        exchange.mkdir()
        exchange.chmod(0o777)  # nbgrader insists: every account of the machine may submit


def _source(solutions: Path, name: str) -> bytes:
    """Return a solution with nbgrader's metadata, and with links from one assignment's folder to the next."""
    file = solutions / f"{name}.ipynb"
    if not file.exists():
        raise ClassRefused(f"{file.name} is not in {solutions}.", "", "Take it from git again.")
    notebook = stamp(read(file), name)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = _LINK.sub(r"](../\1/\1.ipynb)", cell["source"])
    text: str = nbformat.writes(notebook, version=4)
    return (text.rstrip("\n") + "\n").encode()


def _hand_out(course: Course, changed: set[str]) -> list[str]:
    """Generate the assignments that are new, and those whose source changed."""
    with course.gradebook() as book:
        assignments = {assignment.name for assignment in book.assignments}
    problems = []
    for name in LABS:
        released = course.folder("release", ".", name) / f"{name}.ipynb"
        if name in changed or name not in assignments or not released.exists():
            try:
                course.generate(name)
            except CourseUnusable as error:
                problems.append(str(error))
    return problems
