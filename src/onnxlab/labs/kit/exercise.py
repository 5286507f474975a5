"""What an exercise is: one record, what it asks for, and what judges it."""

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

__all__ = ["LABS", "Answers", "Exercise", "Lab", "Part", "exercise", "exercises_of", "lab", "labs"]

Answers: TypeAlias = Mapping[str, Any]
"""The learner's functions and classes by name."""

_OLDEST = re.compile(r"([\w-]+)\s*(?:\S*,)?>=([\d.]+)")

LABS = tuple(
    sorted(each.name for each in pkgutil.iter_modules(onnxlab.labs.__path__) if each.name[:3] == "lab")
)
"""The labs' names: each is a package in this room, and a notebook."""


@dataclass(frozen=True)
class Part:
    """One thing that has to hold for an exercise to be passed.

    Attributes:
        title: What has to hold, as a claim about the learner's work: "the factor is an input".
        judge: Looks only at the files in the folder and at random numbers; raises `Wrong` if the claim does
            not hold. The numbers come from a seed that the process with the learner's code never sees.
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
        produce: Calls them and writes what they make into the folder: ONNX files, JSON, arrays. Runs beside
            the learner's code, and so knows nothing that it must not know. Raises `Wrong` where an answer
            is of the wrong kind. The generator draws the questions that are put to the answers.
        parts: What has to hold, in the order in which a learner should be told.
        hints: Three, from a nudge to nearly the code.
        order: Its place in its lab, counted from 1.
        expected: Makes a right model for the questions, to lay beside a learner's where the part that judged
            it has none; None where no model is judged, or each part has its own.
        torch_export: Whether produce may export with the exporter built on torch.export. What that imports is
            imported before the time is counted.
        time_limit: Seconds of the processor for the whole of produce.
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
        """The versions that the facts behind it were tested with: the pinned ones, or the oldest allowed."""
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
        modules = [importlib.import_module(f"{package}.{each}") for each in _modules(name)]
        exercises = [module.EXERCISE for module in modules if hasattr(module, "EXERCISE")]
        return cls(name, title, tuple(sorted(exercises, key=lambda one: one.order)))

    @property
    def points(self) -> int:
        """What the lab is worth."""
        return sum(each.points for each in self.exercises)


def _modules(lab_name: str) -> list[str]:
    folders = [str(Path(folder, lab_name)) for folder in onnxlab.labs.__path__]
    return [each.name for each in pkgutil.iter_modules(folders)]


@cache
def _tested_versions() -> str:
    pins = pinned_versions()
    oldest = {found[1]: found[2] for text in requires("onnxlab") or () if (found := _OLDEST.match(text))}
    versions = {name: pins.get(name) or oldest.get(name, "") for name in ("torch", "onnx", "onnxruntime")}
    return ", ".join(f"{name} {'.'.join(text.split('.')[:2])}" for name, text in versions.items() if text)


@cache
def lab(name: str) -> Lab:
    """Return a lab by its name or the beginning of it, as "lab04".

    Raises:
        UnknownExercise: If there is none of that name.

    Example:
        >>> lab("lab04").name
        'lab04_asinh'
    """
    full = next((each for each in LABS if each == name or each.partition("_")[0] == name), None)
    if full is None:
        msg = f"There is no lab {name!r}."
        raise UnknownExercise(msg, "", f"The labs are {', '.join(LABS)}.")
    found: Lab = importlib.import_module(f"onnxlab.labs.{full}").LAB
    return found


def labs() -> tuple[Lab, ...]:
    """Return all labs in order."""
    return tuple(lab(name) for name in LABS)


def exercises_of(name: str) -> tuple[Exercise, ...]:
    """Return the exercises of one lab."""
    return lab(name).exercises


def exercise(name: str) -> tuple[Lab, Exercise]:
    """Find an exercise and its lab.

    Raises:
        UnknownExercise: If there is none of that name; the nearest names are suggested.

    Example:
        >>> where, what = exercise("asinh-symbolic")
        >>> where.name, what.answers
        ('lab04_asinh', ('asinh_symbolic',))
    """
    known = []
    module = str(name).replace("-", "_")  # it likely has the exercise's name; then no other lab is loaded
    for lab_name in sorted(LABS, key=lambda each: module not in _modules(each)):
        one = lab(lab_name)
        for each in one.exercises:
            if each.id == name:
                return one, each
            known.append(each.id)
    near = get_close_matches(str(name).replace("_", "-"), known, 3, 0.4)
    msg = f"There is no exercise {name!r}."
    raise UnknownExercise(msg, "", f"Did you mean {' or '.join(map(repr, near))}?" if near else "")
