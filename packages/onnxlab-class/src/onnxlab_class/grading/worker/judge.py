"""The judge of a submission's files: a task in a process that never runs a student's code."""

import errno
import faulthandler
import json
from dataclasses import asdict
from pathlib import Path

from onnxlab.kit.checking import judge, questions_seed
from onnxlab.kit.exercise import Exercise, lab
from onnxlab.kit.work import Work
from onnxlab_class.grading.private_judges import JudgeBroken, parts_in, with_parts
from onnxlab_class.grading.worker.report import Report, Stage
from onnxlab_class.grading.worker.task import CRASH, JUDGES, SECRET, STAGE, Task, report_file

_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}
_LONGEST_ERROR = 300  # characters
_PROTOBUF_MEMORY = "Arena alloc failed"  # protobuf's word for a MemoryError


def run(task: Task, folder: Path) -> int:
    """Judge each exercise whose files are in a folder, and write a report for each beside that folder.

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
        (folder / STAGE).write_text(json.dumps(asdict(Stage(current, part))), "utf-8")

    for exercise in with_parts(lab(task.lab).exercises, parts_in(judges, write_stage) if judges else {}):
        if exercise.id in task.exercises:
            current = exercise.id
            write_stage("")
            text = _report(
                exercise, Work(folder / current, questions_seed(exercise, task.seed)), seed
            ).as_json()
            temporary = folder / f".{report_file(current)}"
            temporary.write_text(text, "utf-8")
            temporary.replace(folder / report_file(current))  # atomic
    return 0


def _report(exercise: Exercise, work: Work, seed: int) -> Report:
    try:
        return Report.of(judge(exercise, work, seed))
    except JudgeBroken as error:
        return Report(broken=str(error))
    except Exception as error:  # a wrong answer is `Wrong`, which `judge` catches
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"[:_LONGEST_ERROR]
        if isinstance(error, OSError) and error.errno in _MACHINE:
            return Report(machine=reason)
        if isinstance(error, MemoryError) or _PROTOBUF_MEMORY in str(error):
            return Report(crashed="it took more memory than it may")
        return Report(stumbled=reason)


def _read_and_remove(path: Path) -> str:
    text = path.read_text("utf-8")
    path.unlink()
    return text
