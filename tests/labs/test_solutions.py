"""The course's solutions: there for each exercise, right, and only where they may be shown."""

import json
from pathlib import Path

import pytest

from onnxlab.cli import main
from onnxlab.kit.exercise import exercise, labs
from onnxlab.kit.outcome import Outcome, Status
from onnxlab.kit.progress import record
from onnxlab.kit.solutions import solution
from tests.support.labs import solutions

_, ASINH = exercise("asinh-symbolic")


@pytest.fixture(autouse=True)
def beginner(tmp_path, monkeypatch):
    monkeypatch.setenv("ONNXLAB_STATE", str(tmp_path / "progress.json"))
    monkeypatch.delenv("JUPYTERHUB_USER", raising=False)


@pytest.mark.parametrize("lab", labs(), ids=lambda lab: lab.name)
def test_the_solution_of_every_exercise_is_the_notebooks(lab):
    _, cells = solutions(lab.name)
    for record_of_lab in lab.exercises:
        code = solution(record_of_lab)
        compile(code, record_of_lab.id, "exec")
        assert "SOLUTION" not in code
        assert code.splitlines()[0] in cells[record_of_lab.id]
        assert all(f" {answer}" in code for answer in record_of_lab.answers)


def test_a_class_has_the_instructors_solutions_or_none(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTERHUB_USER", "ada")
    assert solution(ASINH) == "", "a hub's learner, although this clone has them"
    monkeypatch.setenv("ONNXLAB_SOLUTIONS", "")
    assert solution(ASINH) == ""
    monkeypatch.setenv("ONNXLAB_SOLUTIONS", str(tmp_path))
    assert solution(ASINH) == "", "a folder that is empty, or closed to the learner"
    cell = {
        "cell_type": "code",
        "metadata": {"nbgrader": {"solution": True, "grade_id": ASINH.id}},
        "source": [
            "def asinh_symbolic(g, x):\n",
            "    ### BEGIN SOLUTION\n",
            "    return 1\n",
            "    ### END SOLUTION",
        ],
    }
    Path(tmp_path, f"{ASINH.lab}.ipynb").write_text(json.dumps({"cells": [cell]}))
    assert solution(ASINH) == "def asinh_symbolic(g, x):\n    return 1"


def test_a_terminal_shows_the_solutions_of_what_is_passed_and_no_other(tmp_path, monkeypatch, capsys):
    (tmp_path / "labs").mkdir()
    (tmp_path / "labs" / "lab04_asinh.ipynb").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["show", "lab04"]) == 2
    assert "def " not in capsys.readouterr().out
    record(Outcome(ASINH.id, Status.PASSED, ASINH.points, ASINH.points))
    assert main(["show", "lab04"]) == 0
    printed = capsys.readouterr().out
    assert solution(ASINH) in printed
    assert "asinh_translation" not in printed
    monkeypatch.setenv("ONNXLAB_SOLUTIONS", "")
    assert main(["show", "lab04"]) == 2
    assert "not handed out here" in capsys.readouterr().err
