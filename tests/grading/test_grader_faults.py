"""What the grader fails over is nobody's mark; what a submission does to its judge is the submission's."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from onnxlab import cli
from onnxlab.grading.private_judges import NONE, PrivateJudges
from onnxlab.grading.results import Ledger, facts
from onnxlab.grading.run import grade
from onnxlab.grading.submissions import find
from onnxlab.grading.worker.client import Forks
from onnxlab.grading.worker.task import Task
from onnxlab.labs.kit.exercise import exercise
from onnxlab.sandbox.levels import Limits, strongest
from tests.grading.adversaries import FULL, HONEST, Adversary, notebook_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the fork server needs Linux"),
]
LIMITS = Limits(wall=120.0, cpu=60)
RIGHT = HONEST[0]
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
CRASHES = (
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


class Disturbed(Forks):
    """A fork server whose tasks are changed on their way; `times` says how many of them."""

    times = 0
    judged = 0

    def run(self, task: Task) -> int:
        if task.kind == self.kind:
            type(self).judged += 1
            if type(self).times:
                type(self).times -= 1
                task = self.change(task)
        return super().run(task)


class Slow(Disturbed):
    """A machine so slow that no judge is ready in time: the real watcher ends it."""

    kind = "judge"

    def change(self, task: Task) -> Task:
        return replace(task, limits=replace(task.limits, wall=-1.0))


class Unplaced(Disturbed):
    """A fork that fails before anything of a submission runs: its folder is not there."""

    kind = "student"

    def change(self, task: Task) -> Task:
        return replace(task, folder="/nowhere/at/all")


def graded(
    tmp_path: Path, *students: Adversary, pool=None, level=None, judges=NONE
) -> tuple[dict[str, int], dict[tuple[str, str], str]]:
    folder = tmp_path / "class"
    for one in students:
        (folder / one.name).mkdir(parents=True, exist_ok=True)
        (folder / one.name / "lab04_asinh.ipynb").write_bytes(notebook_of(one))
    with Ledger(tmp_path / "out", facts("")) as ledger:
        grade(find(folder), ledger, level=level, limits=LIMITS, jobs=1, judges=judges, pool=pool)
        return points(ledger), ledger.failures


def points(ledger: Ledger) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in ledger.rows():
        found[row.student] = found.get(row.student, 0) + row.points
    return found


@pytest.mark.parametrize("times", [1, 99])
def test_a_judge_that_is_not_ready_in_time_is_no_mark(tmp_path, monkeypatch, times):
    monkeypatch.setattr(Slow, "times", times)
    marks, failures = graded(tmp_path, RIGHT, pool=Slow(), level=strongest())
    if times == 1:  # tried again, it is ready
        assert (marks, failures) == ({RIGHT.name: FULL}, {})
    else:
        assert marks == {}
        assert "was not ready after" in failures[RIGHT.name, "lab04_asinh"]


@pytest.mark.parametrize("times", [1, 99])
def test_a_fork_that_failed_before_the_submission_began_is_no_mark(tmp_path, monkeypatch, times):
    monkeypatch.setattr(Unplaced, "times", times)
    marks, failures = graded(tmp_path, RIGHT, pool=Unplaced())
    if times == 1:
        assert (marks, failures) == ({RIGHT.name: FULL}, {})
    else:
        assert marks == {}
        assert "could not be built" in failures[RIGHT.name, "lab04_asinh"]


JUDGE = """
import ctypes, os, sys, time
from onnxlab.labs.kit.exercise import Part

def judge(work, random):
    {fault}

PARTS = {{"asinh-symbolic": [Part("a fault of its own", judge)]}}
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
    monkeypatch.setattr("onnxlab.grading.run.ATTEMPTS", 1)  # each further one starts a fork server
    judges = PrivateJudges(JUDGE.format(fault=fault), {"asinh-symbolic": ("a fault of its own",)})
    marks, failures = graded(tmp_path, RIGHT, level=strongest(), judges=judges, pool=pool)
    assert marks == {}
    assert (
        "The private judge of asinh-symbolic failed: 'a fault of its own'"
        in failures[RIGHT.name, "lab04_asinh"]
    )
    assert says in failures[RIGHT.name, "lab04_asinh"]


def test_a_private_judge_that_never_ends_is_no_mark(tmp_path, pool, monkeypatch):
    monkeypatch.setattr("onnxlab.grading.run.ATTEMPTS", 1)
    monkeypatch.setattr("onnxlab.grading.marking.JUDGE_SECONDS", 8.0, raising=False)
    monkeypatch.setattr(sys.modules[__name__], "LIMITS", Limits(wall=8.0, cpu=60))
    judges = PrivateJudges(JUDGE.format(fault="time.sleep(600)"), {"asinh-symbolic": ("a fault of its own",)})
    marks, failures = graded(tmp_path, RIGHT, level=strongest(), judges=judges, pool=pool)
    assert marks == {}
    assert "'a fault of its own'" in failures[RIGHT.name, "lab04_asinh"]
    assert "was not ready after" in failures[RIGHT.name, "lab04_asinh"]


def test_what_crashes_its_judge_again_and_again_is_the_submissions(tmp_path, capsys):
    folder, out = tmp_path / "class", tmp_path / "out"
    # These two write a model of the name that crashes the runtime.
    left = FULL - sum(exercise(name)[1].points for name in ("asinh-symbolic", "asinh-translation"))
    marks, failures = graded(tmp_path, Adversary("eve", left, before=CRASHES), RIGHT, level=strongest())
    assert failures == {}
    assert marks == {"eve": left, RIGHT.name: FULL}
    capsys.readouterr()
    assert cli.main(["grade", str(folder), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert (
        "eve, lab04_asinh, asinh-symbolic: What was made crashes ONNX Runtime or onnx (Segmentation fault"
        in said
    )


def test_what_never_ends_in_its_judge_is_listed_and_keeps_nobody_else(tmp_path, pool, monkeypatch):
    monkeypatch.setattr("onnxlab.grading.run.ATTEMPTS", 2)
    monkeypatch.setattr("onnxlab.grading.marking.JUDGE_SECONDS", 8.0, raising=False)
    monkeypatch.setattr(sys.modules[__name__], "LIMITS", Limits(wall=8.0, cpu=60))
    marks, failures = graded(
        tmp_path, Adversary("eve", 0, before=ENDLESS), RIGHT, level=strongest(), pool=pool
    )
    assert marks == {RIGHT.name: FULL}
    assert "asinh-symbolic was not ready after" in failures["eve", "lab04_asinh"]
