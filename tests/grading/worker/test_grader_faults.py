"""Faults of the grader give nobody a mark; files that crash their judge cost the submission its points."""

import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from onnxlab import cli
from onnxlab.grading.private_judges import NONE, PrivateJudges
from onnxlab.grading.results import Ledger, facts
from onnxlab.grading.run import ATTEMPTS, grade
from onnxlab.grading.submissions import find
from onnxlab.grading.worker.client import ForkServerPool, WorkerPool
from onnxlab.grading.worker.task import Task
from onnxlab.labs.kit.exercise import exercise
from onnxlab.sandbox.entry import Level, strongest
from onnxlab.sandbox.watcher import Limits, descendants
from tests.grading.adversaries import HONEST, Adversary
from tests.grading.small_class import FULL, LAB, Learner, hand_in, marks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the fork server needs Linux"),
]
LIMITS = Limits(wall=120.0, cpu=60)
RIGHT = Learner("right")
# Writes another model in place of the one that was exported.
REPLACED = """
import atexit, onnx, os, threading
from onnx import helper as h
from onnxlab.labs.kit.work import Work
really = Work.write_model
def write_model(self, name, model):
    really(self, name, model if name != "asinh" else bad())
Work.write_model = write_model
"""
# A chain of 9,990 functions: ONNX Runtime follows it until its stack is full.
CRASH = (
    REPLACED
    + """
def bad():
    sets = [h.make_opsetid("", 9), h.make_opsetid("own", 1)]
    value = lambda name: h.make_tensor_value_info(name, 1, ["N", "M"])
    last = h.make_node("Asinh", ["x"], ["y"])
    call = lambda n: h.make_node(f"f{n}", ["x"], ["y"], domain="own") if n < 9990 else last
    functions = [h.make_function("own", f"f{n}", ["x"], ["y"], [call(n + 1)], sets) for n in range(9990)]
    graph = h.make_graph([call(0)], "g", [value("x")], [value("y")])
    return h.make_model(graph, functions=functions, opset_imports=sets, ir_version=8)
"""
)
ENDLESS = (
    REPLACED
    + """
def bad():
    return onnx.parser.parse_model('''<ir_version: 8, opset_import: ["" : 9]>
    g (float[N, M] x) => (float[N, M] y) {
        n = Constant<value = int64 {9000000000000000000}>()
        yes = Constant<value = bool {1}>()
        y = Loop(n, yes, x) <body = b (int64 i, bool c, float[N, M] a) => (bool d, float[N, M] z) {
            d = Identity(c)
            z = Identity(a)
        }>
    }''')
"""
)


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


class Slow(Disturbed):
    """A machine on which no judge ends in time: the real watcher ends it."""

    kind = "judge"

    def change(self, task: Task) -> Task:
        return replace(task, limits=replace(task.limits, wall=-1.0))


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
        time.sleep(0.5)
        for watcher in descendants(self.pool.process_id):
            for notebook in descendants(watcher.id):
                os.kill(notebook.id, signal.SIGKILL)


def graded(
    tmp_path: Path, *students: Adversary, pool: WorkerPool, level: Level | None = None, judges=NONE
) -> tuple[dict[str, int], dict[tuple[str, str], str]]:
    with Ledger(tmp_path / "out", facts("")) as ledger:
        intake = find(hand_in(tmp_path / "class", students))
        grade(intake, ledger, level=level, limits=LIMITS, jobs=1, judges=judges, pool=pool)
        return marks(ledger), ledger.failures


@pytest.mark.parametrize("times", [1, 99])
@pytest.mark.parametrize(
    ("kind", "student", "says"),
    [
        # Its judges take longer than the watcher's interval.
        (Slow, HONEST[0], "was not ready after"),
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
    points, failures = graded(tmp_path, student, pool=kind(), level=level)
    if times == 1:
        assert (points, failures) == ({student.name: student.points}, {})
    else:
        assert kind.times == times - ATTEMPTS
        assert points == {}
        assert [says in reason for reason in failures.values()] == [True]


JUDGE = """
import ctypes, os, sys, time
from onnxlab.labs.kit.exercise import Part

def judge(work, random):
    {fault}

PARTS = {{"to-global-indices": [Part("a fault of its own", judge)]}}
"""


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
    monkeypatch.setattr("onnxlab.grading.run.ATTEMPTS", 1)  # each further attempt starts a fork server
    judges = PrivateJudges(JUDGE.format(fault=fault), {"to-global-indices": ("a fault of its own",)})
    points, failures = graded(tmp_path, RIGHT, level=strongest(), judges=judges, pool=pool)
    assert points == {}
    reason = failures[RIGHT.name, LAB]
    assert "The private judge of to-global-indices failed: 'a fault of its own'" in reason
    assert says in reason


def test_a_private_judge_that_never_ends_is_no_mark(tmp_path, pool, monkeypatch):
    monkeypatch.setattr("onnxlab.grading.run.ATTEMPTS", 1)
    monkeypatch.setattr("onnxlab.grading.marking.JUDGE_SECONDS", 8.0, raising=False)
    monkeypatch.setattr(sys.modules[__name__], "LIMITS", Limits(wall=8.0, cpu=60))
    judges = PrivateJudges(
        JUDGE.format(fault="time.sleep(600)"), {"to-global-indices": ("a fault of its own",)}
    )
    points, failures = graded(tmp_path, RIGHT, level=strongest(), judges=judges, pool=pool)
    assert points == {}
    assert "'a fault of its own'" in failures[RIGHT.name, LAB]
    assert "was not ready after" in failures[RIGHT.name, LAB]


def test_what_crashes_its_judge_again_and_again_is_the_submissions(tmp_path, shared, capsys):
    folder, out = tmp_path / "class", tmp_path / "out"
    # Each writes a model that crashes ONNX Runtime in place of its own.
    lost = ("asinh-symbolic", "asinh-translation")
    left = HONEST[0].points - sum(exercise(name)[1].points for name in lost)
    points, failures = graded(
        tmp_path, Adversary("eve", left, before=CRASH), RIGHT, level=strongest(), pool=shared
    )
    assert failures == {}
    assert points == {"eve": left, RIGHT.name: FULL}
    capsys.readouterr()
    assert cli.main(["grade", str(folder), "--out", str(out)]) == 0
    output = capsys.readouterr().out
    assert (
        "eve, lab04_asinh, asinh-symbolic: What was made crashes ONNX Runtime or onnx (Segmentation fault"
        in output
    )


def test_what_never_ends_in_its_judge_is_listed_and_keeps_nobody_else(tmp_path, pool, monkeypatch):
    monkeypatch.setattr("onnxlab.grading.run.ATTEMPTS", 1)
    monkeypatch.setattr("onnxlab.grading.marking.JUDGE_SECONDS", 8.0, raising=False)
    monkeypatch.setattr(sys.modules[__name__], "LIMITS", Limits(wall=8.0, cpu=60))
    points, failures = graded(
        tmp_path, Adversary("eve", 0, before=ENDLESS), RIGHT, level=strongest(), pool=pool
    )
    assert points == {RIGHT.name: FULL}
    assert "asinh-symbolic was not ready after" in failures["eve", "lab04_asinh"]
