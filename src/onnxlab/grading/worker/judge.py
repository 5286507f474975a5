"""The judge of a submission's files: a task in a process that never runs a student's code."""

import base64
import faulthandler
import json
from pathlib import Path
from typing import Any

from onnxlab.grading.private_judges import JudgeBroken, parts_in, with_parts
from onnxlab.grading.worker.task import CRASH, JUDGES, REPORT, SECRET, STAGE, Task
from onnxlab.labs.kit.checking import judge, questions_seed
from onnxlab.labs.kit.exercise import Exercise, lab
from onnxlab.labs.kit.outcome import Evidence, Finding
from onnxlab.labs.kit.work import Work

__all__ = ["run"]

_LARGEST_EVIDENCE = 300_000  # bytes of a model that feedback shows


def run(task: Task, folder: Path) -> int:
    """Judge each exercise whose files are in a folder, and write a report for each.

    The seed of the test inputs and the instructor's own judges are read from files, which are removed before
    the first model is opened: a model that takes over ONNX Runtime finds neither.

    If a model ends this process, the file `STAGE` names the exercise (and the instructor's part, if it was
    one), and `CRASH` names the signal if this process raised it itself, as by a segmentation fault.
    """
    crash = (folder / CRASH).open("w", encoding="utf-8")
    faulthandler.enable(
        crash, all_threads=False
    )  # it has its own stack, so it works after a stack overflow, too
    seed = int(json.loads(_read_and_remove(folder / SECRET)))
    judges = _read_and_remove(folder / JUDGES)

    def write_stage(part: str) -> None:
        (folder / STAGE).write_text(json.dumps({"exercise": current, "part": part}), "utf-8")

    for exercise in with_parts(lab(task.lab).exercises, parts_in(judges, write_stage) if judges else {}):
        if exercise.id in task.exercises:
            place, current = folder / exercise.id, exercise.id
            write_stage("")
            try:
                findings = judge(exercise, Work(place, questions_seed(exercise, task.seed)), seed)
                text = json.dumps(_as_json(exercise, findings))
            except JudgeBroken as error:
                text = json.dumps({"broken": str(error)})
            except (
                Exception
            ) as error:  # a wrong answer is `Wrong`, which `judge` catches; all else is a fault of the judge
                text = json.dumps({"fault": f"{type(error).__name__}: {error}"[:500]})
            temporary = place / f".{REPORT}"
            temporary.write_text(text, "utf-8")
            temporary.replace(place / REPORT)  # atomic
    return 0


def _read_and_remove(path: Path) -> str:
    text = path.read_text("utf-8")
    path.unlink()
    return text


def _as_json(exercise: Exercise, findings: tuple[Finding, ...]) -> dict[str, Any]:
    evidence = next(
        (finding.evidence for finding in findings if finding.holds is False and finding.evidence), None
    )
    return {
        "exercise": exercise.id,
        "findings": [
            {
                "title": finding.title,
                "holds": finding.holds,
                "message": finding.message,
                "look_at": finding.look_at,
                "difference": vars(finding.difference) if finding.difference else None,
            }
            for finding in findings
        ],
        "evidence": _evidence(evidence) if evidence else None,
    }


def _evidence(evidence: Evidence) -> dict[str, Any] | None:
    if len(evidence.model) > _LARGEST_EVIDENCE:
        return None
    return {
        "model": base64.b64encode(evidence.model).decode(),
        "expected": None if evidence.expected is None else base64.b64encode(evidence.expected).decode(),
        "highlight": list(evidence.highlight),
    }
