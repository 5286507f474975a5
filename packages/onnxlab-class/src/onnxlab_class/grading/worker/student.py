"""The run of a submission: its cells, then the functions of each exercise. Hostile from the first cell on.

Only the files that it writes leave this process, and none is trusted: a judge checks the models, and the
notes on errors only tell the student what happened.
"""

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import torch

from onnxlab.kit.checking import questions_seed, refused
from onnxlab.kit.exercise import lab
from onnxlab.kit.exporting import first_line
from onnxlab.kit.producing import TimeLimitReached, produce, time_limit
from onnxlab.kit.work import Work
from onnxlab.message import with_templates
from onnxlab_class.grading.worker.task import CELLS, NOTES, PRODUCTION, Task

_MOST_NOTES = 50
_DISPLAYS = ("atlas", "check", "graph", "hint", "progress", "require")  # they take time and give no points

_shell: Any = None


def prepare() -> None:
    """Make the IPython shell that runs cells as a notebook does, without history and threads."""
    global _shell  # made once in the fork server, used in each fork
    from IPython.core.history import HistoryManager
    from IPython.core.interactiveshell import InteractiveShell

    HistoryManager.enabled = False
    _shell = InteractiveShell.instance(colors="nocolor")
    _shell.system = _shell.system_raw
    _shell._tee = lambda channel: contextlib.nullcontext()  # else it keeps all that is printed
    _shell.showtraceback = lambda *_, **__: None  # nobody would read it
    state = torch.get_rng_state()
    _shell.run_cell("assert __import__('torch').manual_seed(0)", store_history=False)  # reads sources
    torch.set_rng_state(state)


def run(task: Task, folder: Path) -> int:
    """Run the cells in a folder's `cells.json`, and write what the exercises' functions return."""
    for name in _DISPLAYS:
        setattr(sys.modules["onnxlab"], name, lambda *_, **__: None)
    notes: list[str] = []
    for number, source in enumerate(json.loads((folder / CELLS).read_text("utf-8")), 1):
        if problem := _run_cell(source, task.limits.cell):
            notes.append(f"cell {number}: {problem}")
        if len(notes) == _MOST_NOTES:
            break
    (folder / NOTES).write_text(json.dumps(notes), "utf-8")
    names = _shell.user_ns
    for exercise in lab(task.lab).exercises:
        if exercise.id not in task.exercises:
            continue
        place = folder / exercise.id
        place.mkdir(exist_ok=True)
        if any(answer not in names for answer in exercise.answers):
            production: dict[str, Any] = {"status": "not attempted"}
        else:
            answers = {answer: names[answer] for answer in exercise.answers}
            produced = refused(exercise, answers) or produce(
                exercise, answers, Work(place, questions_seed(exercise, task.seed))
            )
            production = {
                "status": produced.status and str(produced.status),
                "message": produced.wrong.message if produced.wrong else produced.message,
                "look_at": produced.wrong.look_at if produced.wrong else "",
                "refused": produced.wrong is not None,
                "where": produced.where,
                "printed": produced.printed,
                "seconds": round(produced.seconds, 3),
            }
        (place / PRODUCTION).write_text(json.dumps(with_templates(production)), "utf-8")
    return 0


def _run_cell(source: str, seconds: float) -> str:
    """Run a cell; return what went wrong in a line."""
    try:
        with time_limit(seconds):
            result = _shell.run_cell(source, store_history=False)
    except TimeLimitReached:
        return f"not ready after {seconds:g} seconds"
    except BaseException as error:  # whatever a cell does, the next one is run
        return first_line(error)
    problem = result.error_before_exec or result.error_in_exec
    if isinstance(problem, TimeLimitReached):
        return f"not ready after {seconds:g} seconds"
    return first_line(problem) if problem else ""
