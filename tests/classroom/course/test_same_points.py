"""A class graded by nbgrader's autograde and by `onnxlab grade`: the same points; and the way to feedback."""

import importlib
import inspect
import shutil
import sys
from pathlib import Path

import nbformat
import pytest

from onnxlab import cli
from onnxlab.classroom.course.nbgrader import course_at
from onnxlab.labs.kit.exercise import LABS, exercises_of
from tests.support.nbgrader_course import LAB, hand_in, named, nbgrader, notebook, points

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the warm process needs Linux"),
]


@pytest.fixture
def course(class_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(class_folder, tmp_path / "class"))


PRELUDE = """from types import SimpleNamespace
def Contract(**parts): return SimpleNamespace(**parts)
def WrongAnswer(name, functions, *rest): return functions
"""


def partly_solved(lab: str, turn: int) -> tuple[nbformat.NotebookNode, dict[str, int]]:
    """A lab as a learner leaves it: by turns a wrong answer, a right one, and one not tried.

    The answers are those of the labs' contract tests. Which exercise gets which follows from the turn.
    """
    answers = importlib.import_module(f"tests.labs.answers_{lab.partition('_')[0]}")
    text = [line for line in inspect.getsource(answers).splitlines() if "tests.support" not in line]
    book, expected = notebook("labs", lab), {}
    for place, each in enumerate(exercises_of(lab)):
        kind = ("wrong[0]", "right[-1]", None)[(place + turn) % 3]
        expected[f"check-{each.id}"] = each.points if kind == "right[-1]" else 0
        if kind is not None:
            names = ", ".join(each.answers)
            chosen = f"{names}{', ' * (len(each.answers) == 1)} = CONTRACTS[{each.id!r}].{kind}"
            named(book, each.id).source = "\n".join([PRELUDE, *text, chosen])
    return book, expected


def test_nbgrader_and_the_grader_give_the_same_points(course, tmp_path):
    some = LABS[2::6]  # nbgrader takes a kernel of its own for each
    expected: dict[str, dict[str, dict[str, float]]] = {}
    for turn, lab in enumerate(some):
        book, right = partly_solved(lab, turn)
        hand_in(course, "ada", book, assignment=lab, file=f"{lab}.ipynb")
        expected[lab] = {"ada": right}
    other = Path(shutil.copytree(course, tmp_path / "other"))

    out = str(tmp_path / "out")
    assert cli.main(["grade", str(course), "--out", out, "--gradebook", "--time", "300"]) == 0
    assert {lab: points(course_at(course), lab) for lab in some} == expected
    for lab in some:
        nbgrader(other, "autograde", lab)
    assert {lab: points(course_at(other), lab) for lab in some} == expected
    every = [
        score for students in expected.values() for marks in students.values() for score in marks.values()
    ]
    assert min(every) == 0 < max(every)
    assert {name for students in expected.values() for name in students["ada"]} == {
        f"check-{each.id}" for lab in some for each in exercises_of(lab)
    }


def test_a_learner_fetches_feedback_with_the_counterexample(course, tmp_path, capfd):
    """Generate, release, fetch, submit, collect, grade, generate and release feedback, fetch: that is all."""
    learner = tmp_path / "learner"
    learner.mkdir()
    settings = 'c = get_config()\nc.CourseDirectory.course_id = "spring-2027"\n'
    (learner / "nbgrader_config.py").write_text(f'{settings}c.Exchange.root = "{course / "exchange"}"\n')
    released = course / "release" / LAB / f"{LAB}.ipynb"
    before = [cell.source for cell in nbformat.read(released, 4).cells]
    nbgrader(course, "generate_assignment", LAB, "--force")
    assert [cell.source for cell in nbformat.read(released, 4).cells] == before
    nbgrader(course, "release_assignment", LAB)
    nbgrader(learner, "fetch_assignment", LAB)
    fetched = learner / LAB / f"{LAB}.ipynb"
    book = nbformat.read(fetched, 4)
    named(book, "missing-rules").source = "def missing_rules(names, opset):\n    return names"
    nbformat.write(book, fetched)
    nbgrader(learner, "submit", LAB)
    nbgrader(course, "collect", LAB)
    (collected,) = course.glob(f"submitted/*/{LAB}/{LAB}.ipynb")
    assert (collected.parent / "timestamp.txt").exists()
    capfd.readouterr()
    assert cli.main(["grade", str(course), "--out", str(tmp_path / "out"), "--gradebook"]) == 0
    printed = capfd.readouterr()
    assert printed.out.endswith("In the gradebook: 1 of 1 submission.\n")
    assert printed.err == ""
    nbgrader(course, "generate_feedback", LAB)
    nbgrader(course, "release_feedback", LAB)
    nbgrader(learner, "fetch_feedback", LAB)
    (page,) = learner.glob(f"{LAB}/feedback/*/{LAB}.html")
    text = page.read_text("utf-8")
    assert "is in the answer: its first rule is for opset" in text  # in the comment and below the check
    assert "Score: 0.0 / 15.0" in text
    assert "HIDDEN" not in text
