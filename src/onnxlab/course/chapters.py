"""`onnxlab show` and `onnxlab reset`: a chapter with all its outputs, or as new, in a learner's folder."""

import re
from pathlib import Path

from onnxlab.course.fresh import fresh
from onnxlab.course.lab_release import backup, course_root
from onnxlab.course.workbook import workbook
from onnxlab.errors import OnnxLabError
from onnxlab.files import write_atomically
from onnxlab.machine import COURSE_IN_WHEEL

_CLONE = Path(__file__).resolve().parents[3]
_CHAPTER = re.compile(r"0*(\d+)([a-z]?)(?:_\w+)?")


class ChapterMissing(OnnxLabError):
    """No chapter has a name, or its original is not there."""


def learner_root(start: Path) -> Path | None:
    """Return the learner's folder that is, or is above, a folder; in a clone, the one that course.py made."""
    root = course_root(start)
    return root if root is None else workbook(root) or root


def own_copy(path: Path) -> Path | None:
    """Return the learner's copy of a notebook of the course; None for one that has none, or is one."""
    path = path.absolute()
    root = course_root(path.parent)
    folder = workbook(root) if root else None
    copy = folder / path.relative_to(root) if root and folder else None
    return copy if copy and copy.exists() else None


def is_chapter(name: str) -> bool:
    """Tell whether a name is that of a chapter, not that of a lab.

    >>> is_chapter("04b"), is_chapter("notebooks/04_dynamic_shapes.ipynb"), is_chapter("lab04")
    (True, True, False)
    """
    return _CHAPTER.fullmatch(Path(name).stem) is not None


def replace_chapter(
    name: str, root: Path, language: str = "en", *, outputs: bool = False
) -> tuple[Path, Path | None]:
    """Replace a learner's chapter with the course's, and back up what the learner changed.

    Args:
        name: The chapter, as "04", "04b" or "04_dynamic_shapes".
        root: The learner's folder.
        language: Which edition's.
        outputs: Whether with all outputs; else as before its first run.

    Returns:
        The chapter, and the backup; None if its texts were those of the course.

    Raises:
        ChapterMissing: If there is no such chapter, or the course's own is not there.
        CannotWrite: If it cannot be written.
    """
    edition = Path("notebooks") if language == "en" else Path("notebooks", language)
    original = _original(name, root, edition)
    data = original.read_bytes()
    path = root / edition / original.name
    copy = backup(path) if path.exists() and fresh(path.read_bytes()) != fresh(data) else None
    write_atomically(path, data if outputs else fresh(data))
    return path, copy


def _original(name: str, root: Path, edition: Path) -> Path:
    """Return the course's own notebook of a chapter, from the clone above, the package's clone or a wheel."""
    if (root / "solutions").is_dir():
        raise ChapterMissing(
            "{root} is the course itself.",
            "A chapter is replaced in a learner's folder only.",
            "Start the course once, which makes one: python3 course.py",
            root=root,
        )
    sources = (*root.parents, *(folder for folder in (_CLONE, COURSE_IN_WHEEL) if folder != root))
    folder = next((source / edition for source in sources if any((source / edition).glob("*.ipynb"))), None)
    if folder is None:
        raise ChapterMissing(
            "The course's own chapters are not on this machine.", "", "Read the outputs on the web site."
        )
    wanted = _key(name)
    chapters = sorted(folder.glob("[0-9]*.ipynb"))
    for chapter in chapters:
        if _key(chapter.name) == wanted:
            return chapter
    numbers = ", ".join(chapter.stem.partition("_")[0] for chapter in chapters)
    raise ChapterMissing(
        "There is no chapter {name}.", "", "The chapters are {numbers}.", name=name, numbers=numbers
    )


def _key(name: str) -> tuple[str, ...]:
    match = _CHAPTER.fullmatch(Path(name).stem)
    return match.groups() if match else ()
