"""The list of what other versions change, tried on small notebooks with a right and a wrong output."""

import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from starter.console import Stop
from starter.environment import Environment
from tools.remeasure import Fact, Part, measure, prepare, table


def cell(name, source, text):
    outputs = [new_output("stream", name="stdout", text=text)]
    return new_code_cell(source, id=name, outputs=outputs, execution_count=1)


@pytest.mark.slow
def test_what_differs_is_listed_and_what_does_not_is_not(tmp_path):
    cells = [
        cell("agrees", "print('one\\ntwo')", "one\ntwo\n"),
        cell("reads", "print('one\\n2')", "one\ntwo\n"),
        cell("claim", "assert 1 + 1 == 3, 'no longer'", "\n"),
        cell("bare", "two = 1 + 1\nassert two == 3", "\n"),
    ]
    (tmp_path / "notebooks").mkdir()
    nbformat.write(new_notebook(cells=cells), tmp_path / "notebooks" / "small.ipynb")
    part = measure(Path(sys.executable), tmp_path / "notebooks" / "small.ipynb")
    assert (part.ran, part.skipped) == (4, 0)
    assert part.differ == [
        Fact("reads", "two", "2", fails=False),
        Fact("claim", "runs", "AssertionError: no longer", fails=True),
        Fact("bare", "runs", "AssertionError: assert two == 3", fails=True),
    ]


@pytest.mark.slow
def test_a_test_that_fails_and_one_that_is_skipped(tmp_path):
    (tmp_path / "test_small.py").write_text(
        "import pytest\n\n\ndef test_right(): pass\n\n\ndef test_wrong(): assert 'new' == 'old'\n\n\n"
        "@pytest.mark.skip\ndef test_skipped(): pass\n"
    )
    part = measure(Path(sys.executable), tmp_path / "test_small.py")
    assert (part.ran, part.skipped) == (2, 1)
    assert [(fact.name, fact.fails) for fact in part.differ] == [("test_wrong", True)]
    assert "'new' == 'old'" in part.differ[0].now


@pytest.mark.slow
def test_a_process_that_dies_and_a_place_without_tests(tmp_path):
    (tmp_path / "test_dies.py").write_text("import os\n\n\ndef test_dies(): os._exit(70)\n")
    part = measure(Path(sys.executable), tmp_path / "test_dies.py")
    assert part.differ[0].now.startswith("pytest ended with code 70")
    (tmp_path / "test_nothing.py").write_text("")
    part = measure(Path(sys.executable), tmp_path / "test_nothing.py")
    assert part.differ[0].now == "pytest ended with code 5: nothing ran"


def test_the_table_shows_the_place_of_a_difference_in_a_long_line():
    recorded, now = "x" * 200 + " recorded", "x" * 200 + " now"
    facts = [Fact("cell", recorded, now), Fact("gone", "", "a", fails=False)]
    row, gone = table(Part("notebooks/07.ipynb", 3, 0, 1.0, facts)).splitlines()
    assert row.startswith("! cell")
    assert "x recorded" in row
    assert row.endswith("x now")
    assert gone.startswith("  gone")
    assert "(nothing)" in gone


def test_an_environment_with_something_else_is_not_emptied(tmp_path):
    with pytest.raises(Stop, match="that this tool has not made"):
        prepare(Environment(Path(sys.prefix), Path(sys.executable)), ["torch==2.15.0"])
    (tmp_path / "pyvenv.cfg").touch()
    (tmp_path / "remeasure.txt").write_text("the tested packages\ntorch==2.14.1")
    environment = Environment(tmp_path, Path(sys.executable))
    with pytest.raises(Stop, match=r"holds the tested packages, torch==2\.14\.1"):
        prepare(environment, ["torch==2.15.0"])
    prepare(environment, ["torch==2.14.1"])  # is there: nothing to do
    assert {path.name for path in tmp_path.iterdir()} == {"pyvenv.cfg", "remeasure.txt"}
