"""What is asked of a process: run a submission, or judge what one made."""

import json
from dataclasses import asdict, dataclass, field

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
    "SECRET",
    "STAGE",
    "Task",
]

PREFIX = "onnxlab-grade-"
"""How the names of temporary folders begin; the number of the process that made it follows."""

LARGEST_MESSAGE, LARGEST_GREETING = 1 << 16, 1 << 20  # bytes; a greeting tells of every lab

# The files of a submission's folder, and of each exercise's in it.
CELLS, NOTES, PRODUCTION = "cells.json", "notes.json", "production.json"
# The files of its judge's.
SECRET, JUDGES, FINDINGS = "seed.json", "judges.py", "findings.json"
STAGE, CRASH = "stage.json", "crash.txt"  # what it is judging now, and the signal that ended it


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
