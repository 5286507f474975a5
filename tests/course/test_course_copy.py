"""`onnxlab labs`: copies notebooks into a folder and overwrites nothing there."""

from pathlib import Path

import pytest

from onnxlab.cli import main
from onnxlab.course import course_copy
from onnxlab.course.course_copy import NotebooksMissing, copy_course
from onnxlab.course.lab_release import course_root
from onnxlab.kit.exercise import LABS

ROOT = Path(__file__).parents[2]


def test_the_course_is_copied_and_work_is_left_alone(tmp_path):
    copied, existing = copy_course(tmp_path)
    labs = [path for path in copied if path.parent == tmp_path / "labs"]
    assert [path.stem for path in labs] == list(LABS)
    names = {path.relative_to(tmp_path).as_posix() for path in copied}
    assert {"labs/zh/lab01_control_flow.ipynb", "notebooks/zh/00_start_here.ipynb", "docs/course.md"} <= names
    assert existing == []
    work, gone = labs[:2]
    work.write_text("mine")
    gone.unlink()
    again, left = copy_course(tmp_path)
    assert again == [gone]
    assert sorted([*again, *left]) == sorted(copied)
    assert work.read_text() == "mine"


@pytest.mark.parametrize("edition", ["", "zh"])
def test_the_folder_is_known_from_inside(tmp_path, edition):
    copy_course(tmp_path)
    assert course_root(tmp_path / "labs" / edition) == tmp_path


def test_a_package_without_notebooks_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(course_copy, "_CLONE", tmp_path)
    monkeypatch.setattr(course_copy, "COURSE_IN_WHEEL", tmp_path / "course")
    with pytest.raises(NotebooksMissing):
        copy_course(tmp_path / "mine")
    assert main(["labs", str(tmp_path / "mine")]) == 2
    assert "has no notebooks" in capsys.readouterr().err
