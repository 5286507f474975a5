"""`onnxlab labs`: copies notebooks into a folder and overwrites nothing there."""

from pathlib import Path

import pytest

from onnxlab.cli import main
from onnxlab.course import course_copy
from onnxlab.course.course_copy import NotebooksMissing, copy_course
from onnxlab.course.lab_release import course_root
from onnxlab.labs.kit.exercise import LABS

ROOT = Path(__file__).parents[2]


def test_the_labs_are_copied_and_work_is_left_alone(tmp_path):
    copied, existing = copy_course(tmp_path)
    assert [path.stem for path in copied] == list(LABS)
    assert existing == []
    work = copied.pop()
    work.write_text("mine")
    copied[0].unlink()
    again, left = copy_course(tmp_path)
    assert (again, left) == ([copied[0]], [*copied[1:], work])
    assert work.read_text() == "mine"


def test_chapters_come_in_the_language_that_is_asked_for(tmp_path):
    copied, _ = copy_course(tmp_path, "zh", chapters=True)
    names = {path.relative_to(tmp_path).as_posix() for path in copied}
    assert {"labs/zh/lab01_control_flow.ipynb", "notebooks/zh/00_start_here.ipynb"} <= names
    assert not list(tmp_path.glob("*/*.ipynb"))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_folder_is_known_from_inside(tmp_path, language):
    copied, _ = copy_course(tmp_path, language)
    assert course_root(copied[0].parent) == tmp_path


def test_a_package_without_notebooks_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(course_copy, "_CLONE", tmp_path)
    monkeypatch.setattr(course_copy, "COURSE_IN_WHEEL", tmp_path / "course")
    with pytest.raises(NotebooksMissing):
        copy_course(tmp_path / "mine")
    assert main(["labs", str(tmp_path / "mine")]) == 2
    assert "has no notebooks" in capsys.readouterr().err
