"""One submission, from its cells to its marks: run it, take what it made, judge that elsewhere.

Only a judge's findings give points. What the submission says about itself decides how its failure is named.
docs/grading.md says whose fault a failure is: what is the grader's is raised, and never a mark.
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
from onnxlab.files import read_untrusted
from onnxlab.grading.private_judges import NONE, JudgeBroken, PrivateJudges, expected
from onnxlab.grading.worker.client import Processes
from onnxlab.grading.worker.task import (
    CELLS,
    CRASH,
    FINDINGS,
    JUDGES,
    NOTES,
    PREFIX,
    PRODUCTION,
    SECRET,
    STAGE,
    Task,
    lab,
    uses_exporter,
)
from onnxlab.labs.kit.exercise import Exercise
from onnxlab.labs.kit.outcome import Difference, Finding, Outcome, Status
from onnxlab.labs.kit.work import LARGEST
from onnxlab.sandbox.entry import why_it_failed
from onnxlab.sandbox.levels import Ending, Level, Limits, ending
from onnxlab.sandbox.users import submission_user
from onnxlab.sandbox.watcher import remove

__all__ = ["CRASHES", "JUDGE_SECONDS", "JudgeFailed", "Marked", "SandboxFailed", "Terms", "mark", "sweep"]

JUDGE_SECONDS = 60.0
"""Seconds that a judge has at least; it takes one."""

_ENDED = {
    Ending.TIME: "The notebook took longer than {wall:g} seconds.",
    Ending.MEMORY: "The notebook took more than {memory} MB of memory.",
    Ending.DISK: "The notebook wrote more than {disk} MB.",
    Ending.CRASHED: "The notebook ended its process (a crash in native code, or exit()).",
}
CRASHES = "What was made crashes ONNX Runtime or onnx"
"""How the message of such an outcome begins."""
_TEXT = 2000  # characters of anything a submission says
_FILES = 24  # of one exercise
_JSON = 1 << 20  # bytes of a note


class SandboxFailed(OnnxLabError):
    """The sandbox could not be built. No submission is to blame."""


class JudgeFailed(OnnxLabError):
    """A judge had a fault, or was not ready in time. It says nothing about what it judged."""


@dataclass(frozen=True)
class Terms:
    """What holds for every submission of a run.

    Attributes:
        seed: The run's seed; the judges' own is derived from it and is never where a submission runs.
        level: How submissions are confined; None for not at all.
        limits: What a submission may use.
        judges: What is asked besides the exercises' own parts.
    """

    seed: int = field(repr=False)  # Dask writes arguments to its logs
    level: Level | None
    limits: Limits
    judges: PrivateJudges = NONE


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


def mark(cells: list[str], name: str, pool: Processes, terms: Terms, place: int = 0) -> Marked:
    """Run a submission's cells and judge what they make.

    Args:
        cells: The sources of the code cells.
        name: The lab.
        pool: What runs tasks.
        terms: The run's.
        place: A number that no other submission has at the same time.

    Raises:
        SandboxFailed: If a sandbox could not be built.
        JudgeBroken: If one of the instructor's judges has a fault.
        JudgeFailed: If a judge of the course has one, or is not ready in time.
        WorkerDied: If a process of the grader died.
    """
    started = time.perf_counter()
    exercises = expected(lab(name).exercises, terms.judges)
    ids = tuple(each.id for each in exercises)
    user = None if terms.level is None else submission_user(place)
    with _work_folder("work") as work, _work_folder("judge") as judged:
        (work / CELLS).write_text(json.dumps(cells), "utf-8")
        _give(work, user)
        task = Task(
            id=secrets.token_hex(8),
            kind="student",
            folder=str(work),
            lab=name,
            exercises=ids,
            seed=_questions_seed(terms.seed),
            level=terms.level,
            limits=terms.limits,
            user=user,
            exporter=uses_exporter(name, cells),
        )
        how = _ending(pool.run(task), work)
        notes = _notes(work, how, terms.limits)
        produced = {each.id: _take_out(work / each.id, judged / each.id) for each in exercises}
        waiting = tuple(each.id for each in exercises if produced[each.id].get("status", "") is None)
        judging = replace(task, kind="judge", folder=str(judged), limits=_judges_limits(terms.limits))
        found = _judged(judged, judging, waiting, pool, terms)
    outcomes = tuple(_outcome(each, produced[each.id], found.get(each.id), how) for each in exercises)
    evidence = {name: data["evidence"] for name, data in found.items() if data.get("evidence")}
    return Marked(outcomes, evidence, notes, time.perf_counter() - started)


def _judges_limits(limits: Limits) -> Limits:
    """Return what a judge may use: `--time 1` is a limit for students, and no judge is to fail by it."""
    least = Limits()
    wall = max(limits.wall, JUDGE_SECONDS)
    return replace(least, wall=wall, cpu=max(1, round(wall)), memory=max(limits.memory, least.memory))


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
    noted = _read_json(work / NOTES)
    if isinstance(noted, list):
        lines += [str(line)[:200] for line in noted[:20]]
    return "\n".join(lines)[:_TEXT]


def _judged(
    folder: Path, task: Task, waiting: tuple[str, ...], pool: Processes, terms: Terms
) -> dict[str, dict[str, Any]]:
    """Judge exercises, and tell a judge that fails from files that end it.

    An exercise over which the judge is ended is judged again, alone, in a process of its own. If that is
    ended too, by a signal from within or a limit on memory or disk, the files did it: it is the submission's,
    and the other exercises are judged all the same. Every other end is the grader's fault.

    Raises:
        JudgeFailed: If a judge had a fault, or was not ready in time.
        JudgeBroken: If an instructor's own judge had.
    """
    found: dict[str, dict[str, Any]] = {}
    todo, crashed = list(waiting), set[str]()
    while todo:
        batch = todo[:1] if todo[0] in crashed else todo
        (folder / SECRET).write_text(str(terms.seed), "utf-8")
        (folder / JUDGES).write_text(terms.judges.text, "utf-8")
        for name in (STAGE, CRASH):
            (folder / name).unlink(missing_ok=True)
        _give(folder, task.user)
        how = _ending(pool.run(replace(task, id=secrets.token_hex(8), exercises=tuple(batch))), folder)
        for name in batch:
            if isinstance(data := _read_json(folder / name / FINDINGS), dict):
                found[name] = _findings(name, data)
        todo = [name for name in todo if name not in found]
        if left := [name for name in batch if name not in found]:
            reason = _crash(left[0], how, folder, task.limits)
            if left[0] in crashed:
                found[left[0]] = {"crashed": reason}
                todo.remove(left[0])
            crashed.add(left[0])
    return found


def _findings(name: str, data: dict[str, Any]) -> dict[str, Any]:
    if "broken" in data:
        msg = f"The private judge of {name} failed: {data['broken']}."
        raise JudgeBroken(msg)
    if "fault" in data:
        msg = f"The judge of {name} failed: {data['fault']}."
        raise JudgeFailed(msg, "", "A judge of the course has a fault; please report it.")
    return data


def _crash(name: str, how: Ending, folder: Path, limits: Limits) -> str:
    """Return how the files of an exercise ended their judge; raise if it was not they."""
    stage = _read_json(folder / STAGE)
    at = stage if isinstance(stage, dict) else {}
    signal = _crash_signal(folder / CRASH)
    ends = {
        Ending.TIME: f"it was not ready after {limits.wall:g} seconds",
        Ending.MEMORY: f"it took more than {limits.memory} MB of memory",
        Ending.DISK: f"it wrote more than {limits.disk} MB",
    }
    reason = ends.get(how) or f"it ended its process{f' ({signal})' if signal else ''}"
    if at.get("part"):
        msg = f"The private judge of {name} failed: {str(at['part'])!r}: {reason}."
        raise JudgeBroken(msg)
    if how is Ending.TIME:
        msg = f"The judge of {name} was not ready after {limits.wall:g} seconds."
        raise JudgeFailed(
            msg, "The machine is slow, or what was made never ends.", "Look at that submission."
        )
    if at.get("exercise") != name or not (signal or how in ends):
        msg = f"The judge of {name} failed: {reason}."
        raise JudgeFailed(msg)
    return signal or reason


def _crash_signal(path: Path) -> str:
    """Return what Python wrote as a signal from within ended the judge; "" if none did."""
    try:
        first = path.read_text("utf-8", "replace").partition("\n")[0]
    except OSError:
        return ""
    return first.removeprefix("Fatal Python error: ")[:80]


def _take_out(source: Path, target: Path) -> dict[str, Any]:
    """Copy an exercise's plain files out of a student's folder; return what is said about them."""
    target.mkdir()
    try:
        if source.is_symlink():
            return {"status": "missing"}
        with os.scandir(source) as entries:
            names = sorted(entry.name for entry in entries)[: 10 * _FILES]
    except OSError:
        return {"status": "missing"}
    kept = [name for name in names if name.endswith((".onnx", ".json", ".npy")) and name != PRODUCTION]
    for name in kept[:_FILES]:
        if (data := _plain(source / name)) is not None:
            (target / name).write_bytes(data)
    made = _read_json(source / PRODUCTION)
    return made if isinstance(made, dict) else {"status": "missing"}


def _plain(path: Path) -> bytes | None:
    """The content of an ordinary file of a reasonable size."""
    try:
        return read_untrusted(path, LARGEST)
    except OSError:
        return None


def _read_json(path: Path) -> Any:  # noqa: ANN401 - JSON can be anything
    """Read a file that a submission may have written; None if it is no JSON of a reasonable size."""
    data = _plain(path)
    try:
        return None if data is None or len(data) > _JSON else json.loads(data)
    except (ValueError, RecursionError):
        return None


def _outcome(each: Exercise, made: dict[str, Any], found: dict[str, Any] | None, how: Ending) -> Outcome:
    """Return an exercise's outcome.

    Args:
        each: The exercise.
        made: What the submission's process wrote about it; not to be believed.
        found: What the judge found, or how it crashed over it; None if there was nothing to judge.
        how: How the submission's process ended.
    """
    blank = Outcome(each.id, Status.ERROR, 0, each.points)
    said = {key: str(made.get(key, ""))[:_TEXT] for key in ("message", "where", "look_at")}
    printed = made.get("printed")
    blank = replace(blank, where=said["where"], printed=printed if isinstance(printed, int) else 0)
    status = made.get("status", "missing")
    if status == "missing":
        late = how is Ending.TIME
        message = "The notebook ended before this exercise was reached."
        return replace(blank, status=Status.TIMED_OUT if late else Status.ERROR, message=message)
    if status is not None:
        known = Status(status) if status in list(Status) and status != Status.PASSED else Status.ERROR
        if made.get("refused"):
            first = Finding("the answer can be used", False, said["message"], said["look_at"])
            rest = tuple(Finding(part.title, None) for part in each.parts)
            return replace(blank, status=known, findings=(first, *rest))
        return replace(blank, status=known, message=said["message"])
    if found is None or "crashed" in found:
        why = f" ({found['crashed']}, each time it was tried)" if found else ""
        return replace(blank, status=Status.INCORRECT, message=f"{CRASHES}{why}.")
    findings = tuple(map(_finding, found["findings"]))
    passed = all(finding.holds for finding in findings) and len(findings) == len(each.parts)
    return replace(
        blank,
        status=Status.PASSED if passed else Status.INCORRECT,
        points=each.points if passed else 0,
        findings=findings,
    )


def _finding(data: dict[str, Any]) -> Finding:
    given = data["difference"]
    shown = Difference(**given) if given else None
    return Finding(data["title"], data["holds"], data["message"], data["look_at"], shown)


def sweep() -> int:
    """Remove folders that a killed grader left behind; return how many."""
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdigit() and not _runs(int(owner)):
            with contextlib.suppress(OSError):
                remove(folder)
            removed += 1
    return removed


@contextlib.contextmanager
def _work_folder(what: str) -> Iterator[Path]:
    """A folder that is gone afterwards, whatever was done to the rights of what is in it."""
    path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-{what}-"))
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):  # what is left, the next run sweeps away
            remove(path)


def _give(folder: Path, user: int | None) -> None:
    """Make somebody the owner of a folder and of all in it; None leaves it to whoever grades."""
    if user is not None:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, user, user)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
