"""Tasks for the workers: to run a submission, or to judge the files that it wrote."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import onnxlab
import onnxlab_class
from onnxlab.kit.exercise import lab
from onnxlab_class.sandbox.entry import Level
from onnxlab_class.sandbox.watcher import Limits

__all__ = [
    "CELLS",
    "CRASH",
    "ENVIRONMENT",
    "FOLDER_PREFIX",
    "JUDGES",
    "LARGEST_MESSAGE",
    "NOTES",
    "PACKAGES",
    "PRODUCTION",
    "READY",
    "SECRET",
    "STAGE",
    "Task",
    "report_file",
    "uses_exporter",
]

FOLDER_PREFIX = "onnxlab-grade-"
"""How the names of temporary folders begin; the process ID of the grader follows."""

PACKAGES = (Path(onnxlab.__file__).parent, Path(onnxlab_class.__file__).parent)
"""The folders of the course's two packages, which a worker imports and may read; onnxlab's has the judges."""

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "ORT_DISABLE_TELEMETRY": "1",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
"""Environment variables of every worker: threads are limited before anything is imported.

With the last one, glibc asks for huge pages. A fork then copies a smaller page table and has a third of the
page faults, which saves a seventh of a submission's CPU time. Other C libraries ignore it.
"""

LARGEST_MESSAGE = 1 << 16  # bytes
READY = b"ready"
"""What a fork server sends once it takes tasks."""

# The files in a submission's folder, and in the folder of each exercise below it.
CELLS, NOTES, PRODUCTION = "cells.json", "notes.json", "production.json"
# The files in its judge's folder, which is made after the submission's processes have ended. The submission's
# own files lie in a folder for each exercise below it; the judge's word never does.
SECRET, JUDGES = "seed.json", "judges.py"
STAGE, CRASH = (
    "stage.json",
    "crash.txt",
)  # the exercise that is being judged, and the signal that ended the judge

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
