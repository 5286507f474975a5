"""Marking one submission: run its cells in a sandbox, then judge the files they wrote in another process.

Only a judge's findings give points. What the submission writes about itself only chooses the message of a
failure. docs/grading.md says whose fault a failure is: the grader's own is raised and never gives a mark.
"""

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from onnxlab.errors import OnnxLabError
from onnxlab.files import read_untrusted, remove_untrusted
from onnxlab.kit.exercise import Exercise, lab
from onnxlab.kit.outcome import Finding, Outcome, Status
from onnxlab.kit.work import LARGEST
from onnxlab.message import Message
from onnxlab_class.grading.private_judges import NONE, JudgeBroken, PrivateJudges, with_titles
from onnxlab_class.grading.worker.client import WorkerDied, WorkerPool
from onnxlab_class.grading.worker.report import LONGEST, Production, Report, Stage, read_record
from onnxlab_class.grading.worker.task import (
    CELLS,
    CRASH,
    FOLDER_PREFIX,
    JUDGES,
    NOTES,
    PACKAGES,
    PRODUCTION,
    SECRET,
    STAGE,
    Task,
    report_file,
    uses_exporter,
)
from onnxlab_class.sandbox.entry import Level
from onnxlab_class.sandbox.users import submission_user
from onnxlab_class.sandbox.watcher import Ending, Limits, why_it_failed

JUDGE_SECONDS = 60
"""The least limit of a judge, in seconds of CPU time; it usually takes one second."""

_ENDING_NOTES = {
    Ending.TIME: "The notebook took longer than {limits.wall:g} seconds.",
    Ending.MEMORY: "The notebook took more than {limits.memory} MB of memory.",
    Ending.DISK: "The notebook wrote more than {limits.disk} MB.",
    Ending.CRASHED: "The notebook ended its process (a crash in native code, or exit()).",
}
CRASH_MESSAGE = "What was made crashes ONNX Runtime or onnx"
"""How the message begins where a submission's model crashes its judge."""
STUMBLE_MESSAGE = "The judge could not make sense of what was handed in"
"""How the message begins where a judge of the course raised something else than `Wrong`."""
_FOLDERS = {str(folder) for package in PACKAGES for folder in package.parents[:2]}
_OWN_PLACES = sorted({sys.prefix, sys.base_prefix, *_FOLDERS}, key=len, reverse=True)
_MOST_FILES = 150  # of one exercise; the right answers make at most 110
_MOST_BYTES = 128 << 20  # of all exercises of a submission; sparse files are short on the disk only once
_LARGEST_RECORD = 1 << 20  # bytes of what a submission's process writes about an exercise
_LARGEST_REPORT = 4 << 20  # bytes; two models in base64, and short texts


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
        parts: Whether the parts that hold give points, too, and not only whole exercises.
    """

    seed: int = field(repr=False)  # Dask writes arguments to its logs
    level: Level | None
    limits: Limits
    judges: PrivateJudges = NONE
    parts: bool = False


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
    """Run the sources of a submission's code cells and judge the files they write.

    The slot is a number that no other submission has at the same time; it chooses the submission's user.

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
    with _work_folder("work") as work, _work_folder("files") as files:
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
        productions = {name: _collect_files(work / name, files / name, most) for name in ids}
        judging = replace(
            task,
            kind="judge",
            exercises=tuple(name for name, record in productions.items() if record and record.status is None),
            limits=_judge_limits(settings.limits),
        )
        reports = _judge(judging, files, pool, settings)
    outcomes = tuple(
        _outcome(exercise, productions[exercise.id], reports.get(exercise.id), ending)
        for exercise in exercises
    )
    if settings.parts:
        outcomes = tuple(map(with_points_for_parts, outcomes))
    evidence = {name: asdict(report.graphs) for name, report in reports.items() if report.graphs}
    return Marks(outcomes, evidence, note, time.perf_counter() - started)


def _judge_limits(limits: Limits) -> Limits:
    """Return the limits of a judge: not below the defaults, so that `--time 1` limits only submissions."""
    default = Limits()
    cpu = max(limits.cpu, JUDGE_SECONDS)
    return replace(default, wall=2.0 * cpu, cpu=cpu, memory=max(limits.memory, default.memory))


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
    lines: list[str] = []
    if ending in _ENDING_NOTES:
        lines = [Message(_ENDING_NOTES[ending], limits=limits)]
    notes = read_record(_read_file(work / NOTES, _LARGEST_RECORD), list[str]) or []
    lines += [_without_own_paths(line)[:200] for line in notes[:20]]
    return Message.compose("\n", lines)[:LONGEST]


def _judge(task: Task, files: Path, pool: WorkerPool, settings: RunSettings) -> dict[str, Report]:
    """Judge a task's exercises; tell a judge with a fault from files that crash it.

    An exercise at which the judge stumbles or ends is judged again, alone, in a new process. If that ends by
    an exception, a crash or a limit, too, the files are the cause: the submission loses this exercise, and
    the others are judged all the same. Every other end is the grader's fault. There is no second try after a
    limit on time that an exercise had to itself.

    After each process that ended, the next one has half of its time: all together have twice the limit.
    The submission's files lie in a folder for each exercise.

    Raises:
        JudgeFailed: If the machine kept a judge from its work.
        JudgeBroken: If an instructor's own judge had a fault.
    """
    reports: dict[str, Report] = {}
    todo, failed = list(task.exercises), set[str]()
    while todo:
        batch = todo[:1] if todo[0] in failed else todo
        judged, ending = _judge_once(replace(task, exercises=tuple(batch)), files, pool, settings)
        reports |= {name: report for name, report in judged.items() if report.parts}
        if left := [name for name in batch if name not in reports]:
            name = left[0]
            if name in failed or (ending is Ending.TIME and name == batch[0]):
                again = name in failed and judged[name].crashed
                crashed = f"{again}, each time it was tried" if again else judged[name].crashed
                reports[name] = replace(judged[name], crashed=crashed)
            failed.add(name)
            if judged[name].crashed:
                task = replace(task, limits=_halved(task.limits))
        todo = [name for name in todo if name not in reports]
    return reports


def _halved(limits: Limits) -> Limits:
    """Return limits with half of the time, and at least a second of it."""
    return replace(limits, wall=max(2.0, limits.wall / 2), cpu=max(1, limits.cpu // 2))


def _judge_once(
    task: Task, files: Path, pool: WorkerPool, settings: RunSettings
) -> tuple[dict[str, Report], Ending]:
    """Judge exercises in one process; return reports up to and with the first that ended it, and its end.

    Its folder is new: nothing in it but the copied files was there while a process of the submission ran.
    """
    reports: dict[str, Report] = {}
    with _work_folder("judge") as folder:
        for name in task.exercises:
            shutil.copytree(files / name, folder / name)
        (folder / SECRET).write_text(str(settings.seed), "utf-8")
        (folder / JUDGES).write_text(settings.judges.text, "utf-8")
        _change_owner(folder, task.user)
        ending = _run(replace(task, id=secrets.token_hex(8), folder=str(folder)), folder, pool)
        for name in task.exercises:
            report = read_record(_read_file(folder / report_file(name), _LARGEST_REPORT), Report)
            if report is None:
                reports[name] = Report(crashed=_crash_reason(name, ending, folder, task.limits))
                break
            if report.broken:
                msg = f"The private judge of {name} failed: {report.broken}."
                raise JudgeBroken(msg)
            if report.machine:
                msg = f"The judge of {name} failed: {report.machine}."
                raise JudgeFailed(msg, "The machine refused it something.", "Is there room, and memory?")
            reports[name] = report
    return reports, ending


def _crash_reason(name: str, ending: Ending, folder: Path, limits: Limits) -> str:
    """Return how the files of an exercise ended their judge; raise if they are not the cause."""
    stage = read_record(_read_file(folder / STAGE, _LARGEST_RECORD), Stage)
    signal = _crash_signal(folder / CRASH)
    limit_reasons = {
        Ending.TIME: f"it did not finish in {limits.cpu} seconds of CPU time",
        Ending.MEMORY: f"it took more than {limits.memory} MB of memory",
        Ending.DISK: f"it wrote more than {limits.disk} MB",
    }
    reason = limit_reasons.get(ending) or f"it ended its process{f' ({signal})' if signal else ''}"
    if stage and stage.part:
        msg = f"The private judge of {stage.exercise} failed: {stage.part!r}: {reason}."
        raise JudgeBroken(msg)
    if not stage or stage.exercise != name or not (signal or ending in limit_reasons):
        msg = f"The judge of {name} failed: {reason}."
        raise JudgeFailed(msg)
    return signal or reason


def _crash_signal(path: Path) -> str:
    """Return what faulthandler wrote when a signal such as SIGSEGV ended the judge; "" if none did."""
    line = (_read_file(path, _LARGEST_RECORD) or b"").decode("utf-8", "replace").partition("\n")[0]
    return line.removeprefix("Fatal Python error: ")[:80]


def _collect_files(source: Path, target: Path, most: int) -> Production | None:
    """Copy an exercise's regular files out of a student's folder, as many as fit into `most` bytes.

    Returns:
        Its record; None if there is none that can be read.
    """
    target.mkdir()
    try:
        if source.is_symlink():
            return None
        with os.scandir(source) as entries:
            names = sorted(entry.name for entry in entries)[: 10 * _MOST_FILES]
    except OSError:
        return None
    names = [name for name in names if name.endswith((".onnx", ".json", ".npy")) and name != PRODUCTION]
    for name in names[:_MOST_FILES]:
        if (content := _read_file(source / name, min(LARGEST, most))) is not None:
            (target / name).write_bytes(content)
            most -= len(content)
    return read_record(_read_file(source / PRODUCTION, _LARGEST_RECORD), Production)


def with_points_for_parts(outcome: Outcome) -> Outcome:
    """Return an outcome with the points of the parts that hold, rounded down.

    Example:
        >>> parts = (Finding("a", True), Finding("b", True), Finding("c", False))
        >>> with_points_for_parts(Outcome("one", Status.INCORRECT, 0, 4, parts)).points
        2
    """
    if outcome.status is not Status.INCORRECT or not outcome.findings:
        return outcome
    held = sum(finding.holds is True for finding in outcome.findings)
    return replace(outcome, points=outcome.possible * held // len(outcome.findings))


def _read_file(path: Path, most: int) -> bytes | None:
    """Return the content of a regular file of at most so many bytes; None if it is anything else."""
    try:
        return read_untrusted(path, most)
    except OSError:
        return None


def _outcome(
    exercise: Exercise, production: Production | None, report: Report | None, ending: Ending
) -> Outcome:
    """Return an exercise's outcome.

    Args:
        exercise: The exercise.
        production: What the submission's process wrote about it; not to be trusted.
        report: The judge's report; None if there was nothing to judge.
        ending: How the submission's process ended.
    """
    blank = Outcome(exercise.id, Status.ERROR, 0, exercise.points)
    if production is None:
        late = ending is Ending.TIME
        message = "The notebook ended before this exercise was reached."
        return replace(blank, status=Status.TIMED_OUT if late else Status.ERROR, message=message)
    message, look_at, where = (
        _without_own_paths(text) for text in (production.message, production.look_at, production.where)
    )
    blank = replace(blank, where=where, printed=production.printed)
    if report is None:
        undone = [status for status in Status if status is not Status.PASSED]
        status = next((status for status in undone if status == production.status), Status.ERROR)
        if production.refused:
            refusal = Finding("the answer can be used", False, message, look_at)
            rest = tuple(Finding(title, None) for title in exercise.parts)
            return replace(blank, status=status, findings=(refusal, *rest))
        if status is Status.INCORRECT:  # it is for the judge's word; see `judge_failure`
            status = Status.ERROR
        return replace(blank, status=status, message=message)
    if report.crashed or report.stumbled:
        message = STUMBLE_MESSAGE if report.stumbled else CRASH_MESSAGE
        why = report.stumbled or report.crashed
        return replace(blank, status=Status.INCORRECT, message=f"{message} ({why}).")
    findings = tuple(part.finding() for part in report.parts)
    passed = all(finding.holds for finding in findings) and len(findings) == len(exercise.parts)
    return replace(
        blank,
        status=Status.PASSED if passed else Status.INCORRECT,
        points=exercise.points if passed else 0,
        findings=findings,
    )


def _without_own_paths(text: str) -> str:
    """Leave out of a text where this program is installed: feedback need not show it; a message stays one."""
    if isinstance(text, Message) and text.values:
        values = {gap: _without_own_paths(value) for gap, value in text.values.items()}
        return Message.filled(_without_own_paths(text.template), values)
    for place in _OWN_PLACES:
        text = text.replace(place, "...")
    return text[:LONGEST]


def judge_failure(outcome: Mapping[str, Any]) -> str:
    """Return how a judge failed on what was handed in, given an outcome as JSON; "" if it did not.

    The message alone would not show it: a submission can write the same one, but only as another status.
    """
    message = str(outcome.get("message", ""))
    failed = outcome.get("status") == Status.INCORRECT and message.startswith(
        (CRASH_MESSAGE, STUMBLE_MESSAGE)
    )
    return message if failed else ""


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
    """Make a user the owner of a new folder and of all in it; None leaves the owner as it is.

    The folder itself is last: before that, the user can put nothing in it, such as a link.
    """
    if user is not None:
        for path in [*folder.rglob("*"), folder]:
            os.chown(path, user, user, follow_symlinks=False)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
