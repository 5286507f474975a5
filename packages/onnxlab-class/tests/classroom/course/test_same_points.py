"""nbgrader's autograde and `onnxlab grade` give the same points; feedback gets back through nbgrader.

An instructor's own hidden test counts in nbgrader, and no learner sees it.
"""

import contextlib
import io
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest

from class_support.nbgrader_course import hand_in, named, nbgrader, points
from class_support.small_class import LAB, RIGHT, WRONG
from onnxlab import cli
from onnxlab.kit.exercise import LABS
from onnxlab.kit.exercise import lab as lab_record
from onnxlab_class.classroom.course.nbgrader import course_at
from tests.support.labs import solved

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the warm process needs Linux"),
]
FIRST, SECOND = lab_record(LAB).exercises
END = "### END HIDDEN TESTS"
PRIVATE = f"""import inspect
assert "roundabout" not in inspect.getsource(to_global_indices), "One step is enough."
{END}"""


class GradedClass(NamedTuple):
    """A class after `onnxlab grade --gradebook`.

    A learner has handed in through nbgrader, with no first answer and a wrong second one; bob by hand, with
    two right answers, the first of which an instructor's own test refuses.
    """

    folder: Path
    ungraded: Path  # a copy from before the run
    learner: Path
    account: str  # the learner's


@pytest.fixture(scope="module")
def graded(class_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> GradedClass:
    place = tmp_path_factory.mktemp("graded")
    folder, learner = Path(shutil.copytree(class_folder, place / "class")), place / "learner"
    add_private_test(folder)
    account = submit_through_nbgrader(folder, learner)
    bobs = solved(LAB, {FIRST.id, SECOND.id})
    named(bobs, FIRST.id).source = named(bobs, FIRST.id).source.replace(
        "n, c, h", "# roundabout\n    n, c, h"
    )
    hand_in(folder, "bob", bobs, assignment=LAB, file=f"{LAB}.ipynb")
    ungraded = Path(shutil.copytree(folder, place / "ungraded"))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert (
            cli.main(["grade", str(folder), "--out", str(place / "out"), "--gradebook", "--time", "300"]) == 0
        )
    assert printed.getvalue().endswith("In the gradebook: 2 of 2 submissions.\n")
    return GradedClass(folder, ungraded, learner, account)


def add_private_test(course: Path) -> None:
    """Add a hidden test to the instructor's copy of the lab, and generate the lab anew."""
    source, released = (course / name / LAB / f"{LAB}.ipynb" for name in ("source", "release"))
    book = nbformat.read(source, 4)
    check = named(book, f"check-{FIRST.id}")
    check.source = check.source.replace(END, PRIVATE)
    nbformat.write(book, source)
    before = [cell.source for cell in nbformat.read(released, 4).cells]
    nbgrader(course, "generate_assignment", LAB, "--force")
    assert [cell.source for cell in nbformat.read(released, 4).cells] == before, "none of it is handed out"


def submit_through_nbgrader(course: Path, learner: Path) -> str:
    """Release, fetch, submit and collect the lab by nbgrader's commands; return the account's name."""
    learner.mkdir()
    settings = 'c = get_config()\nc.CourseDirectory.course_id = "spring-2027"\n'
    (learner / "nbgrader_config.py").write_text(f'{settings}c.Exchange.root = "{course / "exchange"}"\n')
    nbgrader(course, "release_assignment", LAB)
    nbgrader(learner, "fetch_assignment", LAB)
    fetched = learner / LAB / f"{LAB}.ipynb"
    book = nbformat.read(fetched, 4)
    right = named(solved(LAB, {SECOND.id}), SECOND.id).source
    named(book, SECOND.id).source = right.replace(RIGHT, WRONG)
    nbformat.write(book, fetched)
    nbgrader(learner, "submit", LAB)
    nbgrader(course, "collect", LAB)
    (collected,) = course.glob(f"submitted/*/{LAB}/{LAB}.ipynb")
    assert (collected.parent / "timestamp.txt").exists()
    return collected.parents[1].name


def test_nbgrader_and_the_grader_give_the_same_points(graded):
    nbgrader(graded.ungraded, "autograde", LAB)
    first, second = f"check-{FIRST.id}", f"check-{SECOND.id}"
    ours = {
        graded.account: {first: 0, second: 0},
        "bob": {first: FIRST.points, second: SECOND.points},
    }
    assert points(course_at(graded.folder), LAB) == ours
    theirs = ours | {"bob": {first: 0, second: SECOND.points}}
    assert points(course_at(graded.ungraded), LAB) == theirs, "the instructor's own test counts, too"


def test_a_learner_fetches_feedback_with_the_counterexample(graded):
    nbgrader(graded.folder, "generate_feedback", LAB)
    nbgrader(graded.folder, "release_feedback", LAB)
    nbgrader(graded.learner, "fetch_feedback", LAB)
    (page,) = graded.learner.glob(f"{LAB}/feedback/*/{LAB}.html")
    text = page.read_text("utf-8")
    assert "Which channel did this value go to" in text
    assert f"Score: 0.0 / {lab_record(LAB).points}.0" in text
    assert "HIDDEN" not in text
    assert "roundabout" not in text


@pytest.mark.release
@pytest.mark.parametrize("lab", LABS[2::6])
def test_nbgrader_gives_the_points_of_other_labs_too(class_folder, tmp_path, lab):
    folder = Path(shutil.copytree(class_folder, tmp_path / "class"))
    exercises = lab_record(lab).exercises
    book = solved(lab, {exercises[0].id})
    wrong = named(book, exercises[-1].id)
    wrong.source = wrong.source.replace("raise NotImplementedError()", "return None")
    hand_in(folder, "ada", book, assignment=lab, file=f"{lab}.ipynb")
    nbgrader(folder, "autograde", lab)
    expected = {f"check-{exercise.id}": 0 for exercise in exercises}
    assert points(course_at(folder), lab)["ada"] == expected | {
        f"check-{exercises[0].id}": exercises[0].points
    }
