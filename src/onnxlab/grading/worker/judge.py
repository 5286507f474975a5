"""Judging what a submission made: in a process that never ran a student's code, with a seed of its own."""

import base64
import faulthandler
import json
from pathlib import Path
from typing import Any

from onnxlab.grading.private_judges import JudgeBroken, parts_in, with_parts
from onnxlab.grading.worker.task import CRASH, FINDINGS, JUDGES, SECRET, STAGE, Task
from onnxlab.labs.kit.checking import judge, questions_seed
from onnxlab.labs.kit.exercise import Exercise, lab
from onnxlab.labs.kit.outcome import Evidence, Finding
from onnxlab.labs.kit.work import Work

__all__ = ["run"]

_LARGEST_EVIDENCE = 300_000  # bytes of a model that is kept to be shown


def run(task: Task, folder: Path) -> int:
    """Judge each exercise whose files are in a folder, and write what was found, one file for each.

    The seed of the test inputs is read from a file that is gone before the first model is opened: one that
    takes over the runtime still finds nothing. The instructor's own judges come the same way.

    If this process is ended over a model, `STAGE` says which exercise it was at, and whether in a part of the
    instructor's; `CRASH` names the signal, if it came from within.
    """
    crash = (folder / CRASH).open("w", encoding="utf-8")
    faulthandler.enable(crash, all_threads=False)  # works on a stack of its own: also when that overflowed
    seed = int(json.loads(_taken(folder / SECRET)))
    own = _taken(folder / JUDGES)

    def begin(part: str) -> None:
        (folder / STAGE).write_text(json.dumps({"exercise": current, "part": part}), "utf-8")

    for exercise in with_parts(lab(task.lab).exercises, parts_in(own, begin) if own else {}):
        if exercise.id in task.exercises:
            place, current = folder / exercise.id, exercise.id
            begin("")
            try:
                findings = judge(exercise, Work(place, questions_seed(exercise, task.seed)), seed)
                text = json.dumps(_as_json(exercise, findings))
            except JudgeBroken as error:
                text = json.dumps({"broken": str(error)})
            except Exception as error:  # a judge says `Wrong` of what is wrong; all else is its own fault
                text = json.dumps({"fault": f"{type(error).__name__}: {error}"[:500]})
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
