import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from onnxlab.course.notebooks import read
from tools.author.running import NotebookFailed, run

pytestmark = pytest.mark.slow  # each starts a kernel; test_cli.py runs one in the fast set too


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A chapter that was not run."""
    cells = [
        new_markdown_cell("# Title"),
        new_code_cell("x = 2\nprint('two', x)"),
        new_code_cell("from pathlib import Path\nPath.cwd().name"),
        new_code_cell("1 / 0", metadata={"tags": ["raises-exception"]}),
        new_code_cell("print('after')"),
        new_code_cell("import ipywidgets\nfrom IPython.display import display"),
        new_code_cell("display(ipywidgets.IntSlider())"),
        new_code_cell(""),
    ]
    path = tmp_path_factory.mktemp("course") / "notebooks" / "chapter.ipynb"
    path.parent.mkdir()
    nbformat.write(new_notebook(cells=cells), path)
    return path


@pytest.fixture(scope="module")
def steps(path):
    """The calls of the progress function during a run."""
    calls = []
    assert run(path, lambda *step: calls.append(step))
    return calls


@pytest.fixture
def saved(path, steps):
    """The code cells after the run, by their first lines."""
    return {cell["source"].split("\n")[0]: cell for cell in read(path)["cells"][1:]}


def test_a_run_fills_in_outputs_and_counts_and_saves_them_clean(path, steps, saved):
    assert steps[:2] == [(1, 6, "x = 2"), (2, 6, "from pathlib import Path")]
    assert [cell["execution_count"] for cell in saved.values()] == [1, 2, 3, 4, 5, 6]
    assert saved["x = 2"]["outputs"][0]["text"] == "two 2\n"
    assert not run(path), "a second run gives the same file"


def test_the_working_directory_is_the_notebooks_folder(saved):
    assert saved["from pathlib import Path"]["outputs"][0]["data"] == {"text/plain": "'notebooks'"}


def test_a_cell_may_raise_where_its_tag_says_so(saved):
    assert saved["print('after')"]["outputs"][0]["text"] == "after\n"


def test_a_widget_leaves_neither_a_view_nor_its_state(path, saved):
    text = path.read_text()
    assert "widget-view" not in text
    assert '"widgets"' not in text


def test_a_failing_cell_is_named_and_the_file_is_left_as_it_was(write_notebook):
    path = write_notebook(["x = 1", new_markdown_cell("between"), "y = 0\nx / y"])
    before = path.read_bytes()
    with pytest.raises(NotebookFailed) as caught:
        run(path)
    assert str(caught.value).splitlines() == [
        "chapter.ipynb: cell 2 of 2 raised ZeroDivisionError: division by zero",
        "The cell begins: y = 0",
        "The file was left as it was. Correct the cell and run the command again.",
    ]
    assert caught.value.cell == 2
    assert "x / y" in caught.value.traceback
    assert "\x1b" not in caught.value.traceback
    assert path.read_bytes() == before


def test_a_cell_that_runs_too_long_is_named(write_notebook):
    path = write_notebook(["import time", "time.sleep(60)"])
    with pytest.raises(NotebookFailed, match="cell 2 of 2 ran longer than 1 seconds"):
        run(path, timeout=1)


def test_a_cell_that_ends_the_kernel_is_named(write_notebook):
    path = write_notebook(["import os", "os._exit(3)"])
    with pytest.raises(NotebookFailed, match="cell 2 of 2 ended the kernel"):
        run(path)
