"""From solutions/ to labs/: nbgrader's metadata in a solution, and the lab that is made from it.

The metadata follows from the exercises' records, which alone have names and points. A lab is what `nbgrader
generate_assignment` would make of its solution; a test compares the two.
"""

import copy
import json
import re
from pathlib import Path
from typing import Any

from onnxlab.course.cleaning import clean
from onnxlab.course.learner_folder import names_beside
from onnxlab.course.notebooks import Notebook, read, write
from onnxlab.errors import OnnxLabError
from onnxlab.kit.exercise import Exercise, lab
from onnxlab.machine import COURSE_IN_WHEEL
from onnxlab.message import Message

UNTOUCHED = Path(".onnxlab", "untouched")
"""The folder of a class's learner with the untouched labs, because learners have no solutions."""

_CHECK = re.compile(r'^check\("([a-z0-9-]+)"(.*)\)\s*$', re.MULTILINE)
_SOLUTION = re.compile(
    r"^([ \t]*)### BEGIN SOLUTION.*?^[ \t]*### END SOLUTION[^\n]*$", re.MULTILINE | re.DOTALL
)
_HIDDEN_TESTS = re.compile(
    r"\n?^### BEGIN HIDDEN TESTS.*?^### END HIDDEN TESTS[^\n]*$", re.MULTILINE | re.DOTALL
)
"""A hidden test in a cell, with its marks."""

_TOTAL = re.compile(r"^\*\*Time:\*\* \d+ minutes\. \*\*Points:\*\* \d+\.", re.MULTILINE)
_POINTS = re.compile(r"^\*\*\w+ points?(, \d+ minutes)?\*\*$", re.MULTILINE)

_STUB = ("# YOUR CODE HERE", "raise NotImplementedError()")


class LabNotInSync(OnnxLabError):
    """A solution does not have the cells that its exercises need."""


def stamp(notebook: Notebook, name: str) -> Notebook:
    """Return a solution with nbgrader's metadata, minutes and points, and a hidden test in each check cell.

    Args:
        notebook: The solution.
        name: The lab's name.

    Raises:
        LabNotInSync: If an exercise has no check cell, or two, or no solution before it.
    """
    result = copy.deepcopy(notebook)
    record = lab(name)
    exercises = {exercise.id: exercise for exercise in record.exercises}
    answers: list[dict[str, Any]] = []
    heading: dict[str, Any] = {}
    for cell in result["cells"]:
        cell["metadata"].pop("nbgrader", None)
        if cell["cell_type"] != "code":
            heading = cell if _POINTS.search(cell["source"]) else heading
            total = f"**Time:** {record.minutes} minutes. **Points:** {record.points}."
            cell["source"] = _TOTAL.sub(total, cell["source"], count=1)
            continue
        if _SOLUTION.search(cell["source"]):
            answers.append(cell)
        elif match := _CHECK.search(_HIDDEN_TESTS.sub("", cell["source"])):
            exercise = exercises.pop(match[1], None)
            if exercise is None or not answers:
                unknown = "an exercise without a record, or one that was checked above"
                what = unknown if exercise is None else Message("no solution stands above it")
                raise LabNotInSync(
                    "solutions/{name}.ipynb checks {match!r}: {subject}.",
                    name=name,
                    match=match[1],
                    subject=what,
                )
            _stamp_exercise(exercise, answers, cell, match)
            if heading:
                points = f"{exercise.points} point{'s' * (exercise.points > 1)}"
                worth = f"**{points}, {exercise.minutes} minutes**"
                heading["source"] = _POINTS.sub(worth, heading["source"], count=1)
                heading = {}
            answers = []
    if exercises:
        raise LabNotInSync(
            "solutions/{name}.ipynb has no cell that checks {exercises}.",
            "",
            'Add a cell with check("{next_iter_exercises}", ...).',
            name=name,
            exercises=", ".join(exercises),
            next_iter_exercises=next(iter(exercises)),
        )
    return clean(result)


def release(notebook: Notebook) -> Notebook:
    """Return the lab for a stamped solution: with stubs, without hidden tests and outputs."""
    result = copy.deepcopy(notebook)
    for cell in result["cells"]:
        if cell["cell_type"] != "code":
            continue
        cell["outputs"], cell["execution_count"] = [], None
        grading = cell["metadata"].get("nbgrader", {})
        if grading.get("solution"):
            cell["source"] = _SOLUTION.sub(
                lambda solution: "\n".join(solution[1] + line for line in _STUB), cell["source"]
            )
        if grading.get("locked"):
            cell["source"] = _HIDDEN_TESTS.sub("", cell["source"])
            cell["metadata"] |= {"deletable": False, "editable": False}
    return clean(result)


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
    """Replace a lab with the untouched one, and back up the work in it.

    Args:
        name: The lab, as "lab05" or "lab05_bitshift".
        root: The course's folder.
        language: Which edition's.

    Returns:
        The lab, and the backup; None if the lab was missing or untouched.

    Raises:
        UnknownExercise: If there is no such lab.
        LabNotInSync: If there is neither its solution, nor an untouched copy, nor a wheel's labs.
    """
    full = lab(name).name
    untouched = _untouched(full, root)
    path = root / "labs" / f"{full}.ipynb"
    if language != "en":
        untouched, path = in_language(untouched, full, language), path.parent / language / path.name
    path.parent.mkdir(exist_ok=True, parents=True)
    copy = backup(path) if path.exists() else None
    changed = write(untouched, path)
    if copy is not None and not changed:
        copy.unlink()  # it was untouched
        copy = None
    return path, copy


def backup(path: Path) -> Path:
    """Copy a learner's notebook, readable or not, under a free name beside it; return the copy."""
    copy = next(free for free in names_beside(path, "before-reset") if not free.exists())
    copy.write_bytes(path.read_bytes())
    return copy


def course_root(start: Path) -> Path | None:
    """Return the course's folder: `start`, or one above it; None if there is none.

    It has notebooks/, and solutions/ or untouched labs. For an installed wheel, a folder with labs/ will do.
    """
    for folder in (start, *start.parents):
        has_sources = (folder / "solutions").is_dir() or (folder / UNTOUCHED).is_dir()
        if has_sources and (folder / "notebooks").is_dir():
            return folder
    patterns = ("labs/lab??_*.ipynb", "labs/*/lab??_*.ipynb")
    folders = (start, *start.parents)
    return next((folder for folder in folders if any(any(folder.glob(name)) for name in patterns)), None)


def _untouched(full: str, root: Path) -> Notebook:
    # A clone's workbook lies in the clone, which has the solutions of the present version.
    clone = root if (root / "solutions").is_dir() else root.parent
    solution, *copies = (
        folder / f"{full}.ipynb"
        for folder in (clone / "solutions", root / UNTOUCHED, COURSE_IN_WHEEL / "labs")
    )
    if solution.exists():
        return release(stamp(read(solution), full))
    for path in copies:
        if path.exists():
            return read(path)
    raise LabNotInSync(
        "{solution.name} is not in {root.name}/solutions, and the lab is made from it.",
        "",
        "Run this in the course's folder, or take the file from git again.",
        solution=solution,
        root=root,
    )


def in_language(lab: Notebook, name: str, language: str) -> Notebook:
    """Return an untouched lab in another language, with the cells of its translation."""
    cells = json.loads(untouched_words(language).read_text("utf-8")).get(name, {})
    result = copy.deepcopy(lab)
    for cell in result["cells"]:
        cell["source"] = cells.get(cell["id"], cell["source"])
    return result


def untouched_words(language: str) -> Path:
    """Return the path of the file with the labs' cells in another language."""
    return Path(__file__).parents[1] / "assets" / "languages" / f"{language}_labs.json"
