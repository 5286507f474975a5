"""What is taken out of learners' homes, and what is not."""

import os
import sys

import pytest

from onnxlab import cli
from onnxlab.classroom.homes import HomesNotFound, take_labs
from onnxlab.grading.intake import LARGEST

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="homes are not read there")
LAB = "lab04_asinh.ipynb"


@pytest.fixture
def homes(tmp_path):
    """A class of which ada and bob have a lab."""
    for name in ("ada", "bob"):
        (tmp_path / "class" / "learners" / name / "labs").mkdir(parents=True)
        (tmp_path / "class" / "learners" / name / "labs" / LAB).write_text(name)
    return tmp_path / "class" / "learners"


def test_labs_are_copied_with_their_time_and_nothing_else(homes, tmp_path):
    labs = homes / "ada" / "labs"
    os.utime(labs / LAB, (1e9, 1e9))
    for other in ("lab04_asinh.new-version.ipynb", "lab04_asinh.before-reset-1.ipynb", "mine.ipynb"):
        (labs / other).write_text("")
    (homes / "instructor" / "labs").mkdir(parents=True)
    (homes / "instructor" / "labs" / LAB).write_text("the solution")
    (homes / "never-came").mkdir()
    into = tmp_path / "taken"
    taken = take_labs(homes.parent, into)
    assert taken.labs == {"ada": 1, "bob": 1}
    assert taken.left == ()
    assert sorted(str(path.relative_to(into)) for path in into.rglob("*.ipynb")) == [
        f"ada/{LAB}",
        f"bob/{LAB}",
    ]
    assert (into / "ada" / LAB).stat().st_mtime == 1e9
    assert take_labs(homes, into) == taken  # the homes themselves may be named


def test_no_link_leads_to_another_learners_work(homes, tmp_path):
    (homes / "eve").mkdir()
    (homes / "eve" / "labs").symlink_to(homes / "ada" / "labs")
    (homes / "mallory" / "labs").mkdir(parents=True)
    (homes / "mallory" / "labs" / LAB).symlink_to(homes / "ada" / "labs" / LAB)
    (homes / "trudy").symlink_to(homes / "ada")
    taken = take_labs(homes, tmp_path / "taken")
    assert taken.labs == {"ada": 1, "bob": 1}
    assert [line.partition(":")[0] for line in taken.left] == ["eve", "mallory, lab04_asinh", "trudy"]


def test_what_is_no_notebook_file_is_said_and_not_waited_for(homes, tmp_path):
    labs = homes / "ada" / "labs"
    os.mkfifo(labs / "lab01_control_flow.ipynb")
    (labs / "lab02_dynamic_shapes.ipynb").mkdir()
    with (labs / "lab03_trace_breakers.ipynb").open("wb") as large:
        large.truncate(LARGEST + 1)
    taken = take_labs(homes, tmp_path / "taken")
    assert taken.labs == {"ada": 1, "bob": 1}
    assert len(taken.left) == 3


def test_a_folder_that_is_not_there_is_said(tmp_path, capsys):
    with pytest.raises(HomesNotFound):
        take_labs(tmp_path / "nowhere", tmp_path / "taken")
    assert cli.main(["class", "take", str(tmp_path / "nowhere"), str(tmp_path / "taken")]) == 1
    assert "There is no folder" in capsys.readouterr().err


def test_a_folder_without_labs_is_said_in_three_lines(homes, tmp_path, capsys):
    (tmp_path / "notes").mkdir()
    for name in ("a.md", "b.md", "c.md"):
        (tmp_path / "notes" / name).write_text("")
    (homes / "ada" / "labs" / LAB).unlink()
    (homes / "bob" / "labs" / LAB).unlink()
    for folder, left in (
        (tmp_path / "notes", "left: a.md: Not a directory; and 2 others\n"),
        (homes.parent, ""),
    ):
        assert cli.main(["class", "take", str(folder), str(tmp_path / "taken")]) == 1
        said = capsys.readouterr()
        assert f"There are no learners' labs in {folder}.\n{left}Name a class" in said.err
        assert said.err.count("\n") <= 3
        assert said.out == ""
    assert not (tmp_path / "taken").exists()


def test_the_command_says_what_it_took(homes, tmp_path, capsys):
    (homes / "eve").mkdir()
    (homes / "eve" / "labs").symlink_to(homes / "ada" / "labs")
    assert cli.main(["class", "take", str(homes.parent), str(tmp_path / "taken")]) == 0
    said = capsys.readouterr()
    assert "2 labs of 2 learners" in said.out
    assert "left: eve" in said.err
