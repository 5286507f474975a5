"""Marking one submission: run its cells in a sandbox, then judge the files they wrote in another process.

Only a judge's findings give points. What the submission writes about itself only chooses the message of a
failure. docs/grading.md says whose fault a failure is: the grader's own is raised and never gives a mark.
"""

import contextlib
import hashlib
import json
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from onnxlab.errors import OnnxLabError
from onnxlab.files import read_untrusted, remove_untrusted
from onnxlab.grading.private_judges import NONE, JudgeBroken, PrivateJudges, with_titles
from onnxlab.grading.worker.client import WorkerDied, WorkerPool
from onnxlab.grading.worker.task import (
    CELLS,
    CRASH,
    FOLDER_PREFIX,
    JUDGES,
    NOTES,
    PRODUCTION,
    REPORT,
    SECRET,
    STAGE,
    Task,
    lab,
    uses_exporter,
)
from onnxlab.labs.kit.exercise import Exercise
from onnxlab.labs.kit.outcome import Difference, Finding, Outcome, Status
from onnxlab.labs.kit.work import LARGEST
from onnxlab.sandbox.entry import Level
from onnxlab.sandbox.users import submission_user
from onnxlab.sandbox.watcher import Ending, Limits, why_it_failed

__all__ = [
    "CRASH_MESSAGE",
    "JUDGE_SECONDS",
    "JudgeFailed",
    "Marks",
    "RunSettings",
    "SandboxFailed",
    "mark",
    "remove_leftovers",
]

JUDGE_SECONDS = 60.0
"""The least time limit of a judge, in seconds; it usually takes one second."""

_ENDING_NOTES = {
    Ending.TIME: "The notebook took longer than {wall:g} seconds.",
    Ending.MEMORY: "The notebook took more than {memory} MB of memory.",
    Ending.DISK: "The notebook wrote more than {disk} MB.",
    Ending.CRASHED: "The notebook ended its process (a crash in native code, or exit()).",
}
CRASH_MESSAGE = "What was made crashes ONNX Runtime or onnx"
"""How the message begins where a submission's model crashes its judge."""
_LONGEST_TEXT = 2000  # characters of any text that a submission writes
_MOST_FILES = 24  # of one exercise
_MOST_BYTES = 128 << 20  # of all exercises of a submission; sparse files are short on the disk only once
_LARGEST_JSON = 1 << 20  # bytes


class SandboxFailed(OnnxLabError):
    """The sandbox could not be built. No submission is to blame."""


class JudgeFailed(OnnxLabError):
    """A judge had a fault or took too long. This says nothing about the submission."""


@dataclass(frozen=True)
class RunSettings:
    """The settings that every submission of a run shares.

    Attributes:
        seed: The run's seed, for the judges' test inputs; a process that runs a submission never has it.
        level: The sandbox; None for none.
        limits: What a submission may use.
        judges: The instructor's own judges.
    """

    seed: int = field(repr=False)  # Dask writes arguments to its logs
    level: Level | None
    limits: Limits
    judges: PrivateJudges = NONE


@dataclass(frozen=True)
class Marks:
    """The marks for one submission.

    Attributes:
        outcomes: One for each exercise of its lab, in order.
        evidence: The graphs to show, by exercise id.
        note: What went wrong with the notebook as a whole: cells that raised, an early end.
        seconds: How long marking took.
    """

    outcomes: tuple[Outcome, ...]
    evidence: dict[str, dict[str, Any]] = field(repr=False)
    note: str
    seconds: float


def mark(cells: list[str], lab_name: str, pool: WorkerPool, settings: RunSettings, slot: int = 0) -> Marks:
    """Run a submission's cells and judge the files they write.

    Args:
        cells: The sources of the code cells.
        lab_name: The lab.
        pool: The workers.
        settings: The run's settings.
        slot: A number that no other submission has at the same time; it chooses the submission's user.

    Raises:
        SandboxFailed: If a sandbox could not be built.
        JudgeBroken: If one of the instructor's judges has a fault.
        JudgeFailed: If a judge of the course has a fault or takes too long.
        WorkerDied: If a process of the grader died.
    """
    started = time.perf_counter()
    exercises = with_titles(lab(lab_name).exercises, settings.judges)
    ids = tuple(exercise.id for exercise in exercises)
    user = None if settings.level is None else submission_user(slot)
    with _work_folder("work") as work, _work_folder("judge") as judged:
        (work / CELLS).write_text(json.dumps(cells), "utf-8")
        _change_owner(work, user)
        task = Task(
            id=secrets.token_hex(8),
            kind="student",
            folder=str(work),
            lab=lab_name,
            exercises=ids,
            seed=_questions_seed(settings.seed),
            level=settings.level,
            limits=settings.limits,
            user=user,
            exporter=uses_exporter(lab_name, cells),
        )
        ending = _run(task, work, pool)
        note = _note(work, ending, settings.limits)
        most = _MOST_BYTES // len(ids)
        productions = {name: _collect_files(work / name, judged / name, most) for name in ids}
        pending = tuple(name for name, production in productions.items() if _was_produced(production))
        judging = replace(
            task, kind="judge", folder=str(judged), exercises=pending, limits=_judge_limits(settings.limits)
        )
        reports = _judge(judging, judged, pool, settings)
    outcomes = tuple(
        _outcome(exercise, productions[exercise.id], reports.get(exercise.id), ending)
        for exercise in exercises
    )
    evidence = {name: report["evidence"] for name, report in reports.items() if report.get("evidence")}
    return Marks(outcomes, evidence, note, time.perf_counter() - started)


def _was_produced(production: dict[str, Any]) -> bool:
    """Whether an exercise has files to judge: its status is not decided yet, and stands as null."""
    return production.get("status", "") is None


def _judge_limits(limits: Limits) -> Limits:
    """Return the limits of a judge: not below the defaults, so that `--time 1` limits only submissions."""
    default = Limits()
    wall = max(limits.wall, JUDGE_SECONDS)
    return replace(default, wall=wall, cpu=max(1, round(wall)), memory=max(limits.memory, default.memory))


def _questions_seed(seed: int) -> int:
    """Return a seed for the questions, from which the run's seed cannot be computed."""
    return int.from_bytes(hashlib.sha256(f"questions {seed}".encode()).digest()[:6], "big")


def _run(task: Task, folder: Path, pool: WorkerPool) -> Ending:
    """Run a task and return how it ended.

    Raises:
        SandboxFailed: If it was never confined.
        WorkerDied: If it was killed from outside, or the machine hardly let it run.
    """
    code = pool.run(task)
    ending = Ending.of(code)
    if ending is Ending.DISTURBED:
        reason = why_it_failed(folder) if code == ending else "its watcher was killed from outside"
        msg = f"The process that ran the submission or its judge was disturbed: {reason}."
        raise WorkerDied(msg, "", "Let the machine do less, or use fewer --jobs; the next run tries again.")
    if ending is Ending.SANDBOX_FAILED:
        msg = "The sandbox could not be built."
        raise SandboxFailed(msg, f"The reason: {why_it_failed(folder)}.", "Try a lower --isolation.")
    return ending


def _note(work: Path, ending: Ending, limits: Limits) -> str:
    values = {"wall": limits.wall, "memory": limits.memory, "disk": limits.disk}
    lines = [_ENDING_NOTES[ending].format(**values)] if ending in _ENDING_NOTES else []
    notes = _read_json(work / NOTES)
    if isinstance(notes, list):
        lines += [str(line)[:200] for line in notes[:20]]
    return "\n".join(lines)[:_LONGEST_TEXT]


def _judge(task: Task, folder: Path, pool: WorkerPool, settings: RunSettings) -> dict[str, dict[str, Any]]:
    """Judge a task's exercises; tell a judge with a fault from files that crash it.

    An exercise at which the judge ends is judged again, alone, in a new process. If that process ends too, by
    a crash or a limit on memory or disk, the files are the cause: the submission loses this exercise, and the
    others are judged all the same. Every other end is the grader's fault.

    Returns:
        A report for each exercise: `findings` and `evidence`, or `crashed`, with the reason.

    Raises:
        JudgeFailed: If a judge had a fault or took too long.
        JudgeBroken: If an instructor's own judge had a fault.
    """
    reports: dict[str, dict[str, Any]] = {}
    todo, crashed = list(task.exercises), set[str]()
    while todo:
        batch = todo[:1] if todo[0] in crashed else todo
        (folder / SECRET).write_text(str(settings.seed), "utf-8")
        (folder / JUDGES).write_text(settings.judges.text, "utf-8")
        for name in (STAGE, CRASH):
            (folder / name).unlink(missing_ok=True)
        _change_owner(folder, task.user)
        ending = _run(replace(task, id=secrets.token_hex(8), exercises=tuple(batch)), folder, pool)
        for name in batch:
            if isinstance(report := _read_json(folder / name / REPORT), dict):
                reports[name] = _without_faults(name, report)
        todo = [name for name in todo if name not in reports]
        if left := [name for name in batch if name not in reports]:
            reason = _crash_reason(left[0], ending, folder, task.limits)
            if left[0] in crashed:
                reports[left[0]] = {"crashed": reason}
                todo.remove(left[0])
            crashed.add(left[0])
    return reports


def _without_faults(name: str, report: dict[str, Any]) -> dict[str, Any]:
    """Return a report; raise if the judge had a fault."""
    if "broken" in report:
        msg = f"The private judge of {name} failed: {report['broken']}."
        raise JudgeBroken(msg)
    if "fault" in report:
        msg = f"The judge of {name} failed: {report['fault']}."
        raise JudgeFailed(msg, "", "A judge of the course has a fault; please report it.")
    return report


def _crash_reason(name: str, ending: Ending, folder: Path, limits: Limits) -> str:
    """Return how the files of an exercise crashed their judge; raise if they are not the cause."""
    stage = _read_json(folder / STAGE)
    stage = stage if isinstance(stage, dict) else {}
    signal = _crash_signal(folder / CRASH)
    limit_reasons = {
        Ending.TIME: f"it was not ready after {limits.wall:g} seconds",
        Ending.MEMORY: f"it took more than {limits.memory} MB of memory",
        Ending.DISK: f"it wrote more than {limits.disk} MB",
    }
    reason = limit_reasons.get(ending) or f"it ended its process{f' ({signal})' if signal else ''}"
    if stage.get("part"):
        msg = f"The private judge of {name} failed: {str(stage['part'])!r}: {reason}."
        raise JudgeBroken(msg)
    if ending is Ending.TIME:
        msg = f"The judge of {name} was not ready after {limits.wall:g} seconds."
        raise JudgeFailed(
            msg, "The machine is slow, or what was made never ends.", "Look at that submission."
        )
    if stage.get("exercise") != name or not (signal or ending in limit_reasons):
        msg = f"The judge of {name} failed: {reason}."
        raise JudgeFailed(msg)
    return signal or reason


def _crash_signal(path: Path) -> str:
    """Return what faulthandler wrote when a signal such as SIGSEGV ended the judge; "" if none did."""
    try:
        line = path.read_text("utf-8", "replace").partition("\n")[0]
    except OSError:
        return ""
    return line.removeprefix("Fatal Python error: ")[:80]


def _collect_files(source: Path, target: Path, most: int) -> dict[str, Any]:
    """Copy an exercise's regular files out of a student's folder, as many as fit into `most` bytes.

    Returns:
        Its production record.
    """
    target.mkdir()
    try:
        if source.is_symlink():
            return {"status": "missing"}
        with os.scandir(source) as entries:
            names = sorted(entry.name for entry in entries)[: 10 * _MOST_FILES]
    except OSError:
        return {"status": "missing"}
    names = [name for name in names if name.endswith((".onnx", ".json", ".npy")) and name != PRODUCTION]
    for name in names[:_MOST_FILES]:
        content = _read_file(source / name)
        if content is not None and len(content) <= most:
            (target / name).write_bytes(content)
            most -= len(content)
    production = _read_json(source / PRODUCTION)
    return production if isinstance(production, dict) else {"status": "missing"}


def _read_file(path: Path) -> bytes | None:
    """Return the content of a regular file of a reasonable size; None if it is anything else."""
    try:
        return read_untrusted(path, LARGEST)
    except OSError:
        return None


def _read_json(path: Path) -> Any:  # noqa: ANN401 - JSON can be anything
    """Read a file that a submission may have written; None if it is not JSON of a reasonable size."""
    content = _read_file(path)
    try:
        return None if content is None or len(content) > _LARGEST_JSON else json.loads(content)
    except (ValueError, RecursionError):
        return None


def _outcome(
    exercise: Exercise, production: dict[str, Any], report: dict[str, Any] | None, ending: Ending
) -> Outcome:
    """Return an exercise's outcome.

    Args:
        exercise: The exercise.
        production: What the submission's process wrote about it; not to be trusted.
        report: The judge's report; None if there was nothing to judge.
        ending: How the submission's process ended.
    """
    message, where, look_at = (
        str(production.get(key, ""))[:_LONGEST_TEXT] for key in ("message", "where", "look_at")
    )
    printed = production.get("printed")
    printed = printed if isinstance(printed, int) else 0
    blank = Outcome(exercise.id, Status.ERROR, 0, exercise.points, where=where, printed=printed)
    status = production.get("status", "missing")
    if status == "missing":
        late = ending is Ending.TIME
        message = "The notebook ended before this exercise was reached."
        return replace(blank, status=Status.TIMED_OUT if late else Status.ERROR, message=message)
    if status is not None:
        status = Status(status) if status in list(Status) and status != Status.PASSED else Status.ERROR
        if production.get("refused"):
            refusal = Finding("the answer can be used", False, message, look_at)
            rest = tuple(Finding(part.title, None) for part in exercise.parts)
            return replace(blank, status=status, findings=(refusal, *rest))
        return replace(blank, status=status, message=message)
    if report is None or "crashed" in report:
        why = f" ({report['crashed']}, each time it was tried)" if report else ""
        return replace(blank, status=Status.INCORRECT, message=f"{CRASH_MESSAGE}{why}.")
    findings = tuple(map(_finding, report["findings"]))
    passed = all(finding.holds for finding in findings) and len(findings) == len(exercise.parts)
    return replace(
        blank,
        status=Status.PASSED if passed else Status.INCORRECT,
        points=exercise.points if passed else 0,
        findings=findings,
    )


def _finding(fields: dict[str, Any]) -> Finding:
    difference = Difference(**fields["difference"]) if fields["difference"] else None
    return Finding(fields["title"], fields["holds"], fields["message"], fields["look_at"], difference)


def remove_leftovers() -> int:
    """Remove the folders of graders that were killed; return how many."""
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        owner = folder.name.removeprefix(FOLDER_PREFIX).partition("-")[0]
        if owner.isdigit() and not _is_running(int(owner)):
            with contextlib.suppress(OSError):
                remove_untrusted(folder)
            removed += 1
    return removed


@contextlib.contextmanager
def _work_folder(purpose: str) -> Iterator[Path]:
    """A temporary folder, removed afterwards whatever permissions the files in it have."""
    path = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-{purpose}-"))
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):  # the next run removes what is left
            remove_untrusted(path)


def _change_owner(folder: Path, user: int | None) -> None:
    """Make a user the owner of a folder and of all in it; None leaves the owner as it is."""
    if user is not None:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, user, user)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
