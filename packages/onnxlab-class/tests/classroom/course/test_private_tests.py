"""Private variants in an nbgrader course: an edited hidden test decides, and no learner sees it."""

import json

import nbformat
import pytest

from class_support.nbgrader_course import LAB, hand_in, named, nbgrader, notebook, points, small_course
from onnxlab.kit.exercise import exercise

pytestmark = pytest.mark.slow
PRIVATE = """check("asinh-symbolic", asinh_symbolic)
### BEGIN HIDDEN TESTS
from onnxlab import require
require("asinh-symbolic", asinh_symbolic)
import inspect
assert "Identity" not in inspect.getsource(asinh_symbolic), "One node is enough."
### END HIDDEN TESTS"""


EXERCISES = ("asinh-symbolic", "asinh-translation")


def short(book: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The lab with two of its exercises: nbgrader runs all of it for each learner."""
    names = {name for exercise_id in EXERCISES for name in (exercise_id, f"check-{exercise_id}")}
    book.cells = [
        cell for cell in book.cells if cell.metadata.get("nbgrader", {}).get("grade_id") in {None, *names}
    ]
    return book


def test_an_edited_hidden_test_decides_and_is_not_handed_out(tmp_path):
    course = small_course(tmp_path)
    source = tmp_path / "source" / LAB / f"{LAB}.ipynb"
    book = short(nbformat.read(source, 4))
    named(book, "check-asinh-symbolic").source = PRIVATE
    source.write_text(json.dumps(book))
    course.generate(LAB)
    handed_out = (tmp_path / "release" / LAB / f"{LAB}.ipynb").read_text("utf-8")
    assert "check-asinh-symbolic" in handed_out
    assert "inspect" not in handed_out
    assert "One node" not in handed_out

    roundabout = short(notebook())
    answer = 'def asinh_symbolic(g, x):\n    return g.op("Identity", g.op("Asinh", x))'
    named(roundabout, "asinh-symbolic").source = answer
    hand_in(tmp_path, "ada", short(notebook()))
    hand_in(tmp_path, "bob", roundabout)
    nbgrader(tmp_path, "autograde", LAB)
    possible = {f"check-{name}": exercise(name)[1].points for name in EXERCISES}
    assert points(course) == {"ada": possible, "bob": possible | {"check-asinh-symbolic": 0}}
