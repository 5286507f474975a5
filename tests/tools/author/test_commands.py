"""The authors' command line: messages, exit codes and wrong usage."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.author.__main__ import main

ROOT = Path(__file__).parents[3]
CELL = (
    '{"cell_type": "code", "execution_count": null, "id": "a", "metadata": {}, "outputs": [], "source": "%s"}'
)
NOTEBOOK = '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [%s]}'


@pytest.fixture
def chapter(tmp_path, monkeypatch):
    """Write one chapter with one cell, and go to the folder above it."""

    def write(source):
        path = tmp_path / "notebooks" / "chapter.ipynb"
        path.parent.mkdir(exist_ok=True)
        path.write_text(NOTEBOOK % (CELL % source))
        return path

    monkeypatch.chdir(tmp_path)
    return write


def test_run_shows_its_progress_and_lists_what_to_correct(chapter, capsys):
    path = chapter("print(6 * 7)")
    assert main(["run", str(path)]) == 0
    out = capsys.readouterr().out
    assert "[1/1] print(6 * 7)" in out
    assert "saved" in out
    assert "to correct: notebook: title" in out
    assert "42" in path.read_text()


def test_run_stops_at_an_error_and_its_exit_code_is_2(chapter, capsys):
    path = chapter("1 / 0")
    before = path.read_text()
    assert main(["run", str(path)]) == 2
    err = capsys.readouterr().err
    assert "cell 1 of 1 raised ZeroDivisionError: division by zero" in err
    assert "Traceback" not in err.splitlines()[-3]
    assert path.read_text() == before


def test_check_prints_a_table_and_fails(chapter, capsys):
    chapter("print(1)")
    assert main(["check"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["notebook", "cell", "rule", "found"]
    assert any(line.startswith("chapter.ipynb") and "execution count is None" in line for line in lines)


def test_a_file_that_is_not_a_notebook_is_named_without_a_traceback(tmp_path, capsys):
    path = tmp_path / "text.ipynb"
    path.write_text("hello")
    assert main(["check", str(path)]) == 2
    assert "is not a Jupyter notebook" in capsys.readouterr().err


def test_a_folder_without_notebooks_is_wrong_usage(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["check"]) == 2
    assert "no notebooks here" in capsys.readouterr().err


def test_a_reader_that_stops_early_gets_no_traceback(chapter):
    command = [sys.executable, "-m", "tools.author", "check", str(chapter("print(1)"))]
    reading, writing = os.pipe()
    os.close(reading)  # as after `| head`, when head has ended
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, env=variables)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, "")  # what it is without the reader, too


def test_without_uv_the_command_says_how_to_get_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["pin"]) == 2
    assert "Run: pip install uv" in capsys.readouterr().err


def test_a_package_that_is_not_pinned_is_refused(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert main(["pin", "pilow"]) == 2
    assert "has no package 'pilow'" in capsys.readouterr().err


def test_wrong_usage_gets_two_lines(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["sync", "labs"])
    assert ended.value.code == 2
    first, last = capsys.readouterr().err.splitlines()
    assert first == "python -m tools.author sync: unrecognized arguments: labs"
    assert last == "See: python -m tools.author sync --help"
