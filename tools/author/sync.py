"""`python -m tools.author sync`: makes labs/ from solutions/."""

from collections.abc import Iterator
from pathlib import Path

from onnxlab.course.lab_release import LabNotInSync, release, stamp, worked_in
from onnxlab.course.notebooks import read, write


def sync(root: Path) -> list[Path]:
    """Stamp every solution and make its lab, below a repository's root.

    A lab in which somebody has worked (it has outputs) is left alone.

    Returns:
        The files that changed.
    """
    changed = []
    for solution in _solutions(root):
        stamped = stamp(read(solution), solution.stem)
        if write(stamped, solution):
            changed.append(solution)
        handed_out = root / "labs" / solution.name
        handed_out.parent.mkdir(exist_ok=True)
        if handed_out.exists() and worked_in(read(handed_out)):
            continue
        if write(release(stamped), handed_out):
            changed.append(handed_out)
    return changed


def out_of_sync(root: Path) -> list[str]:
    """Return what `sync` would change or cannot repair; nothing is written."""
    differences = []
    names = set()
    for solution in _solutions(root):
        names.add(solution.name)
        stamped = stamp(read(solution), solution.stem)
        if stamped != read(solution):
            differences.append(f"solutions/{solution.name}: its metadata is not up to date")
        handed_out = root / "labs" / solution.name
        if not handed_out.exists():
            differences.append(f"labs/{solution.name} is missing")
        elif read(handed_out) != release(stamped):
            differences.append(f"labs/{solution.name} is not what the solution gives")
    extra = sorted(path.name for path in (root / "labs").glob("*.ipynb") if path.name not in names)
    return [*differences, *(f"labs/{name} has no solution" for name in extra)]


def _solutions(root: Path) -> Iterator[Path]:
    paths = sorted((root / "solutions").glob("lab*.ipynb"))
    if not paths:
        raise LabNotInSync(f"There are no solutions below {root}.", "", "Run this in the course's folder.")
    yield from paths
