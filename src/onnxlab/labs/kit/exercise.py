"""The records of exercises and labs, and how to find them by name."""

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import requires
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import onnxlab.labs
from onnxlab.errors import UnknownExercise
from onnxlab.labs.kit.work import Work
from onnxlab.machine import pinned_versions

__all__ = ["LABS", "Answers", "Exercise", "Lab", "Part", "exercise", "lab", "labs"]

Answers: TypeAlias = Mapping[str, Any]
"""The learner's functions and classes by name."""

_OLDEST = re.compile(r"([\w-]+)\s*(?:\S*,)?>=([\d.]+)")

LABS = tuple(
    sorted(module.name for module in pkgutil.iter_modules(onnxlab.labs.__path__) if module.name[:3] == "lab")
)
"""The labs' names: each is a package in `onnxlab.labs`, and a notebook."""


@dataclass(frozen=True)
class Part:
    """One thing that has to hold for an exercise to be passed.

    Attributes:
        title: What has to hold, as a claim about the learner's work: "the factor is an input".
        judge: Reads the files in the folder and draws test inputs; raises `Wrong` if the claim does not hold.
            The inputs come from a seed that the process with the learner's code never sees.
    """

    title: str
    judge: Callable[[Work, np.random.Generator], None]


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    Attributes:
        id: Its name in kebab-case, for `check` and `hint`.
        title: What is to be done, in one line.
        points: What it is worth.
        answers: The names of the functions and classes that the learner writes.
        produce: Calls the answers with the questions that the generator draws, and writes what they return
            into the folder: ONNX files, JSON, arrays. It runs in the learner's process, so it must not know
            the test inputs. Raises `Wrong` where an answer is of the wrong kind.
        parts: What has to hold, in the order in which a learner should be told.
        hints: Three, from a nudge to nearly the code.
        order: Its place in its lab, counted from 1.
        expected: Makes a right model for the questions, shown beside a learner's wrong one unless the part
            has a right model of its own. None where no part needs it.
        torch_export: Whether `produce` may export with the exporter built on torch.export, whose modules are
            then imported before the time is counted.
        time_limit: Seconds of processor time for `produce`.
    """

    id: str
    title: str
    points: int
    answers: tuple[str, ...]
    produce: Callable[[Answers, Work, np.random.Generator], None]
    parts: tuple[Part, ...]
    hints: tuple[str, str, str]
    expected: Callable[[Work], bytes] | None = None
    torch_export: bool = False
    time_limit: float = 20.0
    order: int = 0

    @property
    def holds_for(self) -> str:
        """The versions that it was tested with: the pinned ones, or the oldest allowed."""
        return _tested_versions()


@dataclass(frozen=True)
class Lab:
    """One notebook of exercises.

    Attributes:
        name: The notebook's name without its ending.
        title: Its title.
        exercises: Its exercises in order.
    """

    name: str
    title: str
    exercises: tuple[Exercise, ...]

    @classmethod
    def of(cls, package: str, title: str) -> "Lab":
        """Return the lab whose exercises are the modules of a package that have an `EXERCISE`."""
        name = package.rpartition(".")[2]
        modules = [importlib.import_module(f"{package}.{module}") for module in _modules(name)]
        exercises = [module.EXERCISE for module in modules if hasattr(module, "EXERCISE")]
        return cls(name, title, tuple(sorted(exercises, key=lambda exercise: exercise.order)))

    @property
    def points(self) -> int:
        """What the lab is worth."""
        return sum(exercise.points for exercise in self.exercises)


def _modules(lab_name: str) -> list[str]:
    folders = [str(Path(folder, lab_name)) for folder in onnxlab.labs.__path__]
    return [module.name for module in pkgutil.iter_modules(folders)]


@cache
def _tested_versions() -> str:
    pins = pinned_versions()
    oldest = {match[1]: match[2] for text in requires("onnxlab") or () if (match := _OLDEST.match(text))}
    versions = {name: pins.get(name) or oldest.get(name, "") for name in ("torch", "onnx", "onnxruntime")}
    return ", ".join(f"{name} {'.'.join(text.split('.')[:2])}" for name, text in versions.items() if text)


@cache
def lab(name: str) -> Lab:
    """Return a lab by its name or its number, as "lab04" or "lab4".

    Raises:
        UnknownExercise: If there is none of that name.

    Example:
        >>> lab("lab4").name
        'lab04_asinh'
    """
    full = re.sub(r"^lab(?=\d(?!\d))", "lab0", name)
    package = next((lab for lab in LABS if full in (lab, lab.partition("_")[0])), None)
    if package is None:
        msg = f"There is no lab {name!r}."
        raise UnknownExercise(msg, "", f"The labs are {', '.join(LABS)}.")
    record: Lab = importlib.import_module(f"onnxlab.labs.{package}").LAB
    return record


def labs() -> tuple[Lab, ...]:
    """Return all labs in order."""
    return tuple(lab(name) for name in LABS)


def exercise(name: str) -> tuple[Lab, Exercise]:
    """Find an exercise and its lab.

    Raises:
        UnknownExercise: If there is none of that name; the nearest names are suggested.

    Example:
        >>> lab, record = exercise("asinh-symbolic")
        >>> lab.name, record.answers
        ('lab04_asinh', ('asinh_symbolic',))
    """
    if not isinstance(name, str):
        msg = f"An exercise is named by a text; a {type(name).__name__} was passed."
        then = 'Write the name first, in quotes, as check("asinh-symbolic", asinh_symbolic).'
        raise UnknownExercise(msg, "", then)
    ids = []
    module = name.replace("-", "_")  # usually the exercise's module; then no other lab is loaded
    for lab_name in sorted(LABS, key=lambda lab_name: module not in _modules(lab_name)):
        record = lab(lab_name)
        for candidate in record.exercises:
            if candidate.id == name:
                return record, candidate
            ids.append(candidate.id)
    wanted = name.replace("_", "-").lower()
    related = [candidate for candidate in ids if wanted and wanted in candidate]
    near = related[:3] or get_close_matches(wanted, ids, 3, 0.6)
    msg = f"There is no exercise {name!r}."
    raise UnknownExercise(msg, "", f"Did you mean {' or '.join(map(repr, near))}?" if near else "")
