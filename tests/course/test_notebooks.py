import json
import os

import nbformat
import pytest

from onnxlab.course import notebooks
from onnxlab.course.notebooks import Kind, NotebookUnreadable
from onnxlab.files import CannotWrite


def test_all_folders_of_the_course_are_listed_in_reading_order(tmp_path, write_notebook):
    names = ["labs/lab01.ipynb", "notebooks/02_b.ipynb", "notebooks/01_a.ipynb", "solutions/lab01.ipynb"]
    for name in [*names, "notebooks/.ipynb_checkpoints/01_a-checkpoint.ipynb"]:
        write_notebook(["1"], name)
    paths = [path.relative_to(tmp_path).as_posix() for path in notebooks.course_notebooks(tmp_path)]
    assert paths == [
        "notebooks/01_a.ipynb",
        "notebooks/02_b.ipynb",
        "solutions/lab01.ipynb",
        "labs/lab01.ipynb",
    ]


def test_the_folder_decides_the_kind(tmp_path, monkeypatch):
    assert Kind.of(tmp_path / "solutions" / "x.ipynb") is Kind.SOLUTION
    assert Kind.of(tmp_path / "x.ipynb") is Kind.CHAPTER
    (tmp_path / "labs").mkdir()
    monkeypatch.chdir(tmp_path / "labs")
    assert Kind.of(notebooks.Path("x.ipynb")) is Kind.LAB


def test_a_missing_file_says_which(tmp_path):
    with pytest.raises(NotebookUnreadable, match=r"nothing\.ipynb cannot be read"):
        notebooks.read(tmp_path / "nothing.ipynb")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "lab04_asinh.ipynb")
    with pytest.raises(NotebookUnreadable, match="It is a pipe or a device"):
        notebooks.read(tmp_path / "lab04_asinh.ipynb")


@pytest.mark.parametrize("text", ["", "{", "[]", "not json", json.dumps({"nbformat": 4}), "\x00"])
def test_what_is_not_a_notebook_is_said_in_three_lines(tmp_path, text):
    path = tmp_path / "bad.ipynb"
    path.write_text(text)
    with pytest.raises(NotebookUnreadable) as caught:
        notebooks.read(path)
    assert "is not a Jupyter notebook" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 3


def test_writing_the_same_again_changes_nothing(write_notebook):
    path = write_notebook(["1"])
    notebook = notebooks.read(path)
    notebook["cells"][0]["source"] = "2"
    assert notebooks.write(notebook, path)
    stamp = path.stat().st_mtime_ns
    assert not notebooks.write(notebook, path)
    assert path.stat().st_mtime_ns == stamp


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(write_notebook, monkeypatch):
    path = write_notebook(["1"])
    before = path.read_bytes()

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(notebooks.Path, "replace", full)
    with pytest.raises(CannotWrite, match="No space left"):
        notebooks.write(nbformat.v4.new_notebook(), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
