"""`onnxlab labs`: the course's notebooks, copied to where somebody works who has the package and no clone."""

from pathlib import Path

from onnxlab.errors import OnnxLabError
from onnxlab.files import write_atomically
from onnxlab.machine import COURSE_IN_WHEEL

__all__ = ["NotebooksMissing", "copy_course"]

_CLONE = Path(__file__).resolve().parents[3]


class NotebooksMissing(OnnxLabError):
    """The package was installed without the course's notebooks."""


def copy_course(
    folder: Path, language: str = "en", *, chapters: bool = False
) -> tuple[list[Path], list[Path]]:
    """Copy the labs into a folder, arranged as in the repository, so that links from one to the next hold.

    From a clone they are copied as they stand there, also if somebody has worked in them.

    Args:
        folder: Where to; made if need be. They come into its `labs` and `notebooks`.
        language: Which edition.
        chapters: Whether the chapters come, too.

    Returns:
        The notebooks that were copied, and those that were there before and were left alone.

    Raises:
        NotebooksMissing: The installed package has none.
        CannotWrite: If a file cannot be written.
    """
    root = COURSE_IN_WHEEL if COURSE_IN_WHEEL.is_dir() else _CLONE
    edition = "" if language == "en" else language
    places = [Path(kind, edition) for kind in ("labs", *(["notebooks"] if chapters else []))]
    sources = [path for place in places for path in sorted((root / place).glob("*.ipynb"))]
    if not sources:
        msg = f"The installed package has no notebooks: there are none in {root}."
        then = "Install the course's wheel, or take the notebooks from its repository."
        raise NotebooksMissing(msg, "", then)
    copied: list[Path] = []
    there: list[Path] = []
    for source in sources:
        target = folder / source.relative_to(root)
        if target.exists():  # somebody may have worked in it
            there.append(target)
        else:
            copied.append(write_atomically(target, source.read_bytes()))
    return copied, there
