"""What labs ask for, without their code: that needs torch, and the process that keeps the marks does not.

A fork server has the labs loaded and tells. Where none is, they are loaded here.
"""

import functools
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

from onnxlab.labs.kit import exercise as labs
from onnxlab.labs.kit.exercise import Exercise, Lab, Part

__all__ = ["described", "exercise", "lab", "register", "uses_exporter"]

_KNOWN: dict[str, Lab] = {}
_EXPORTER = ("TORCH_EXPORT", "torch.export", "dynamo=True", "exported_with_translation")


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
                produce=_elsewhere,
                parts=tuple(Part(title, _elsewhere) for title in one["parts"]),
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


def _elsewhere(*_: object) -> None:
    msg = "It is done in a process of its own."
    raise NotImplementedError(msg)
