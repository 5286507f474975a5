"""Judging what a submission made: in a process that never ran a student's code, with a seed of its own."""

import base64
import json
from pathlib import Path
from typing import Any

from onnxlab.grading.private_parts import JudgeBroken, parts_in, with_parts
from onnxlab.grading.tasks import FINDINGS, JUDGES, SECRET, Task
from onnxlab.labs.checking import judge, questions_seed
from onnxlab.labs.exercise import Exercise, lab
from onnxlab.labs.outcome import Evidence, Finding
from onnxlab.labs.work import Work

__all__ = ["run"]

_LARGEST_EVIDENCE = 300_000  # bytes of a model that is kept to be shown


def run(task: Task, folder: Path) -> int:
    """Judge each exercise whose files are in a folder, and write what was found, one file for each.

    The seed of the test inputs is read from a file that is gone before the first model is opened: one that
    takes over the runtime still finds nothing. The instructor's own judges come the same way.
    """
    seed = int(json.loads(_taken(folder / SECRET)))
    own = _taken(folder / JUDGES)
    for exercise in with_parts(lab(task.lab).exercises, parts_in(own) if own else {}):
        if exercise.id in task.exercises:
            place = folder / exercise.id
            try:
                findings = judge(exercise, Work(place, questions_seed(exercise, task.seed)), seed)
                text = json.dumps(_as_json(exercise, findings))
            except JudgeBroken as error:
                text = json.dumps({"broken": str(error)})
            temporary = place / f".{FINDINGS}"
            temporary.write_text(text, "utf-8")
            temporary.replace(place / FINDINGS)  # whole, or not there
    return 0


def _taken(path: Path) -> str:
    """Read a file and remove it."""
    text = path.read_text("utf-8")
    path.unlink()
    return text


def _as_json(exercise: Exercise, findings: tuple[Finding, ...]) -> dict[str, Any]:
    shown = next((one.evidence for one in findings if one.holds is False and one.evidence), None)
    return {
        "exercise": exercise.id,
        "findings": [
            {
                "title": one.title,
                "holds": one.holds,
                "message": one.message,
                "look_at": one.look_at,
                "difference": vars(one.difference) if one.difference else None,
            }
            for one in findings
        ],
        "evidence": _evidence(shown) if shown else None,
    }


def _evidence(shown: Evidence) -> dict[str, Any] | None:
    if len(shown.model) > _LARGEST_EVIDENCE:
        return None
    return {
        "model": base64.b64encode(shown.model).decode(),
        "expected": None if shown.expected is None else base64.b64encode(shown.expected).decode(),
        "highlight": list(shown.highlight),
    }
