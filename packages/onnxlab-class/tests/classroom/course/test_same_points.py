"""nbgrader's autograde and `onnxlab grade` give the same points; feedback gets back through nbgrader."""

import importlib
import inspect
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest

from class_support.nbgrader_course import LAB, hand_in, named, nbgrader, notebook, points
from onnxlab.kit.exercise import LABS
from onnxlab.kit.exercise import lab as lab_record
from onnxlab_class.classroom.course.nbgrader import course_at
from tests.support import answer_parts
from tests.support.labs import solutions

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the warm process needs Linux"),
]


PRELUDE = """from types import SimpleNamespace
def Contract(**parts): return SimpleNamespace(**parts)
def WrongAnswer(name, functions, *rest): return functions
import linecache, sys, zlib
from types import ModuleType
"""

SOLUTION = """
def solution(name, edits=None):
    text = CELLS[name]
    for old, new in (edits or {}).items():
        text = text.replace(old, new)
    module = ModuleType(f"solution_{zlib.crc32(text.encode())}")
    sys.modules[module.__name__] = module
    for part, source in (("definitions", DEFINITIONS), ("answers", text)):
        file = f"<{part} of {module.__name__}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec"), vars(module))
    return tuple(getattr(module, answer) for answer in ANSWERS[name])
"""
"""What `tests.support.labs.solution` does, for a notebook that cannot import the tests."""


def partly_solved(lab: str, turn: int) -> tuple[nbformat.NotebookNode, dict[str, float]]:
    """A lab with a wrong answer, a right one, and an exercise that was not attempted, in turn.

    The answers are those of the labs' contract tests. Which exercise gets which follows from the turn.
    """
    answers = importlib.import_module(f"tests.labs.answers.{lab.partition('_')[0]}")
    source = inspect.getsource(answer_parts) + inspect.getsource(answers)
    text = [line for line in source.splitlines() if "tests.support" not in line]
    definitions, cells = solutions(lab)
    known = {exercise.id: exercise.answers for exercise in lab_record(lab).exercises}
    prelude = f"{PRELUDE}DEFINITIONS, CELLS, ANSWERS = {definitions!r}, {cells!r}, {known!r}\n{SOLUTION}"
    book, expected = notebook("labs", lab), {}
    for place, exercise in enumerate(lab_record(lab).exercises):
        kind = ("wrong[0]", "right[-1]", None)[(place + turn) % 3]
        expected[f"check-{exercise.id}"] = exercise.points if kind == "right[-1]" else 0
        if kind is not None:
            names = ", ".join(exercise.answers)
            chosen = f"{names}{', ' * (len(exercise.answers) == 1)} = CONTRACTS[{exercise.id!r}].{kind}"
            named(book, exercise.id).source = "\n".join([prelude, *text, chosen])
    return book, expected


SOME = LABS[2::6]  # nbgrader takes a kernel of its own for each


class GradedClass(NamedTuple):
    """A class after `onnxlab grade --gradebook`: a learner submitted LAB through nbgrader, ada SOME labs."""

    folder: Path
    ungraded: Path  # a copy from before the run
    learner: Path
    expected: dict[str, dict[str, float]]  # ada's points, by lab and check cell


@pytest.fixture(scope="module")
def graded(class_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> GradedClass:
    place = tmp_path_factory.mktemp("graded")
    folder, learner = Path(shutil.copytree(class_folder, place / "class")), place / "learner"
    learner.mkdir()
    submit_through_nbgrader(folder, learner)
    expected = {}
    for turn, lab in enumerate(SOME):
        book, expected[lab] = partly_solved(lab, turn)
        hand_in(folder, "ada", book, assignment=lab, file=f"{lab}.ipynb")
    ungraded = Path(shutil.copytree(folder, place / "ungraded"))
    command = [sys.executable, "-m", "onnxlab.cli", "grade", str(folder), "--out", str(place / "out")]
    done = subprocess.run(
        [*command, "--gradebook", "--time", "300"], capture_output=True, text=True, timeout=900
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"In the gradebook: {len(SOME) + 1} of {len(SOME) + 1} submissions.\n")
    return GradedClass(folder, ungraded, learner, expected)


def submit_through_nbgrader(course: Path, learner: Path) -> None:
    """Generate, release, fetch, submit and collect the lab, with a wrong answer, by nbgrader's commands."""
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
    named(book, "asinh-symbolic").source = "def asinh_symbolic(g, x):\n    return x"
    nbformat.write(book, fetched)
    nbgrader(learner, "submit", LAB)
    nbgrader(course, "collect", LAB)
    (collected,) = course.glob(f"submitted/*/{LAB}/{LAB}.ipynb")
    assert (collected.parent / "timestamp.txt").exists()


def test_nbgrader_and_the_grader_give_the_same_points(graded):
    for lab in SOME:
        nbgrader(graded.ungraded, "autograde", lab)
        assert points(course_at(graded.folder), lab) == {"ada": graded.expected[lab]}
        assert points(course_at(graded.ungraded), lab) == {"ada": graded.expected[lab]}
    scores = [score for marks in graded.expected.values() for score in marks.values()]
    assert min(scores) == 0 < max(scores)
    assert {name for marks in graded.expected.values() for name in marks} == {
        f"check-{exercise.id}" for lab in SOME for exercise in lab_record(lab).exercises
    }


def test_a_learner_fetches_feedback_with_the_counterexample(graded):
    nbgrader(graded.folder, "generate_feedback", LAB)
    nbgrader(graded.folder, "release_feedback", LAB)
    nbgrader(graded.learner, "fetch_feedback", LAB)
    (page,) = graded.learner.glob(f"{LAB}/feedback/*/{LAB}.html")
    text = page.read_text("utf-8")
    assert "Evaluate your formula by hand for the input shown." in text
    assert f"Score: 0.0 / {lab_record(LAB).points}.0" in text
    assert "HIDDEN" not in text
