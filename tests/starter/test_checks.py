import os
import sys
from pathlib import Path

import pytest

from starter import checks, commands
from starter.environment import Environment
from tests.support import chromium

HERE = Environment(Path(sys.prefix), Path(sys.executable), managed=False)
GOOD = ("good", ("-c", "print('all fine')"))
BAD = ("bad", ("-c", "print('1 error'); raise SystemExit(1)"))


def let_pytest_print(monkeypatch, text):
    monkeypatch.setattr(checks, "pytest_arguments", lambda options, fast: ["-c", f"print({text!r})"])


def test_every_step_runs_even_if_an_earlier_one_fails_and_only_its_output_is_shown(monkeypatch, capfd):
    monkeypatch.setattr(checks, "STATIC", (BAD, GOOD))
    let_pytest_print(monkeypatch, "3 passed in 1 s")
    assert checks.run_checks(HERE, [], fast=True) == 1
    printed = capfd.readouterr().out
    table = printed.split("step ")[1].splitlines()
    assert [line.split()[:2] for line in table[1:4]] == [["bad", "FAILED"], ["good", "ok"], ["tests", "ok"]]
    assert "1 error" in printed
    assert "all fine" not in printed
    assert "3 passed in 1 s" in printed


def test_all_of_it_passing_is_exit_code_zero(monkeypatch, capfd):
    monkeypatch.setattr(checks, "STATIC", (GOOD,))
    let_pytest_print(monkeypatch, "3 passed")
    assert checks.run_checks(HERE, [], fast=True) == 0


def test_fast_leaves_out_notebooks_browser_and_slow_tests():
    arguments = checks.pytest_arguments([], fast=True)
    assert "not slow and not browser" in arguments
    assert "--nbval" not in arguments
    assert "notebooks" not in arguments


def test_everything_runs_in_one_pytest_with_one_worker_more_than_cores():
    arguments = checks.pytest_arguments([], fast=False)
    assert {"--nbval", "notebooks", "solutions", "tests", "src"} <= set(arguments)
    labs = {f"labs/{path.name}" for path in checks.ROOT.glob("labs/*.ipynb")}
    assert len(labs & set(arguments)) == 4
    assert labs <= set(checks.pytest_arguments(["--all"], fast=False))
    assert int(arguments[arguments.index("-n") + 1]) == os.cpu_count() + 1


def test_before_a_release_every_translated_notebook_is_run_and_else_a_sample():
    chinese = {path.relative_to(checks.ROOT).as_posix() for path in checks.ROOT.glob("*/zh/*.ipynb")}
    assert chinese <= set(checks.pytest_arguments(["--all"], fast=False))
    assert chinese & set(checks.pytest_arguments([], fast=False)) == set(checks.TRANSLATED)


@pytest.mark.parametrize("path", ["tests/test_cli.py", "tests/test_cli.py::test_x"])
def test_a_named_path_is_run_in_place_of_all(path):
    arguments = checks.pytest_arguments([path, "-x"], fast=True)
    assert arguments[-2:] == [path, "-x"]
    assert "src" not in arguments


def test_chromium_may_be_named_by_a_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("CHROME", sys.executable)
    assert chromium.find_chromium() == sys.executable
    monkeypatch.setenv("CHROME", str(tmp_path / "nothing"))
    assert chromium.find_chromium() is None


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["help"], ["start", "--help"], ["test", "--help"]])
def test_help(arguments, capsys):
    assert commands.run(arguments) == 0
    assert "usage: python3 course.py" in capsys.readouterr().out


def test_a_mistyped_command_is_said(capsys):
    assert commands.run(["tset"]) == 2
    assert "no command 'tset'" in capsys.readouterr().err
