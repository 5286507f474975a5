"""The map on the first page names every chapter, with the time that the chapter itself names."""

import re
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CHAPTERS = sorted(path.name for path in NOTEBOOKS.glob("[0-9][0-9]*_*.ipynb"))
ROW = re.compile(r"^\| \[\d\d[a-z]? [^\]]+\]\((?P<file>\w+\.ipynb)\) \|.*\| (?P<minutes>\d+) \|$")


@pytest.fixture(scope="module")
def planned() -> dict[str, int]:
    """Minutes by file, as the map says."""
    cells = nbformat.read(NOTEBOOKS / "00_start_here.ipynb", as_version=4).cells
    (table,) = (cell.source for cell in cells if "| Chapter |" in cell.source)
    rows = [ROW.match(line) for line in table.splitlines() if re.match(r"\| \[?\d\d[a-z]? ", line)]
    assert all(rows)
    return {row["file"]: int(row["minutes"]) for row in rows}


def test_the_map_links_the_chapters_that_exist(planned):
    assert list(planned) == CHAPTERS, "put the link into the map of 00_start_here.ipynb"


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_minutes_are_those_of_the_chapter(planned, name):
    cells = nbformat.read(NOTEBOOKS / name, as_version=4).cells
    minutes = re.search(r"Time:?(?:\*\*)?:? (\d+) minutes", cells[0].source)
    assert minutes is not None, "the first cell does not say 'Time: ... minutes'"
    assert int(minutes[1]) == planned[name]
