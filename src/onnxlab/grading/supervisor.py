"""One submission, from its notebook to its marks: run it, take what it made, judge that elsewhere."""

import hashlib
import json
import os
import secrets
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from onnxlab.errors import OnnxLabError
from onnxlab.grading.catalogue import lab, uses_exporter
from onnxlab.grading.levels import Ending, Level, Limits, ending
from onnxlab.grading.marks import outcome_of
from onnxlab.grading.pool import Processes
from onnxlab.grading.private_judges import NONE, PrivateJudges
from onnxlab.grading.private_parts import JudgeBroken, expected
from onnxlab.grading.sandbox import why_it_failed
from onnxlab.grading.taking import read_json, take_out
from onnxlab.grading.tasks import CELLS, FINDINGS, JUDGES, NOTES, PREFIX, SECRET, Task
from onnxlab.grading.users import throw_away_user
from onnxlab.grading.work_folders import WorkFolder, give, sweep
from onnxlab.labs.outcome import Outcome

__all__ = ["PREFIX", "Marked", "SandboxFailed", "mark", "sweep"]

_TEXT = 2000  # characters of anything a submission says
_RUNS, _PLACES = 200, 64  # so that two graders at a time seldom use the same throw-away users

_ENDED = {
    Ending.TIME: "The notebook took longer than {wall:g} seconds.",
    Ending.MEMORY: "The notebook took more than {memory} MB of memory.",
    Ending.DISK: "The notebook wrote more than {disk} MB.",
    Ending.CRASHED: "The notebook ended its process (a crash in native code, or exit()).",
}


class SandboxFailed(OnnxLabError):
    """The sandbox could not be built. No submission is to blame."""


@dataclass(frozen=True)
class Marked:
    """The marks for one submission.

    Attributes:
        outcomes: One for each exercise of its lab, in order.
        evidence: The graphs to show for an exercise, by its id.
        note: What went wrong with the notebook as a whole: cells that raised, an end before its time.
        seconds: How long it took.
    """

    outcomes: tuple[Outcome, ...]
    evidence: dict[str, dict[str, Any]] = field(repr=False)
    note: str
    seconds: float


def mark(
    cells: list[str],
    name: str,
    pool: Processes,
    *,
    seed: int,
    level: Level | None,
    limits: Limits,
    place: int = 0,
    judges: PrivateJudges = NONE,
) -> Marked:
    """Run a submission's cells and judge what they make.

    Args:
        cells: The sources of the code cells.
        name: The lab.
        pool: What runs tasks.
        seed: The run's seed; the judges' own is derived from it and is never where the submission runs.
        level: How the submission is confined.
        limits: What it may use.
        place: A number that no other submission has at the same time.
        judges: What is asked besides the exercises' own parts.

    Raises:
        SandboxFailed: If a sandbox could not be built.
        JudgeBroken: If one of `judges` has a fault.
        WorkerDied: If a process of the grader died.
    """
    started = time.perf_counter()
    exercises = expected(lab(name).exercises, judges)
    ids = tuple(each.id for each in exercises)
    own = place + os.getpid() % _RUNS * _PLACES
    user = None if level is None else throw_away_user(own) or throw_away_user(place)
    with WorkFolder("work") as work, WorkFolder("judge") as judged:
        (work / CELLS).write_text(json.dumps(cells), "utf-8")
        give(work, user)
        task = Task(
            id=secrets.token_hex(8),
            kind="student",
            folder=str(work),
            lab=name,
            exercises=ids,
            seed=_questions_seed(seed),
            level=level,
            limits=limits,
            user=user,
            exporter=uses_exporter(name, cells),
        )
        how = _ending(pool.run(task), work)
        notes = _notes(work, how, limits)
        produced = {each.id: take_out(work / each.id, judged / each.id) for each in exercises}
        waiting = tuple(each.id for each in exercises if produced[each.id].get("status", "") is None)
        found = _judged(judged, replace(task, kind="judge", folder=str(judged)), waiting, pool, seed, judges)
    outcomes = tuple(outcome_of(each, produced[each.id], found.get(each.id), how) for each in exercises)
    evidence = {name: data["evidence"] for name, data in found.items() if data and data.get("evidence")}
    return Marked(outcomes, evidence, notes, time.perf_counter() - started)


def _questions_seed(seed: int) -> int:
    """A seed from which the run's seed cannot be had."""
    return int.from_bytes(hashlib.sha256(f"questions {seed}".encode()).digest()[:6], "big")


def _ending(code: int, folder: Path) -> Ending:
    how = ending(code)
    if how is Ending.SANDBOX_FAILED:
        msg = "The sandbox could not be built."
        raise SandboxFailed(msg, f"The reason: {why_it_failed(folder)}.", "Try a lower --isolation.")
    return how


def _notes(work: Path, how: Ending, limits: Limits) -> str:
    values = {"wall": limits.wall, "memory": limits.memory, "disk": limits.disk}
    lines = [_ENDED[how].format(**values)] if how in _ENDED else []
    noted = read_json(work / NOTES)
    if isinstance(noted, list):
        lines += [str(line)[:200] for line in noted[:20]]
    return "\n".join(lines)[:_TEXT]


def _judged(
    folder: Path, task: Task, waiting: tuple[str, ...], pool: Processes, seed: int, judges: PrivateJudges
) -> dict[str, dict[str, Any] | None]:
    """Judge exercises; one whose files crash the judge does not keep the others from being judged."""
    found: dict[str, dict[str, Any] | None] = {}
    while waiting:
        (folder / SECRET).write_text(str(seed), "utf-8")
        (folder / JUDGES).write_text(judges.text, "utf-8")
        give(folder, task.user)
        how = _ending(pool.run(replace(task, id=secrets.token_hex(8), exercises=waiting)), folder)
        for name in waiting:
            if isinstance(data := read_json(folder / name / FINDINGS), dict):
                if "broken" in data:
                    msg = f"The private judge of {name} failed: {data['broken']}."
                    raise JudgeBroken(msg)
                found[name] = data
        rest = [name for name in waiting if name not in found]
        if rest and how is Ending.FINISHED:
            msg = f"The judge of {rest[0]} ended without a result."
            raise SandboxFailed(msg)
        if rest:
            found[rest[0]] = None  # it crashed the judge
        waiting = tuple(rest[1:])
    return found
