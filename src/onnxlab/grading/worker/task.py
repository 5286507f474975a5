"""What passes between the grader and its workers: tasks go there, and what the labs ask for comes from there.

A task is to run a submission, or to judge what one made. The labs' code needs torch, and the process that
keeps the marks does not: a fork server has them loaded and tells. Where there is none, they are loaded here.
"""

import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from typing import Any

from onnxlab.labs.kit import exercise as labs
from onnxlab.labs.kit.exercise import Exercise, Lab, Part
from onnxlab.sandbox.levels import Level, Limits

__all__ = [
    "CELLS",
    "CRASH",
    "FINDINGS",
    "JUDGES",
    "LARGEST_GREETING",
    "LARGEST_MESSAGE",
    "NOTES",
    "PREFIX",
    "PRODUCTION",
    "QUIET",
    "SECRET",
    "STAGE",
    "Task",
    "described",
    "elsewhere",
    "exercise",
    "lab",
    "register",
    "uses_exporter",
]

PREFIX = "onnxlab-grade-"
"""How the names of temporary folders begin; the number of the process that made it follows."""

QUIET = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "ORT_DISABLE_TELEMETRY": "1",
}
"""The variables of every worker: threads are limited before anything is imported."""

LARGEST_MESSAGE, LARGEST_GREETING = 1 << 16, 1 << 20  # bytes; a greeting tells of every lab

# The files of a submission's folder, and of each exercise's in it.
CELLS, NOTES, PRODUCTION = "cells.json", "notes.json", "production.json"
# The files of its judge's.
SECRET, JUDGES, FINDINGS = "seed.json", "judges.py", "findings.json"
STAGE, CRASH = "stage.json", "crash.txt"  # what it is judging now, and the signal that ended it

_KNOWN: dict[str, Lab] = {}
_EXPORTER = ("TORCH_EXPORT", "torch.export", "dynamo=True", "exported_with_translation")


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        id: Its name among those running.
        kind: "student" or "judge".
        folder: Where it reads and writes.
        lab: The lab.
        exercises: The exercises, by id.
        seed: What questions are drawn from; for a judge, what test inputs are drawn from too.
        level: How it is confined; None where nothing confines it.
        limits: What it may use.
        user: The user it becomes, if the grader runs as root.
        exporter: Whether it needs `torch.export`: only how soon it is done depends on that.
    """

    id: str
    kind: str
    folder: str
    lab: str
    exercises: tuple[str, ...]
    seed: int
    level: Level | None
    limits: Limits = field(default_factory=Limits)
    user: int | None = None
    exporter: bool = False

    def as_json(self) -> str:
        """Return it as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Task":
        """Read it back.

        Example:
            >>> task = Task("1", "judge", "/tmp", "lab04_asinh", ("asinh-symbolic",), 7, Level.LANDLOCK)
            >>> Task.from_json(task.as_json()) == task
            True
        """
        data = json.loads(text)
        data["exercises"] = tuple(data["exercises"])
        data["level"] = None if data["level"] is None else Level(data["level"])
        data["limits"] = Limits(**data["limits"])
        return cls(**data)


def described() -> list[dict[str, Any]]:
    """Return what is to be told of all labs, as JSON can hold it."""
    return [
        {
            "name": each.name,
            "title": each.title,
            "exercises": [
                {
                    "id": one.id,
                    "title": one.title,
                    "points": one.points,
                    "parts": [part.title for part in one.parts],
                }
                for one in each.exercises
            ],
        }
        for each in labs.labs()
    ]


def register(descriptions: Iterable[dict[str, Any]]) -> None:
    """Know the labs that a fork server describes, without loading them."""
    for each in descriptions:
        exercises = tuple(
            Exercise(
                one["id"],
                one["title"],
                one["points"],
                answers=(),
                produce=elsewhere,
                parts=tuple(Part(title, elsewhere) for title in one["parts"]),
                hints=("", "", ""),
            )
            for one in each["exercises"]
        )
        _KNOWN[each["name"]] = Lab(each["name"], each["title"], exercises)


def lab(name: str) -> Lab:
    """Return a lab with its exercises' titles, points and parts; none of them can be run.

    Raises:
        UnknownExercise: If there is none of that name.
    """
    return _KNOWN.get(name) or labs.lab(name)


def exercise(name: str) -> tuple[Lab, Exercise]:
    """Return an exercise and its lab.

    Raises:
        UnknownExercise: If there is none of that name.
    """
    known = ((each, one) for each in _KNOWN.values() for one in each.exercises if one.id == name)
    return next(known, None) or labs.exercise(name)


def uses_exporter(name: str, cells: Sequence[str]) -> bool:
    """Whether a submission likely needs `torch.export`. If it does unexpectedly, it only takes longer.

    Example:
        >>> uses_exporter("lab07_pooling_indices", ["x = 1"]), uses_exporter("lab04_asinh", [])
        (False, True)
    """
    return _uses_exporter(name) or any(word in cell for cell in cells for word in _EXPORTER)


@functools.cache
def _uses_exporter(name: str) -> bool:
    folder = files("onnxlab.labs") / name  # files() of the lab itself would import it
    sources = (each for each in folder.iterdir() if each.name.endswith(".py"))
    return any(word in source.read_text("utf-8") for source in sources for word in _EXPORTER)


def elsewhere(*_: object) -> None:
    """Stand in for what a lab or a judge does: this process only knows that it is asked."""
    msg = "It is done in a process of its own."
    raise NotImplementedError(msg)
