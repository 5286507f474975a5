"""Private variants in an nbgrader course: an edited hidden test decides, and no learner sees it."""

import json

import nbformat
import pytest

from onnxlab.labs.kit.exercise import exercise
from tests.support.nbgrader_course import LAB, hand_in, named, nbgrader, notebook, points, small_course

pytestmark = pytest.mark.slow
PRIVATE = """check("asinh-symbolic", asinh_symbolic)
### BEGIN HIDDEN TESTS
from onnxlab import require
require("asinh-symbolic", asinh_symbolic)
import inspect
assert "Identity" not in inspect.getsource(asinh_symbolic), "One node is enough."
### END HIDDEN TESTS"""


def test_an_edited_hidden_test_decides_and_is_not_handed_out(tmp_path):
    course = small_course(tmp_path)
    source = tmp_path / "source" / LAB / f"{LAB}.ipynb"
    book = nbformat.read(source, 4)
    named(book, "check-asinh-symbolic").source = PRIVATE
    source.write_text(json.dumps(book))
    nbgrader(tmp_path, "generate_assignment", LAB, "--force")
    handed_out = (tmp_path / "release" / LAB / f"{LAB}.ipynb").read_text("utf-8")
    assert "check-asinh-symbolic" in handed_out
    assert "inspect" not in handed_out
    assert "One node" not in handed_out

    roundabout = notebook()
    answer = 'def asinh_symbolic(g, x):\n    return g.op("Identity", g.op("Asinh", x))'
    named(roundabout, "asinh-symbolic").source = answer
    hand_in(tmp_path, "ada", notebook())
    hand_in(tmp_path, "bob", roundabout)
    nbgrader(tmp_path, "autograde", LAB)
    found = points(course)
    assert found["ada"]["check-asinh-symbolic"] == exercise("asinh-symbolic")[1].points
    assert found["bob"]["check-asinh-symbolic"] == 0
    translation = exercise("asinh-translation")[1].points
    assert found["bob"]["check-asinh-translation"] == found["ada"]["check-asinh-translation"] == translation
