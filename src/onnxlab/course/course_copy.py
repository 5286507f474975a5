"""`onnxlab labs`: copies the course's notebooks into a folder, for those who have no clone."""

from pathlib import Path

from onnxlab.course.fresh import fresh
from onnxlab.errors import OnnxLabError
from onnxlab.files import write_atomically
from onnxlab.machine import COURSE_IN_WHEEL

_CLONE = Path(__file__).resolve().parents[3]


class NotebooksMissing(OnnxLabError):
    """The installed package does not contain the course's notebooks."""


def copy_course(
    folder: Path, language: str = "en", *, chapters: bool = False
) -> tuple[list[Path], list[Path]]:
    """Copy the labs into a folder, arranged as in the repository, so that their links are valid.

    Chapters are copied without outputs; labs, from a clone, as they are, also if somebody has worked in them.

    Args:
        folder: The target, made if it is missing; it gets `labs` and `notebooks`.
        language: The edition.
        chapters: Whether to copy the chapters, too.

    Returns:
        The notebooks that were copied, and those that existed and were left alone.

    Raises:
        NotebooksMissing: The installed package has none.
        CannotWrite: If a file cannot be written.
    """
    root = COURSE_IN_WHEEL if COURSE_IN_WHEEL.is_dir() else _CLONE
    edition = "" if language == "en" else language
    folders = [Path(kind, edition) for kind in ("labs", *(["notebooks"] if chapters else []))]
    sources = [path for source_folder in folders for path in sorted((root / source_folder).glob("*.ipynb"))]
    if not sources:
        msg = f"The installed package has no notebooks: there are none in {root}."
        then = "Install the course's wheel, or take the notebooks from its repository."
        raise NotebooksMissing(msg, "", then)
    copied: list[Path] = []
    existing: list[Path] = []
    for source in sources:
        target = folder / source.relative_to(root)
        if target.exists():  # somebody may have worked in it
            existing.append(target)
        else:
            data = source.read_bytes()
            copied.append(
                write_atomically(target, fresh(data) if target.is_relative_to(folder / "notebooks") else data)
            )
    return copied, existing
