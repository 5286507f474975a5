"""What a lab's contract is made of: right answers and wrong ones, with what a learner must be told."""

import ast
import importlib
import linecache
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat

from onnxlab.kit.exercise import LABS, exercise
from onnxlab.kit.exercise import lab as exercise_lab
from onnxlab.kit.outcome import Status

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class WrongAnswer:
    """An answer that must not pass.

    Attributes:
        name: What is wrong with it, for the test's name.
        functions: The learner's functions in the order of `Exercise.answers`.
        says: A piece of the text the learner reads: message, look_at, counterexample or the place.
        status: How it must be rated.
    """

    name: str
    functions: tuple[Callable[..., Any], ...]
    says: str
    status: Status = Status.INCORRECT


@dataclass(frozen=True)
class Contract:
    """The answers tried for one exercise: two or more right ones, four or more wrong ones."""

    right: tuple[tuple[Callable[..., Any], ...], ...]
    wrong: tuple[WrongAnswer, ...] = field(default=())


def contracts() -> dict[str, Contract]:
    """All contracts by exercise, from `tests/labs/answers/labNN.py`."""
    by_exercise: dict[str, Contract] = {}
    for name in LABS:
        by_exercise |= importlib.import_module(f"tests.labs.answers.{name.partition('_')[0]}").CONTRACTS
    return by_exercise


def solution(name: str, edits: Mapping[str, str] | None = None) -> tuple[Callable[..., Any], ...]:
    """Return the answers in the notebook of solutions, or what an edit makes of them.

    A wrong answer that is an edit of the solution says in its line what is wrong, and follows the solution.

    Args:
        name: The exercise.
        edits: New pieces of its text by the old ones, each of which the text has exactly once.
    """
    lab, record = exercise(name)
    definitions, cells = solutions(lab.name)
    assert name in cells, (
        f"{name}: no answer in solutions/{lab.name}.ipynb; python -m tools.author sync writes it"
    )
    text = cells[name]
    for old, new in (edits or {}).items():
        assert text.count(old) == 1, f"{name}: {old!r} is there {text.count(old)} times"
        text = text.replace(old, new)
    module = ModuleType(f"solution_{zlib.crc32(text.encode())}")
    sys.modules[module.__name__] = module  # torch's compiler looks for the globals of a nested function there
    for part, source in (("definitions", definitions), ("answers", text)):
        file = f"<{part} of {module.__name__}>"
        linecache.cache[file] = (
            len(source),
            None,
            source.splitlines(keepends=True),
            file,
        )  # torch.jit reads it
        exec(compile(source, file, "exec"), vars(module))
    return tuple(getattr(module, answer) for answer in record.answers)


@cache
def solutions(lab: str) -> tuple[str, dict[str, str]]:
    """Return the definitions of a notebook of solutions, and the cell of each exercise's answers."""
    book = nbformat.read(ROOT / "solutions" / f"{lab}.ipynb", as_version=4)
    definitions, cells = [], dict[str, str]()
    for cell in book.cells:
        grading = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and grading.get("solution"):
            name = grading.grade_id
            name = (
                name
                if name in {record.id for record in exercise_lab(lab).exercises}
                else name.rpartition("-")[0]
            )
            cells[name] = f"{cells[name]}\n\n{cell.source}" if name in cells else cell.source
        elif cell.cell_type == "code":
            kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
            definitions += [
                ast.unparse(node) for node in ast.parse(cell.source).body if isinstance(node, kinds)
            ]
    return "\n".join(definitions), cells


def solved(lab: str, exercises: set[str]) -> nbformat.NotebookNode:
    """Return a lab in which some exercises have the solution's answers."""
    book = nbformat.read(ROOT / "labs" / f"{lab}.ipynb", as_version=4)
    solution = nbformat.read(ROOT / "solutions" / f"{lab}.ipynb", as_version=4)
    answers = {
        cell.metadata.nbgrader.grade_id: cell.source for cell in solution.cells if "nbgrader" in cell.metadata
    }
    for cell in book.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") in exercises:
            cell.source = answers[cell.metadata.nbgrader.grade_id]
    return book
