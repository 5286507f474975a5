"""Tasks for the workers, and the descriptions of the labs that a fork server sends back.

A task is to run a submission, or to judge the files that it wrote. The labs' code imports torch, which the
process that keeps the marks does without: a fork server has loaded the labs and describes them. Where there
is no fork server, they are loaded here.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from onnxlab.labs.kit import exercise as labs
from onnxlab.labs.kit.exercise import Exercise, Lab, Part
from onnxlab.sandbox.entry import Level
from onnxlab.sandbox.watcher import Limits

__all__ = [
    "CELLS",
    "CRASH",
    "ENVIRONMENT",
    "FOLDER_PREFIX",
    "JUDGES",
    "LARGEST_GREETING",
    "LARGEST_MESSAGE",
    "NOTES",
    "PRODUCTION",
    "SECRET",
    "STAGE",
    "Task",
    "describe_labs",
    "exercise",
    "in_another_process",
    "lab",
    "register_labs",
    "report_file",
    "uses_exporter",
]

FOLDER_PREFIX = "onnxlab-grade-"
"""How the names of temporary folders begin; the process ID of the grader follows."""

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "ORT_DISABLE_TELEMETRY": "1",
}
"""Environment variables of every worker: threads are limited before anything is imported."""

LARGEST_MESSAGE, LARGEST_GREETING = 1 << 16, 1 << 20  # bytes; a greeting describes every lab

# The files in a submission's folder, and in the folder of each exercise below it.
CELLS, NOTES, PRODUCTION = "cells.json", "notes.json", "production.json"
# The files in its judge's folder, which is made after the submission's processes have ended. The submission's
# own files lie in a folder for each exercise below it; the judge's word never does.
SECRET, JUDGES = "seed.json", "judges.py"
STAGE, CRASH = (
    "stage.json",
    "crash.txt",
)  # the exercise that is being judged, and the signal that ended the judge

_DESCRIBED: dict[str, Lab] = {}
_EXPORTER_WORDS = ("TORCH_EXPORT", "torch.export", "dynamo=True")


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        id: Its name among the running tasks.
        kind: "student" or "judge".
        folder: Where it reads and writes.
        lab: The lab.
        exercises: The ids of the exercises.
        seed: The seed of the exercises' questions; a judge reads the seed of its test inputs from a file.
        level: The sandbox; None for none.
        limits: What it may use.
        user: The user it becomes, if the grader runs as root.
        exporter: Whether it needs `torch.export`, which a fork server loads before it forks.
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


def describe_labs() -> list[dict[str, Any]]:
    """Return the descriptions of all labs, as JSON can hold them."""
    return [
        {
            "name": lab.name,
            "title": lab.title,
            "exercises": [
                {
                    "id": exercise.id,
                    "title": exercise.title,
                    "points": exercise.points,
                    "parts": [part.title for part in exercise.parts],
                    "torch_export": exercise.torch_export,
                }
                for exercise in lab.exercises
            ],
        }
        for lab in labs.labs()
    ]


def register_labs(descriptions: Iterable[dict[str, Any]]) -> None:
    """Use the labs that a fork server describes, without loading them."""
    for description in descriptions:
        exercises = tuple(
            Exercise(
                fields["id"],
                fields["title"],
                fields["points"],
                answers=(),
                produce=in_another_process,
                parts=tuple(Part(title, in_another_process) for title in fields["parts"]),
                hints=("", "", ""),
                torch_export=fields["torch_export"],
            )
            for fields in description["exercises"]
        )
        name = description["name"]
        _DESCRIBED[name] = Lab(name, description["title"], exercises)


def lab(name: str) -> Lab:
    """Return a lab with its exercises' titles, points and parts; none of them can be run here.

    Raises:
        UnknownExercise: If there is none of that name.
    """
    return _DESCRIBED.get(name) or labs.lab(name)


def exercise(name: str) -> tuple[Lab, Exercise]:
    """Return an exercise and its lab.

    Raises:
        UnknownExercise: If there is none of that name.
    """
    pairs = ((lab, exercise) for lab in _DESCRIBED.values() for exercise in lab.exercises)
    return next((pair for pair in pairs if pair[1].id == name), None) or labs.exercise(name)


def uses_exporter(name: str, cells: Sequence[str]) -> bool:
    """Whether a submission likely needs `torch.export`. A wrong guess only costs time.

    Example:
        >>> uses_exporter("lab07_pooling_indices", ["x = 1"]), uses_exporter("lab04_asinh", [])
        (False, True)
    """
    needed = any(exercise.torch_export for exercise in lab(name).exercises)
    return needed or any(word in cell for cell in cells for word in _EXPORTER_WORDS)


def report_file(exercise_id: str) -> str:
    """Return the name of the file in a judge's folder that has its report on an exercise."""
    return f"report-{exercise_id}.json"


def in_another_process(*_: object) -> None:
    """Stand in for the code of an exercise or a judge, which only workers run."""
    msg = "It is done in a process of its own."
    raise NotImplementedError(msg)
