"""The class folder: an nbgrader course directory with the labs in it, and the places beside it.

Every path is computed from the folder's own, so that a class can be moved. `class.json` says what was put
into it: a file still as it was written may be brought up to date, one that the instructor changed never is.
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
from onnxlab.authoring.lab_release import course_root, stamp
from onnxlab.authoring.notebooks import read
from onnxlab.classroom.course.nbgrader import SETTINGS, Course, CourseUnusable, course_at, require_nbgrader
from onnxlab.errors import OnnxLabError
from onnxlab.files import write_atomically
from onnxlab.labs.kit.exercise import LABS

__all__ = [
    "CLASS_FILE",
    "ClassChanges",
    "ClassFolder",
    "ClassRefused",
    "as_json",
    "course_name",
    "digest",
    "make_class",
    "open_class",
    "solutions_folder",
]

CLASS_FILE = "class.json"
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
    def gradebook(self) -> Path:
        """The database of nbgrader."""
        return self.path / "gradebook.db"

    @property
    def hub(self) -> Path:
        """What the hub keeps: cookie secret, database, logs."""
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


@dataclass(frozen=True)
class ClassChanges:
    """What `make_class` did.

    Attributes:
        folder: The class.
        new: Whether it was not there before.
        added: Files that were not there before.
        updated: Files that were as an older version had written them, and are up to date now.
        kept: Files that the instructor changed, and that are not what this version would write.
        problems: What nbgrader could not hand out, with its reason.
    """

    folder: ClassFolder
    new: bool
    added: tuple[str, ...]
    updated: tuple[str, ...]
    kept: tuple[str, ...]
    problems: tuple[str, ...]


def make_class(path: Path, name: str | None = None, *, start: Path | None = None) -> ClassChanges:
    """Make a class in a folder, or add to the one there is.

    Submissions, the gradebook's marks and whatever the instructor changed are left as they are.

    Args:
        path: The folder: not there, empty, a class, or somebody's nbgrader course.
        name: The course's name; None for the one it has, else the folder's.
        start: Where the search for solutions/ begins; None for the working directory.

    Raises:
        ClassRefused: If the folder is something else, or there are no solutions to make it from.
        ClassroomMissing: If nbgrader is not installed.
        CourseUnusable: If nbgrader does not take the folder's settings.
        CannotWrite: If a file cannot be written.
    """
    require_nbgrader()
    solutions = solutions_folder(start or Path.cwd())
    before = _before(path, name)
    folder = replace(before, version=version("onnxlab"))
    _make_folders(folder)
    wanted = {SETTINGS: _CONFIG.format(name=folder.name).encode()}
    wanted |= {f"source/{each}/{each}.ipynb": _source(solutions, each) for each in LABS}
    added: list[str] = []
    updated: list[str] = []
    kept: list[str] = []
    written = dict(before.written)
    for relative, data in wanted.items():
        file = folder.path / relative
        found = digest(file.read_bytes()) if file.exists() else None
        if found not in (None, digest(data), before.written.get(relative)):
            kept.append(relative)
            continue
        written[relative] = digest(data)
        if found != digest(data):
            write_atomically(file, data)
            (added if found is None else updated).append(relative)
    folder = replace(folder, written=written)
    course = course_at(folder.path)
    problems = _hand_out(course, {Path(each).stem for each in [*added, *updated]})
    if course.name != folder.name:
        line = f'c.CourseDirectory.course_id = "{folder.name}"'
        problems.append(f"{SETTINGS} names the course {course.name!r}: write {line} into it.")
    if folder.gradebook.exists():
        folder.gradebook.chmod(0o600)
    write_atomically(folder.path / CLASS_FILE, as_json(folder))
    new = not before.version
    return ClassChanges(folder, new, tuple(added), tuple(updated), tuple(kept), tuple(problems))


def solutions_folder(start: Path) -> Path:
    """Return the course's solutions/: of the checkout around a folder, else of the one the package runs from.

    Raises:
        ClassRefused: If there is none: an installed package does not carry the solutions.
    """
    roots = [course_root(start.absolute()), Path(onnxlab.__file__).resolve().parents[2]]
    for root in roots:
        if any((root / "solutions").glob("lab*.ipynb")):
            return root / "solutions"
    msg = f"The labs' solutions are neither above {start} nor beside the installed package."
    raise ClassRefused(
        msg, "A class is made from solutions/.", "Run this in the course's folder, as git gives it."
    )


def _before(path: Path, name: str | None) -> ClassFolder:
    """The class as it stands; with version "" if there is none."""
    folder = path.absolute()
    if (folder / CLASS_FILE).exists():
        found = open_class(folder)
        if name not in (None, found.name):
            msg = f"{path} is the class {found.name!r}, not {name!r}."
            raise ClassRefused(msg, "Submissions are filed under its name.", "Leave --name out.")
        return found
    made = datetime.now(UTC).date().isoformat()
    if folder.exists() and not folder.is_dir():
        msg = f"{path} is not a folder."
        raise ClassRefused(msg, "", "Give another place.")
    if (folder / SETTINGS).exists():
        own = course_at(folder).name
        if own and name not in (None, own):
            msg = f"{path} is the course {own!r}, not {name!r}."
            raise ClassRefused(msg, f"{SETTINGS} says so.", "Leave --name out.")
        return ClassFolder(folder, own or course_name(name, folder), "", made)
    if folder.exists() and any(folder.iterdir()):
        msg = f"{path} is not empty, and is neither a class nor an nbgrader course."
        raise ClassRefused(msg, "", "Give a folder that is empty or not there yet.")
    return ClassFolder(folder, course_name(name, folder), "", made)


def _make_folders(folder: ClassFolder) -> None:
    # Other accounts of the machine pass through to the exchange, and see nothing else.
    folder.path.mkdir(parents=True, exist_ok=True)
    for name in _PRIVATE:
        (folder.path / name).mkdir(mode=0o700, exist_ok=True)
    exchange = folder.path / "exchange"
    if not exchange.exists():
        exchange.mkdir()
        exchange.chmod(0o777)  # nbgrader insists: every account of the machine may submit


def _source(solutions: Path, name: str) -> bytes:
    """A solution as nbgrader takes it; its links lead from one assignment's folder to the next."""
    file = solutions / f"{name}.ipynb"
    if not file.exists():
        msg = f"{file.name} is not in {solutions}."
        raise ClassRefused(msg, "", "Take it from git again.")
    notebook = stamp(read(file), name)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = _LINK.sub(r"](../\1/\1.ipynb)", cell["source"])
    text: str = nbformat.writes(notebook, version=4)
    return (text.rstrip("\n") + "\n").encode()


def _hand_out(course: Course, changed: set[str]) -> list[str]:
    """Generate the assignments that are new, and those whose source changed."""
    with course.gradebook() as book:
        known = {each.name for each in book.assignments}
    problems = []
    for name in LABS:
        released = course.folder("release", ".", name) / f"{name}.ipynb"
        if name in changed or name not in known or not released.exists():
            try:
                course.generate(name)
            except CourseUnusable as error:
                problems.append(str(error))
    return problems
