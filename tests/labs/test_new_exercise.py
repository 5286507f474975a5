"""A new exercise and a chapter: what `python -m tools.author` writes and tries, in a copy of the house."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.author.exercise import ExerciseRefused, write_exercise
from tools.author.steps import NothingToTry, steps

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_smallest_exercise_passes_all_that_must_run(tmp_path):
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("src", "solutions", "labs", "tests/labs", "tests/support", "tests/course", "tools"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    for file in ("pyproject.toml", "requirements.txt", "conftest.py"):
        shutil.copy(ROOT / file, tmp_path)
    (tmp_path / "notebooks").mkdir()

    written = run(tmp_path, "-m", "tools.author", "exercise", "lab07", "double-it")
    assert written.count("written: ") == 5
    for title, command in steps_of_double_it():
        assert run(tmp_path, *command) is not None, title
    handed_out = (tmp_path / "labs" / "lab07_pooling_indices.ipynb").read_text()
    assert "double_it" in handed_out
    assert "return 2 * x" not in handed_out
    script = "from onnxlab import progress; from onnxlab.kit.exercise import labs; progress()"
    assert "double-it" in run(tmp_path, "-c", script)


def steps_of_double_it() -> list[tuple[str, list[str]]]:
    """The steps up to the notebooks: translations and the static checks are those of the whole repository."""
    return [
        (title, [word.replace("to-global-indices", "double-it") for word in command])
        for title, command in steps(ROOT, "to-global-indices")[:5]
    ]


def test_a_name_that_cannot_be_an_exercise_is_refused_and_nothing_written(tmp_path):
    for lab, name, says in (
        ("lab99", "double-it", "There is no lab"),
        ("lab04", "Double It", "no name for an exercise"),
        ("lab04", "asinh-symbolic", "exists"),
    ):
        with pytest.raises(ExerciseRefused, match=says):
            write_exercise(tmp_path, lab, name)
    assert list(tmp_path.iterdir()) == []


def test_a_chapter_is_tried_by_its_number_and_something_else_is_refused():
    titles = [title for title, _ in steps(ROOT, "04b")]
    assert titles[0] == "outputs of the chapter"
    assert "a second run" in titles
    with pytest.raises(NothingToTry, match="no exercise and no chapter 'nothing'"):
        steps(ROOT, "nothing")


def run(folder: Path, *arguments: str) -> str:
    environment = {"PYTHONPATH": str(folder / "src"), "ONNXLAB_STATE": str(folder / "progress.json")}
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert process.returncode == 0, process.stdout[-3000:] + process.stderr[-3000:]
    return process.stdout
