import sys
from pathlib import Path

import pytest
from starter.checks import Check
from starter.environment import Environment

from starter import checks, commands

HERE = Environment(Path(sys.prefix), Path(sys.executable), ours=False)
GOOD = Check("good", (("-c", "print('first'); print('all fine')"),))
BAD = Check("bad", (("-c", "print('1 error'); raise SystemExit(1)"), ("-c", "print('fine')")))


def test_a_step_passes_only_if_each_of_its_commands_does():
    assert checks.run_check(HERE, GOOD).passed
    assert not checks.run_check(HERE, BAD).passed


def test_the_table_says_the_last_line_of_what_counts():
    assert checks.run_check(HERE, GOOD).note == "all fine"
    assert checks.run_check(HERE, BAD).note == "1 error", "the command that failed, not the one after it"


def test_every_step_runs_even_if_an_earlier_one_fails(monkeypatch, capfd):
    monkeypatch.setattr(checks, "STATIC", (BAD, GOOD))
    monkeypatch.setattr(checks, "pytest_arguments", lambda options, fast: ["-c", "print('3 passed in 1 s')"])
    assert checks.run_checks(HERE, [], fast=True) == 1
    table = capfd.readouterr().out.split("step ")[1].splitlines()
    assert [line.split()[:2] for line in table[1:4]] == [["bad", "FAILED"], ["good", "ok"], ["tests", "ok"]]
    assert table[3].endswith("3 passed in 1 s")


def test_all_of_it_passing_is_exit_code_zero(monkeypatch, capfd):
    monkeypatch.setattr(checks, "STATIC", (GOOD,))
    monkeypatch.setattr(checks, "pytest_arguments", lambda options, fast: ["-c", "print('3 passed')"])
    assert checks.run_checks(HERE, [], fast=True) == 0


def test_a_missing_browser_is_named_with_the_way_to_get_one(monkeypatch, capfd):
    monkeypatch.setattr(checks, "STATIC", (GOOD,))
    monkeypatch.setattr(checks, "NOTEBOOKS", GOOD)
    monkeypatch.setattr(checks, "pytest_arguments", lambda options, fast: ["-c", "print('3 passed')"])
    monkeypatch.setattr(checks, "find_chromium", lambda: None)
    checks.run_checks(HERE, [], fast=False)
    assert "apt install chromium" in capfd.readouterr().out


def test_fast_leaves_out_notebooks_browser_and_slow_tests():
    arguments = checks.pytest_arguments([], fast=True)
    assert "not slow and not browser" in arguments
    assert "--nbval" not in arguments
    assert "notebooks" not in arguments


def test_everything_runs_in_one_pytest_over_all_cores():
    arguments = checks.pytest_arguments([], fast=False)
    assert {"--nbval", "notebooks", "tests", "src"} <= set(arguments)
    assert arguments[arguments.index("-n") + 1] == "auto"


@pytest.mark.parametrize("path", ["tests/test_cli.py", "tests/test_cli.py::test_x"])
def test_a_named_path_is_run_in_place_of_all(path):
    arguments = checks.pytest_arguments([path, "-x"], fast=True)
    assert arguments[-2:] == [path, "-x"]
    assert "src" not in arguments


def test_chromium_may_be_named_by_a_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("CHROME", sys.executable)
    assert checks.find_chromium() == sys.executable
    monkeypatch.setenv("CHROME", str(tmp_path / "nothing"))
    assert checks.find_chromium() is None


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["help"], ["start", "--help"], ["test", "--help"]])
def test_help(arguments, capsys):
    assert commands.run(arguments) == 0
    assert "usage: python3 course.py" in capsys.readouterr().out


def test_a_mistyped_command_is_said(capsys):
    assert commands.run(["tset"]) == 2
    assert "no command 'tset'" in capsys.readouterr().err
