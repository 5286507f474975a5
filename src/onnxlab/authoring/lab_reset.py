"""`onnxlab reset`: the untouched lab again, and a copy of the work."""

from pathlib import Path

from onnxlab.authoring.lab_release import LabNotInSync, release, stamp
from onnxlab.authoring.notebooks import Notebook, read, write
from onnxlab.labs.exercise import lab

__all__ = ["UNTOUCHED", "course_root", "reset"]

UNTOUCHED = Path(".onnxlab", "untouched")
"""Where a class's learners, who have no solutions, have the labs as they were handed out."""


def reset(name: str, root: Path) -> tuple[Path, Path | None]:
    """Put the untouched lab in its place.

    Args:
        name: The lab, as "lab05" or "lab05_bitshift".
        root: The course's folder.

    Returns:
        The lab, and the copy of the work; None if there was nothing to keep.

    Raises:
        UnknownExercise: If there is no such lab.
        LabNotInSync: If neither its solution is there, nor a copy of what was handed out.
    """
    full = lab(name).name
    untouched = _untouched(full, root)
    path = root / "labs" / f"{full}.ipynb"
    path.parent.mkdir(exist_ok=True)
    kept = None
    if path.exists():
        kept = next(new for number in range(1, 10_000) if not (new := _copy(path, number)).exists())
        kept.write_bytes(path.read_bytes())  # whatever it holds, readable or not
    changed = write(untouched, path)
    if kept is not None and not changed:
        kept.unlink()  # it was untouched
        kept = None
    return path, kept


def course_root(start: Path) -> Path:
    """Return the course's folder: the one given, or one above it that has notebooks/ and the labs' origin."""
    for folder in (start, *start.parents):
        made_from = (folder / "solutions").is_dir() or (folder / UNTOUCHED).is_dir()
        if made_from and (folder / "notebooks").is_dir():
            return folder
    return start


def _untouched(full: str, root: Path) -> Notebook:
    solution, copy = (root / place / f"{full}.ipynb" for place in ("solutions", UNTOUCHED))
    if solution.exists():
        return release(stamp(read(solution), full))
    if copy.exists():
        return read(copy)
    msg = f"{solution.name} is not in {root.name}/solutions, and the lab is made from it."
    raise LabNotInSync(msg, "", "Run this in the course's folder, or take the file from git again.")


def _copy(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}.before-reset-{number}.ipynb")
