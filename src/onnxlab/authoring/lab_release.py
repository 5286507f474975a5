"""solutions/ -> labs/: nbgrader's metadata on the source, and the notebook that is handed out.

The metadata follows from the exercises' records, so that points and names stand in one place. What is handed
out is what `nbgrader generate_assignment` would make of the source; a test compares the two.
"""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onnxlab.authoring.hygiene import clean
from onnxlab.authoring.notebooks import Notebook, read, write
from onnxlab.errors import OnnxLabError
from onnxlab.labs.kit.exercise import Exercise, lab
from onnxlab.machine import COURSE_IN_WHEEL

__all__ = [
    "UNTOUCHED",
    "LabNotInSync",
    "course_root",
    "in_language",
    "out_of_sync",
    "release",
    "reset",
    "stamp",
    "sync",
    "untouched_words",
    "worked_in",
]

UNTOUCHED = Path(".onnxlab", "untouched")
"""Where a class's learners, who have no solutions, have the labs as they were handed out."""

_CHECK = re.compile(r'^check\("([a-z0-9-]+)"(.*)\)\s*$', re.MULTILINE)
_SOLUTION = re.compile(
    r"^([ \t]*)### BEGIN SOLUTION.*?^[ \t]*### END SOLUTION[^\n]*$", re.MULTILINE | re.DOTALL
)
_HIDDEN_TESTS = re.compile(
    r"\n?^### BEGIN HIDDEN TESTS.*?^### END HIDDEN TESTS[^\n]*$", re.MULTILINE | re.DOTALL
)
"""A hidden test in a cell, with its marks."""

_STUB = ("# YOUR CODE HERE", "raise NotImplementedError()")


class LabNotInSync(OnnxLabError):
    """A solution does not have the cells that its exercises need."""


def stamp(notebook: Notebook, name: str) -> Notebook:
    """Return a solution with nbgrader's metadata, and a hidden test in each cell that checks.

    Args:
        notebook: The solution.
        name: The lab's name.

    Raises:
        LabNotInSync: If an exercise has no cell that checks it, or two, or no solution before it.
    """
    result = copy.deepcopy(notebook)
    exercises = {each.id: each for each in lab(name).exercises}
    answers: list[dict[str, Any]] = []
    for cell in result["cells"]:
        cell["metadata"].pop("nbgrader", None)
        if cell["cell_type"] != "code":
            continue
        if _SOLUTION.search(cell["source"]):
            answers.append(cell)
        elif found := _CHECK.search(_HIDDEN_TESTS.sub("", cell["source"])):
            exercise = exercises.pop(found[1], None)
            if exercise is None or not answers:
                unknown = "an exercise without a record, or one that was checked above"
                what = unknown if exercise is None else "no solution stands above it"
                msg = f"solutions/{name}.ipynb checks {found[1]!r}: {what}."
                raise LabNotInSync(msg)
            _stamp_exercise(exercise, answers, cell, found)
            answers = []
    if exercises:
        msg = f"solutions/{name}.ipynb has no cell that checks {', '.join(exercises)}."
        raise LabNotInSync(msg, "", f'Add a cell with check("{next(iter(exercises))}", ...).')
    return clean(result)


def release(notebook: Notebook) -> Notebook:
    """Return the lab that is handed out for a stamped solution: stubs, no hidden tests, no outputs."""
    result = copy.deepcopy(notebook)
    for cell in result["cells"]:
        if cell["cell_type"] != "code":
            continue
        cell["outputs"], cell["execution_count"] = [], None
        grading = cell["metadata"].get("nbgrader", {})
        if grading.get("solution"):
            cell["source"] = _SOLUTION.sub(
                lambda found: "\n".join(found[1] + line for line in _STUB), cell["source"]
            )
        if grading.get("locked"):
            cell["source"] = _HIDDEN_TESTS.sub("", cell["source"])
            cell["metadata"] |= {"deletable": False, "editable": False}
    return clean(result)


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
    """Return what `sync` would change, and what it cannot mend; nothing is written."""
    found = []
    names = set()
    for solution in _solutions(root):
        names.add(solution.name)
        stamped = stamp(read(solution), solution.stem)
        if stamped != read(solution):
            found.append(f"solutions/{solution.name}: its metadata is not up to date")
        handed_out = root / "labs" / solution.name
        if not handed_out.exists():
            found.append(f"labs/{solution.name} is missing")
        elif read(handed_out) != release(stamped):
            found.append(f"labs/{solution.name} is not what the solution gives")
    extra = sorted(path.name for path in (root / "labs").glob("*.ipynb") if path.name not in names)
    return [*found, *(f"labs/{name} has no solution" for name in extra)]


def _solutions(root: Path) -> Iterator[Path]:
    paths = sorted((root / "solutions").glob("lab*.ipynb"))
    if not paths:
        msg = f"There are no solutions below {root}."
        raise LabNotInSync(msg, "", "Run this in the course's folder.")
    yield from paths


def _stamp_exercise(
    exercise: Exercise, answers: list[dict[str, Any]], cell: dict[str, Any], call: re.Match[str]
) -> None:
    for number, answer in enumerate(answers, 1):
        suffix = "" if number == 1 else f"-{number}"
        answer["metadata"]["nbgrader"] = _grading(f"{exercise.id}{suffix}", solution=True)
    graded = _grading(f"check-{exercise.id}", solution=False)
    cell["metadata"]["nbgrader"] = {**graded, "points": exercise.points}
    arguments = f'"{call[1]}"{call[2]}'
    cell["source"] = "\n".join(
        [
            f"check({arguments})",
            "### BEGIN HIDDEN TESTS",
            "from onnxlab import require",
            f"require({arguments})",
            "### END HIDDEN TESTS",
        ]
    )


def _grading(name: str, *, solution: bool) -> dict[str, Any]:
    return {
        "grade": not solution,
        "grade_id": name,
        "locked": not solution,
        "schema_version": 3,
        "solution": solution,
        "task": False,
    }


def worked_in(notebook: Notebook) -> bool:
    """Tell whether somebody has run a lab."""
    return any(cell.get("outputs") or cell.get("execution_count") for cell in notebook["cells"])


def reset(name: str, root: Path, language: str = "en") -> tuple[Path, Path | None]:
    """Put the untouched lab in its place.

    Args:
        name: The lab, as "lab05" or "lab05_bitshift".
        root: The course's folder.
        language: Which edition's.

    Returns:
        The lab, and the copy of the work; None if there was nothing to keep.

    Raises:
        UnknownExercise: If there is no such lab.
        LabNotInSync: If neither its solution is there, nor a copy of what was handed out, nor a wheel's labs.
    """
    full = lab(name).name
    untouched = _untouched(full, root)
    path = root / "labs" / f"{full}.ipynb"
    if language != "en":
        untouched, path = in_language(untouched, full, language), path.parent / language / path.name
    path.parent.mkdir(exist_ok=True, parents=True)
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
    """Return the course's folder: the one given, or one above it.

    That is a folder with notebooks/ and the labs' origin; where the origin is in a wheel, one with labs/.
    """
    for folder in (start, *start.parents):
        made_from = (folder / "solutions").is_dir() or (folder / UNTOUCHED).is_dir()
        if made_from and (folder / "notebooks").is_dir():
            return folder
    patterns = ("labs/lab??_*.ipynb", "labs/*/lab??_*.ipynb")
    copied = (each for each in (start, *start.parents) if any(any(each.glob(one)) for one in patterns))
    return next(copied, start)


def _untouched(full: str, root: Path) -> Notebook:
    solution, *copies = (
        place / f"{full}.ipynb" for place in (root / "solutions", root / UNTOUCHED, COURSE_IN_WHEEL / "labs")
    )
    if solution.exists():
        return release(stamp(read(solution), full))
    for path in copies:
        if path.exists():
            return read(path)
    msg = f"{solution.name} is not in {root.name}/solutions, and the lab is made from it."
    raise LabNotInSync(msg, "", "Run this in the course's folder, or take the file from git again.")


def in_language(lab: Notebook, name: str, language: str) -> Notebook:
    """Return an untouched lab in another language: its cells say what `onnxlab author translate` noted."""
    cells = json.loads(untouched_words(language).read_text("utf-8")).get(name, {})
    result = copy.deepcopy(lab)
    for cell in result["cells"]:
        cell["source"] = cells.get(cell["id"], cell["source"])
    return result


def untouched_words(language: str) -> Path:
    """Return the file that has the labs' cells in another language."""
    return Path(__file__).parents[1] / "assets" / "languages" / f"{language}_labs.json"


def _copy(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}.before-reset-{number}.ipynb")
