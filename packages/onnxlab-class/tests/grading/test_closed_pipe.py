"""Every command goes on when nobody reads its output: `onnxlab grade ... | head -1` writes its files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from class_support.small_class import LAB

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="pipes end in another way there"),
]
LAB_FILE = f"{LAB}.ipynb"
FEEDBACK = ["class", "feedback", "my-class", "out"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A class with ada's lab, as a folder of homes and as handed in, and a file that nobody takes."""
    for place in ("my-class/learners/ada/labs", "my-class/learners/bob", "handed-in/ada"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "my-class" / "class.json").write_text("{}")
    cell = {"cell_type": "code", "source": "answer = 1"}
    text = json.dumps({"cells": [cell]})
    (tmp_path / "my-class" / "learners" / "ada" / "labs" / LAB_FILE).write_text(text)
    (tmp_path / "handed-in" / "ada" / LAB_FILE).write_text(text)
    (tmp_path / "handed-in" / "notes.ipynb").write_text("")
    (tmp_path / "out" / "feedback").mkdir(parents=True)
    (tmp_path / "out" / "feedback" / "ada.html").write_text("a page")
    (tmp_path / "out" / "feedback" / "bob.html").write_text("a page")
    (tmp_path / "my-class" / "learners" / "bob" / "feedback").write_text("in the way")
    return tmp_path


def run_unread(folder: Path, *arguments: str, errors: bool) -> tuple[int, str]:
    """Run a command whose reader is gone before it starts; return its exit code and stderr."""
    reading, writing = os.pipe()
    os.close(reading)
    with (folder / "errors.txt").open("wb") as log:
        command = [sys.executable, "-m", "onnxlab.cli", *arguments]
        code = subprocess.run(
            command, cwd=folder, stdout=writing, stderr=writing if errors else log, timeout=300, check=False
        ).returncode
    os.close(writing)
    return code, (folder / "errors.txt").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "written", "errors"),
    [
        (["class", "take", "my-class", "taken"], f"taken/ada/{LAB_FILE}", False),
        *((FEEDBACK, "my-class/learners/ada/feedback/out.html", errors) for errors in (False, True)),
        (["class", "--help"], None, False),
        (["grade", "nowhere", "--out", "results"], None, True),
        (["nonsense"], None, True),
    ],
)
def test_a_command_whose_reader_is_gone_ends_as_if_it_were_there(folder, arguments, written, errors):
    read = subprocess.run(
        [sys.executable, "-m", "onnxlab.cli", *arguments],
        cwd=folder,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if written:
        (folder / written).unlink()
    unread, says = run_unread(folder, *arguments, errors=errors)
    assert unread == read.returncode
    assert "Traceback" not in says
    assert "BrokenPipe" not in says
    assert errors or says == read.stderr.decode()
    assert written is None or (folder / written).is_file()


def test_a_run_of_grading_whose_reader_is_gone_writes_its_files(folder):
    code, says = run_unread(folder, "grade", "handed-in", "--out", "results", errors=False)
    assert (code, says) == (0, "")
    assert "ada" in (folder / "results" / "grades.csv").read_text()
    assert (folder / "results" / "feedback" / "ada.html").is_file()


def test_streams_that_are_closed_from_the_start_are_no_traceback(folder):
    command = [sys.executable, "-m", "onnxlab.cli", "class", "take", "my-class", "taken"]
    shell = subprocess.run(["sh", "-c", '"$@" >&- 2>&-', "sh", *command], cwd=folder, check=False)
    assert shell.returncode == 0
    assert (folder / "taken" / "ada" / LAB_FILE).is_file()
