"""Faults of the grader give nobody a mark; files that crash their judge cost the submission its points."""

import errno
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from class_support.forgers import CRASH, ENDLESS
from class_support.small_class import FULL, LAB, REST, Learner, hand_in, marks
from onnxlab import cli
from onnxlab.kit.exercise import Judges, exercise, lab
from onnxlab.kit.work import Work
from onnxlab_class.grading import marking
from onnxlab_class.grading.private_judges import NONE, PrivateJudges
from onnxlab_class.grading.results import Ledger, facts
from onnxlab_class.grading.run import ATTEMPTS, grade
from onnxlab_class.grading.submissions import find
from onnxlab_class.grading.worker import judge as worker_judge
from onnxlab_class.grading.worker.client import ForkServerPool, WorkerPool
from onnxlab_class.grading.worker.report import Report
from onnxlab_class.grading.worker.task import Task, report_file
from onnxlab_class.sandbox.entry import Level, strongest
from onnxlab_class.sandbox.users import submission_user
from onnxlab_class.sandbox.watcher import Limits, descendants

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the fork server needs Linux"),
]
LIMITS = Limits(wall=120.0, cpu=60)
RIGHT = Learner("right")
# Writes another model in place of each that was exported.
REPLACED = """
from onnxlab.kit.work import Work
really = Work.write_model
def write_model(self, name, model):
    really(self, name, bad())
Work.write_model = write_model
"""


class Disturbed(WorkerPool):
    """The tests' fork server in every attempt, with its first `times` tasks changed."""

    kind = ""
    times = 0
    pool: ForkServerPool

    def wait_until_ready(self) -> None:
        self.pool.wait_until_ready()

    def run(self, task: Task) -> int:
        if task.kind == self.kind and self.times:
            type(self).times -= 1
            task = self.change(task)
        return self.pool.run(task)

    def change(self, task: Task) -> Task:
        raise NotImplementedError


class Unplaced(Disturbed):
    """A fork that fails before the submission runs: its folder does not exist."""

    kind = "student"

    def change(self, task: Task) -> Task:
        return replace(task, folder="/nowhere/at/all")


class Killed(Disturbed):
    """A machine without memory left, whose kernel ends a notebook's process."""

    kind = "student"

    def change(self, task: Task) -> Task:
        threading.Thread(target=self.kill).start()
        return task

    def kill(self) -> None:
        assert self.pool.process_id
        for _ in range(1000):
            for watcher in descendants(self.pool.process_id):
                for process in descendants(watcher.id):
                    if sleeps_in_sandbox(process.id):
                        os.kill(process.id, signal.SIGKILL)
                        return
            time.sleep(0.02)


def sleeps_in_sandbox(process_id: int) -> bool:
    """Whether its sandbox is complete: killed before, it is a sandbox that could not be built."""
    try:
        status = Path(f"/proc/{process_id}/status").read_text()
    except OSError:
        return False
    return "\nSeccomp:\t2\n" in status and "\nState:\tS" in status


class KilledJudge(Killed):
    """The same for a judge."""

    kind = "judge"


class Stumbling(Disturbed):
    """A judge of the course with a fault, in the first exercise that it judges."""

    kind = "judge"

    def change(self, task: Task) -> Task:
        assert self.pool.run(task) == 0
        report = Path(task.folder) / report_file(task.exercises[0])
        report.write_text(Report(stumbled="ZeroDivisionError: division by zero").as_json())
        return replace(task, exercises=())


JUDGE = """
import ctypes, os, sys, time
from onnxlab.kit.exercise import Part

def judge(work, random):
    {fault}

PARTS = {{"to-global-indices": [Part("a fault of its own", judge)]}}
"""


def private_judges(fault: str) -> PrivateJudges:
    return PrivateJudges(JUDGE.format(fault=fault), {"to-global-indices": ("a fault of its own",)})


def graded(
    tmp_path: Path, *students: Learner, pool: WorkerPool, level: Level | None = None, judges=NONE
) -> tuple[dict[str, int], dict[tuple[str, str], str]]:
    with Ledger(tmp_path / "out", facts("")) as ledger:
        intake = find(hand_in(tmp_path / "class", students))
        grade(intake, ledger, level=level, limits=LIMITS, jobs=1, judges=judges, pool=pool)
        return marks(ledger), ledger.failures


@pytest.mark.parametrize("times", [1, 99])
@pytest.mark.parametrize(
    ("kind", "student", "says"),
    [
        (KilledJudge, RIGHT, "was killed from outside"),
        (Unplaced, RIGHT, "could not be built"),
        (Killed, Learner("right, and slow", before="import time; time.sleep(2)"), "was killed from outside"),
    ],
)
def test_what_the_grader_fails_over_is_tried_again_and_is_no_mark(
    tmp_path, pool, monkeypatch, kind, student, says, times
):
    monkeypatch.setattr(kind, "pool", pool, raising=False)
    monkeypatch.setattr(kind, "times", times)
    level = None if kind is Unplaced else strongest()
    judges = private_judges("time.sleep(2)") if kind is KilledJudge else NONE
    points, failures = graded(tmp_path, student, pool=kind(), level=level, judges=judges)
    if times == 1:
        assert (points, failures) == ({student.name: student.points}, {})
    else:
        assert kind.times == times - ATTEMPTS
        assert points == {}
        assert [says in reason for reason in failures.values()] == [True]


@pytest.mark.parametrize("times", [1, 2])
def test_what_a_judge_stumbles_over_twice_is_a_mark_that_somebody_is_told_to_look_at(
    tmp_path, pool, monkeypatch, capsys, times
):
    monkeypatch.setattr(Stumbling, "pool", pool, raising=False)
    monkeypatch.setattr(Stumbling, "times", times)
    (tmp_path / "class").mkdir()
    first = lab(LAB).exercises[0]
    points, failures = graded(tmp_path, RIGHT, pool=Stumbling())
    assert (points, failures) == ({RIGHT.name: FULL - first.points * (times == 2)}, {})
    command = ["grade", str(tmp_path / "class"), "--out", str(tmp_path / "out")]
    assert cli.main(command) == (times == 2)  # nothing is graded: it lists again
    printed = capsys.readouterr()
    assert ("A judge of the course has a fault" in printed.err) == (times == 2)
    assert ("(ZeroDivisionError: division by zero)" in printed.out) == (times == 2)


def test_a_judge_tells_its_own_fault_from_the_machines_and_the_models(tmp_path):
    def report(error: Exception) -> Report:
        def judge(work, random):
            raise error

        _, record = exercise("to-global-indices")
        return worker_judge._report(replace(record, parts=("",), judges=Judges((judge,))), Work(tmp_path), 1)

    assert report(ValueError("odd")) == Report(stumbled="ValueError: odd")
    assert report(OSError(errno.ENOSPC, "full")) == Report(machine="OSError: [Errno 28] full")
    assert report(MemoryError()) == Report(crashed="it took more memory than it may")


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("sys.exit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("os._exit(1)", "ended its process"),
        ("ctypes.string_at(0)", "ended its process (Segmentation fault)"),
    ],
)
def test_a_private_judge_that_ends_its_process_is_no_mark(tmp_path, pool, monkeypatch, fault, says):
    monkeypatch.setattr("onnxlab_class.grading.run.ATTEMPTS", 1)  # each further attempt starts a fork server
    judges = private_judges(fault)
    points, failures = graded(tmp_path, RIGHT, level=strongest(), judges=judges, pool=pool)
    assert points == {}
    reason = failures[RIGHT.name, LAB]
    assert "The private judge of to-global-indices failed: 'a fault of its own'" in reason
    assert says in reason


def test_a_private_judge_that_never_ends_is_no_mark(tmp_path, pool, monkeypatch):
    monkeypatch.setattr("onnxlab_class.grading.run.ATTEMPTS", 1)
    monkeypatch.setattr(marking, "_judge_limits", lambda limits: replace(limits, wall=3.0, cpu=4))
    judges = private_judges("time.sleep(600)")
    points, failures = graded(tmp_path, RIGHT, level=strongest(), judges=judges, pool=pool)
    assert points == {}
    assert "'a fault of its own'" in failures[RIGHT.name, LAB]
    assert "did not finish in 4 seconds" in failures[RIGHT.name, LAB]


def test_what_crashes_its_judge_again_and_again_is_the_submissions(tmp_path, shared, capsys):
    folder, out = tmp_path / "class", tmp_path / "out"
    eve = Learner("eve", REST, before=REPLACED + CRASH)
    points, failures = graded(tmp_path, eve, RIGHT, level=strongest(), pool=shared)
    assert failures == {}
    assert points == {eve.name: eve.points, RIGHT.name: RIGHT.points}
    capsys.readouterr()
    assert cli.main(["grade", str(folder), "--out", str(out)]) == 0
    output = capsys.readouterr().out
    crashed = "What was made crashes ONNX Runtime or onnx (Segmentation fault"
    assert f"eve, {LAB}, max-unpool-symbolic: {crashed}" in output


def test_what_never_ends_in_its_judge_is_the_submissions(tmp_path, pool):
    exec(ENDLESS, made := {})
    asinh = lab("lab04_asinh")
    ids = tuple(exercise.id for exercise in asinh.exercises)
    for name in ids:
        (tmp_path / name).mkdir()
        (tmp_path / name / "asinh.onnx").write_bytes(made["bad"]().SerializeToString())
    level = strongest()
    task = Task("1", "judge", "", asinh.name, ids, 1, level, Limits(cpu=2), submission_user(0))
    reports = marking._judge(task, tmp_path, pool, marking.RunSettings(1, level, LIMITS))
    # The first had the time to itself, so that it gets no second try; the next has half of it.
    assert [reports[name].crashed for name in ids] == [
        f"it did not finish in {seconds} seconds of CPU time" for seconds in (2, 1)
    ]
