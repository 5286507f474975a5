"""`onnxlab class init`: the class folder made, or brought up to date around what its owner changed."""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import nbformat

import onnxlab
from onnxlab.authoring.lab_release import stamp
from onnxlab.authoring.lab_reset import course_root
from onnxlab.authoring.notebooks import read
from onnxlab.classroom.course_folder import (
    CLASS_FILE,
    ClassFolder,
    ClassRefused,
    as_json,
    course_name,
    digest,
    open_class,
)
from onnxlab.classroom.nbgrader_course import Course, CourseUnusable, course_at, require_nbgrader
from onnxlab.grading.whole_files import write_whole
from onnxlab.labs.exercise import LABS

__all__ = ["Made", "make_class", "solutions_folder"]

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


@dataclass(frozen=True)
class Made:
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


def make_class(path: Path, name: str | None = None, *, start: Path | None = None) -> Made:
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
    wanted = {folder.config.name: _CONFIG.format(name=folder.name).encode()}
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
            write_whole(file, data)
            (added if found is None else updated).append(relative)
    folder = replace(folder, written=written)
    course = course_at(folder.path)
    problems = _hand_out(course, {Path(each).stem for each in [*added, *updated]})
    if course.name != folder.name:
        line = f'c.CourseDirectory.course_id = "{folder.name}"'
        problems.append(f"{folder.config.name} names the course {course.name!r}: write {line} into it.")
    if folder.gradebook.exists():
        folder.gradebook.chmod(0o600)
    write_whole(folder.path / CLASS_FILE, as_json(folder))
    new = not before.version
    return Made(folder, new, tuple(added), tuple(updated), tuple(kept), tuple(problems))


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
    if (folder / "nbgrader_config.py").exists():
        own = course_at(folder).name
        if own and name not in (None, own):
            msg = f"{path} is the course {own!r}, not {name!r}."
            raise ClassRefused(msg, "nbgrader_config.py says so.", "Leave --name out.")
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
    if not folder.exchange.exists():
        folder.exchange.mkdir()
        folder.exchange.chmod(0o777)  # nbgrader insists: every account of the machine may submit


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
