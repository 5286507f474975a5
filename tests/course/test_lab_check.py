"""`onnxlab check`, `progress` and `reset` as typed in a terminal."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from onnxlab import cli
from onnxlab.course.lab_check import lab_of
from onnxlab.course.notebooks import read, write
from onnxlab.errors import UnknownExercise
from onnxlab.kit.exercise import exercise, lab
from onnxlab.language import speak

ROOT = Path(__file__).parents[2]
POINTS, EASY = lab("lab07").points, exercise("to-global-indices")[1].points


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch) -> Path:
    path = tmp_path / "progress.json"
    monkeypatch.setenv("ONNXLAB_STATE", str(path))
    return path


@pytest.fixture
def notebook(tmp_path) -> Path:
    return Path(shutil.copy(ROOT / "labs" / "lab07_pooling_indices.ipynb", tmp_path))


def drop_checks(path: Path) -> None:
    """Delete a notebook's own checks; an answer is checked without them, too."""
    content = read(path)
    content["cells"] = [cell for cell in content["cells"] if not cell["source"].startswith("check(")]
    write(content, path)


def type_answer(path: Path, *answers: str) -> None:
    """Put bodies in the places of the first stubs."""
    content = read(path)
    stubs = [cell for cell in content["cells"] if "NotImplementedError" in cell["source"]]
    for cell, answer in zip(stubs, answers, strict=False):
        cell["source"] = cell["source"].replace("raise NotImplementedError()", answer)
    write(content, path)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it ends the notebook's kernel")
def test_an_answer_that_crashes_torch_costs_its_own_exercise_only(tmp_path, capsys, state):
    path = Path(shutil.copy(ROOT / "solutions" / "lab07_pooling_indices.ipynb", tmp_path))
    content = read(path)
    cell = next(cell for cell in content["cells"] if "def max_unpool_symbolic" in cell["source"])
    cell["source"] = """import torch
def max_unpool_symbolic(g, values, index, size):
    begin, axes = (g.op("Constant", value_t=torch.tensor(value)) for value in ([0, 1], [1]))
    index = g.op("Add", index, g.op("Unsqueeze", begin, axes))
    return g.op("MaxUnpool", values, index, kernel_shape_i=[2, 2], strides_i=[2, 2])
"""
    write(content, path)
    assert cli.main(["check", str(path)]) == 1
    printed = capsys.readouterr().out
    assert f"{EASY} of {POINTS} points" in printed  # those of to-global-indices
    assert "SIGSEGV" in printed
    attempts = [exercise["attempts"] for exercise in json.loads(state.read_text()).values()]
    assert attempts == [1, 1], "the notebook's own checks are no attempts"


@pytest.mark.slow
def test_wrong_and_hostile_answers_have_an_end(notebook, capsys):
    type_answer(notebook, "return names.oops", "import os; os._exit(1)")
    drop_checks(notebook)
    assert cli.main(["check", str(notebook)]) == 1
    printed = capsys.readouterr().out
    assert "names.oops" in printed
    assert "exit code 1" in printed
    assert f"0 of {POINTS} points" in printed


@pytest.mark.slow
def test_a_cell_that_fails_and_what_an_answer_prints_are_shown(notebook, capsys):
    type_answer(notebook, "print('axes', shape)\n    return shape.oops", "return 1 +")
    drop_checks(notebook)
    assert cli.main(["check", str(notebook)]) == 1
    printed = capsys.readouterr().out
    assert "SyntaxError: invalid syntax" in printed
    assert re.search(r"In your code, line \d+: return 1 \+\n", printed)
    assert "The last lines:\n  axes" in printed
    assert "not attempted" not in printed
    assert "Traceback" not in printed


@pytest.mark.slow
def test_watch_checks_at_each_save_until_all_is_passed(notebook, state, capsys):
    """First as it was handed out, then solved, by somebody who deleted the notebook's own checks."""
    untouched, solved = notebook.read_bytes(), notebook.parent / "solved.ipynb"
    shutil.copy(ROOT / "solutions" / notebook.name, solved)
    drop_checks(solved)
    folder = notebook.parent / "labs"
    folder.mkdir()
    notebook = Path(shutil.move(notebook, folder))
    command = [sys.executable, "-m", "onnxlab.cli", "watch", "lab07"]
    with subprocess.Popen(command, cwd=folder.parent, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        printed = []
        for line in watching.stdout:
            printed.append(line)
            if line.startswith("Waiting for the next save"):
                assert notebook.read_bytes() == untouched
                assert not state.exists()
                shutil.copy(solved, notebook)
    text = "".join(printed)
    assert watching.returncode == 0
    before, _, after = text.partition("Waiting")
    assert f"0 of {POINTS} points" in before
    assert f"{POINTS} of {POINTS} points" in after
    assert "\nNext: " in text
    assert cli.main(["progress"]) == 0
    assert capsys.readouterr().out.count(" passed ") >= 2


def test_bad_input_is_a_message(tmp_path, capsys):
    (tmp_path / "lab04_asinh.ipynb").write_text("{")
    (tmp_path / "essay.ipynb").write_text("{}")
    (tmp_path / "essay.md").write_text("")
    (tmp_path / "empty").mkdir()
    for arguments, says in [
        (["check", str(tmp_path / "lab04_asinh.ipynb")], "is not a Jupyter notebook"),
        (["check", str(tmp_path / "lab05_bitshift.ipynb")], "There is no file"),
        (["check", str(tmp_path / "empty")], "has no labs"),
        (["watch", str(tmp_path / "essay.md")], "is not a notebook (.ipynb)"),
        (["check", str(tmp_path / "essay.md")], "is not a notebook (.ipynb)"),
        (["check", str(ROOT / "labs" / "lab04_asinh.ipynb"), str(tmp_path / "no.ipynb")], "There is no file"),
        (["check", str(tmp_path / "essay.ipynb")], "is not named after a lab"),
        (["reset", "lab99"], "There is no lab 'lab99'"),
    ]:
        assert cli.main(arguments) == 2
        out, error = capsys.readouterr()
        assert says in error
        assert out == ""  # nothing is run before it is said
        assert len(error.splitlines()) <= 3


def test_reset_from_inside_the_course(tmp_path, monkeypatch, capsys):
    for folder in ("solutions", "labs", "notebooks"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "solutions" / "lab04_asinh.ipynb", tmp_path / "solutions")
    shutil.copy(ROOT / "labs" / "lab04_asinh.ipynb", tmp_path / "labs")
    type_answer(tmp_path / "labs" / "lab04_asinh.ipynb", "return {'mine'}")
    monkeypatch.chdir(tmp_path / "labs")
    assert cli.main(["reset", "lab04"]) == 0
    assert "Your work is in labs/lab04-before-reset_asinh.ipynb." in capsys.readouterr().out
    assert (tmp_path / "labs" / "lab04_asinh.ipynb").read_bytes() == (
        ROOT / "labs" / "lab04_asinh.ipynb"
    ).read_bytes()


def test_reset_of_a_chinese_lab_gives_it_as_it_was_handed_out_and_says_so_in_chinese(
    tmp_path, monkeypatch, capsys
):
    for folder in ("solutions", "notebooks"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "solutions" / "lab04_asinh.ipynb", tmp_path / "solutions")
    monkeypatch.chdir(tmp_path)
    notebook_path, released = (folder / "labs" / "zh" / "lab04_asinh.ipynb" for folder in (tmp_path, ROOT))
    assert cli.main(["reset", "lab04", "--language", "zh"]) == 0
    assert notebook_path.read_bytes() == released.read_bytes()
    type_answer(notebook_path, "return {'mine'}")
    assert cli.main(["reset", "lab04", "--language", "zh"]) == 0
    output = capsys.readouterr().out
    speak("en")
    assert notebook_path.read_bytes() == released.read_bytes()
    assert "labs/zh/lab04-before-reset_asinh.ipynb" in output
    assert "untouched" not in output
    assert re.search("[\u4e00-\u9fff]", output)


@pytest.mark.parametrize(
    "stem", ["lab05_bitshift", "lab05_bitshift-Copy2", "ada_lab05", "lab05-before-reset_bitshift"]
)
def test_lab_of_a_copy(stem):
    assert lab_of(Path(f"{stem}.ipynb")) == "lab05_bitshift"


def test_lab_of_something_else():
    with pytest.raises(UnknownExercise, match="The labs are lab01_control_flow, "):
        lab_of(Path("homework.ipynb"))
