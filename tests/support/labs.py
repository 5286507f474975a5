"""What a lab's contract is made of: right answers and wrong ones, with what a learner must be told."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat

from onnxlab.labs.kit.exercise import LABS
from onnxlab.labs.kit.outcome import Status

__all__ = ["Contract", "WrongAnswer", "contracts", "solved"]

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
