"""`onnxlab labs`: copies the course's notebooks into a folder, for those who have no clone."""

from pathlib import Path

from onnxlab.course.learner_folder import course_files
from onnxlab.errors import OnnxLabError
from onnxlab.files import write_atomically
from onnxlab.machine import COURSE_IN_WHEEL

_CLONE = Path(__file__).resolve().parents[3]


class NotebooksMissing(OnnxLabError):
    """The installed package does not contain the course's notebooks."""


def copy_course(folder: Path) -> tuple[list[Path], list[Path]]:
    """Copy the course into a folder, arranged as in the repository, so that its links are valid.

    Args:
        folder: The target, made if it is missing; it gets `labs`, `notebooks` and `docs`.

    Returns:
        The files that were copied, and those that existed and were left alone.

    Raises:
        NotebooksMissing: The installed package has none.
        CannotWrite: If a file cannot be written.
    """
    root = COURSE_IN_WHEEL if COURSE_IN_WHEEL.is_dir() else _CLONE
    files = course_files(root)
    if not files:
        msg = "The installed package has no notebooks: there are none in {root}."
        then = "Install the course's wheel, or take the notebooks from its repository."
        raise NotebooksMissing(msg, "", then, root=root)
    copied: list[Path] = []
    existing: list[Path] = []
    for name, content in files.items():
        target = folder / name
        if target.exists():  # somebody may have worked in it
            existing.append(target)
        else:
            copied.append(write_atomically(target, content))
    return copied, existing
