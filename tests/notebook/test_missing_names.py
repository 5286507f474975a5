"""A cell that uses a name of the course before it is imported, in a kernel as course.py starts it."""

import os

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from starter.jupyter import KERNEL_STARTUP

pytestmark = pytest.mark.slow  # a kernel

CELLS = (
    "before = sorted(name for name in globals() if not name.startswith('_'))",
    "check('loop-count-as-input', answer)",
    "chekc('loop-count-as-input', answer)",
    "def f():\n    print(graph)\n    graph = 1\nf()",
    "from onnxlab import check\ngraph('model.onnx')",
    "check",
    "print(before)",
)


@pytest.fixture(scope="module")
def outputs():
    """What each cell leaves."""
    cells = [new_code_cell(source) for source in CELLS]
    client = NotebookClient(new_notebook(cells=cells), kernel_name="python3", allow_errors=True)
    client.execute(env=os.environ | {"PYTHONSTARTUP": str(KERNEL_STARTUP)})
    return dict(zip(CELLS, (cell["outputs"] for cell in cells), strict=True))


@pytest.mark.parametrize(("cell", "name"), [(CELLS[1], "check"), (CELLS[4], "graph")])
def test_a_name_of_the_course_is_explained_without_a_traceback(outputs, cell, name):
    [output] = outputs[cell]
    assert output["output_type"] == "stream"
    assert output["text"].startswith(f"{name} is not defined")
    assert "Run All Above Selected Cell" in output["text"]


@pytest.mark.parametrize(("cell", "error"), [(CELLS[2], "NameError"), (CELLS[3], "UnboundLocalError")])
def test_another_error_is_pythons(outputs, cell, error):
    assert [output["ename"] for output in outputs[cell]] == [error]


def test_nothing_of_it_is_left_in_the_notebook(outputs):
    assert outputs[CELLS[5]][0]["output_type"] == "execute_result"
    assert not {"sys", "explain_missing_names"} & set(eval(outputs[CELLS[6]][0]["text"]))
