"""docs/coverage.md: every statement has a verdict, and every verdict a cell that is there and asserts it."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
DOCUMENT = ROOT / "docs" / "coverage.md"
SOURCES = {
    "PyTorch to ONNX in detail": 65,
    "PyTorch to ONNX in detail, an earlier edition": 55,
    "Operator support, custom operators and a dynamic resize": 30,
    "PyTorch to ONNX in practice: backends and limits": 30,
    "Super resolution, and operators that ONNX does not support": 30,
}
"""The sources, by their English titles, each with the fewest rows that can hold its statements."""

HEADER = "| statement or snippet | where | verdict | the cell that proves it |"
NOT_TESTED, NOTHING = "not tested here", "-"
VERDICT = re.compile(
    r"(?P<verdict>confirmed|wrong|not tested here"
    r"|outdated since (?:torch|ONNX Runtime|opset) \d+(?:\.\d+)*(?: at the latest)?)(?:: .+)?"
)
CELL = re.compile(
    r"\[In (?P<count>\d+)\]\(\.\./notebooks/(?P<file>\w+\.ipynb)\) `(?P<chapter>\d\d)#(?P<id>[\w-]+)`"
)
EXPECTATIONS = {"expect_error", "expect_warning"}
SECTION = re.compile(r"(?P<chapter>\d\d): (?P<headings>\*.+?\*)(?:; |$)")


def tables() -> dict[str, list[tuple[int, str]]]:
    """The rows below each heading of the second level, with their line numbers. Prose has no rows."""
    found: dict[str, list[tuple[int, str]]] = {}
    heading = ""
    for number, line in enumerate(DOCUMENT.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line.startswith("|") and line != HEADER and not set(line) <= set("|-"):
            found.setdefault(heading, []).append((number, line))
    return found


TABLES = tables()
ROWS = [pytest.param(line, id=f"line{number}") for rows in TABLES.values() for number, line in rows]


def columns(line: str) -> list[str]:
    """The cells of a table's row."""
    return [column.strip() for column in line.strip("|").split(" | ")]


def named_cells(line: str) -> list[re.Match[str]]:
    """The notebook cells that the last column of a row names. Anything else in that column is a mistake."""
    column = columns(line)[3]
    if column == NOTHING:
        return []
    found = [CELL.fullmatch(part) for part in column.split("<br>")]
    assert all(found), f"not a list of cells: {column}"
    return [match for match in found if match]


@cache
def notebook(file: str) -> Any:
    """A chapter, as nbformat reads it."""
    return nbformat.read(NOTEBOOKS / file, as_version=4)


def asserts(source: str) -> bool:
    """Whether running the cell can fail on purpose. A function's body does not count: it may not be run."""
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in {"expect_error", "expect_warning"} or called.startswith(
                ("np.testing.", "torch.testing.")
            ):
                return True
            if called.endswith(".reveal"):
                return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))
    return False


def test_there_is_a_table_for_every_source():
    assert list(TABLES) == list(SOURCES)
    short = {title: len(TABLES[title]) for title, least in SOURCES.items() if len(TABLES[title]) < least}
    assert not short


@pytest.mark.parametrize("line", ROWS)
def test_a_row_has_a_known_verdict_and_a_cell_unless_it_says_that_it_is_not_tested(line):
    assert len(columns(line)) == 4
    statement, where, verdict, _ = columns(line)
    assert statement
    known = VERDICT.fullmatch(verdict)
    assert known, f"not a verdict: {verdict}"
    if known["verdict"] == NOT_TESTED:
        assert where == NOTHING
        assert not named_cells(line)
    else:
        assert named_cells(line), "a verdict without a cell"


@pytest.mark.parametrize("line", [row for row in ROWS if "#" in row.values[0]])
def test_the_cells_of_a_row_exist_and_assert_something(line):
    for named in named_cells(line):
        assert named["file"].startswith(named["chapter"] + "_")
        assert (NOTEBOOKS / named["file"]).exists()
        cells = {cell["id"]: cell for cell in notebook(named["file"]).cells}
        label = f"{named['chapter']}#{named['id']}"
        assert named["id"] in cells, f"{label} is gone: was In [{named['count']}]"
        cell = cells[named["id"]]
        assert cell["cell_type"] == "code"
        assert cell["execution_count"] == int(named["count"]), f"{label} has another number now"
        assert asserts(cell["source"]), f"{label} asserts nothing"


@pytest.mark.parametrize("line", [row for row in ROWS if "#" in row.values[0]])
def test_the_sections_of_a_row_are_those_of_its_cells(line):
    named = {(match["chapter"], heading_above(match["file"], match["id"])) for match in named_cells(line)}
    said = {
        (match["chapter"], heading)
        for match in SECTION.finditer(columns(line)[1])
        for heading in re.findall(r"\*(.+?)\*(?:, |$)", match["headings"])
    }
    assert said == named


def heading_above(file: str, cell_id: str) -> str:
    """The last heading before a cell, without its number."""
    heading = ""
    for cell in notebook(file).cells:
        if cell["id"] == cell_id:
            return re.sub(r"^\d+\.? ", "", heading)
        if cell["cell_type"] == "markdown":
            heading = [heading, *re.findall(r"^##+ +(.+)$", cell["source"], re.MULTILINE)][-1]
    return ""


def test_every_chapter_answers_a_statement():
    chapters = {path.name[:2] for path in NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")} - {"00"}
    named = {match["chapter"] for rows in TABLES.values() for _, line in rows for match in named_cells(line)}
    assert not chapters - named


@pytest.mark.parametrize(
    "source",
    [
        "assert x == 1",
        "for x in y:\n    assert x",
        "with expect_error(TypeError, 'no'):\n    f()",
        "with expect_warning(UserWarning, 'no') if x else nullcontext():\n    f()",
        "np.testing.assert_allclose(x, y)",
        "guess.reveal('yes')",
    ],
)
def test_an_assertion_is_seen(source):
    assert asserts(source)


@pytest.mark.parametrize(
    "source", ["print('assert x')", "def f(x):\n    assert x", "x = expect", "g = lambda: guess.reveal(1)"]
)
def test_what_is_not_run_is_no_assertion(source):
    assert not asserts(source)
