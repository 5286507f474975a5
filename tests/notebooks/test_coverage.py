"""docs/coverage.md: every statement has a verdict, and every verdict a cell that is there and asserts it.

docs/coverage.zh.md, which is generated from it, has the same rows in Chinese, below the Chinese headings.
"""

import ast
import re
from collections.abc import Iterator
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
    "PyTorch to ONNX in detail, an earlier edition": 2,  # only where it differs
    "Operator support, custom operators and a dynamic resize": 30,
    "PyTorch to ONNX in practice: backends and limits": 30,
    "Super resolution, and operators that ONNX does not support": 30,
    "Beyond the sources": 40,
}
"""The sources, by title, and what none of them has; each with the fewest rows that can hold it."""

HEADER = "| statement or snippet | where | verdict | the cell that proves it |"
NOT_TESTED, NOTHING = "not tested here", "-"
VERDICT = re.compile(
    r"(?P<verdict>confirmed|wrong|not tested here"
    r"|outdated since (?:torch|ONNX Runtime|opset) \d+(?:\.\d+)*(?: at the latest)?)(?:: .+)?"
)
CELL = re.compile(r"\[(?P<chapter>\d\d[a-z]?)#(?P<id>[\w-]+)\]\(\.\./notebooks/(?P<file>\w+\.ipynb)\)")
SECTION = re.compile(r"(?P<chapter>\d\d[a-z]?): (?P<headings>\*.+?\*)(?:; |$)")


def tables() -> dict[str, list[tuple[int, str]]]:
    """The rows below each heading of the second level, with their line numbers. Prose has no rows."""
    rows_of: dict[str, list[tuple[int, str]]] = {}
    heading = ""
    for number, line in enumerate(DOCUMENT.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line.startswith("|") and line != HEADER and not set(line) <= set("|-"):
            rows_of.setdefault(heading, []).append((number, line))
    return rows_of


TABLES = tables()
ROWS = [row for rows in TABLES.values() for row in rows]


def columns(line: str) -> list[str]:
    """The cells of a table's row."""
    return [column.strip() for column in line.strip("|").split(" | ")]


def named_cells(line: str) -> list[re.Match[str]]:
    """The notebook cells that the last column of a row names. Anything else in that column is a mistake."""
    column = columns(line)[3]
    if column == NOTHING:
        return []
    matches = [CELL.fullmatch(part) for part in column.split("<br>")]
    assert all(matches), f"not a list of cells: {column}"
    return [match for match in matches if match]


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


def faults(line: str) -> Iterator[str]:
    """What is wrong with a row."""
    if len(columns(line)) != 4 or not columns(line)[0]:
        yield "a row has four columns, and a statement in the first"
        return
    _, where, verdict, _ = columns(line)
    parsed = VERDICT.fullmatch(verdict)
    if not parsed:
        yield f"not a verdict: {verdict}"
        return
    cells = named_cells(line)
    if parsed["verdict"] == NOT_TESTED:
        if where != NOTHING or cells:
            yield "a cell is named for what is not tested"
        return
    if not cells:
        yield "a verdict without a cell"
    for named in cells:
        yield from faults_of_cell(named)
    above = {(named["chapter"], heading_above(named["file"], named["id"])) for named in cells}
    headings = {
        (match["chapter"], heading)
        for match in SECTION.finditer(where)
        for heading in re.findall(r"\*(.+?)\*(?:, |$)", match["headings"])
    }
    if headings != above:
        yield f"the cells stand below {sorted(above)}"


def faults_of_cell(named: re.Match[str]) -> Iterator[str]:
    """What is wrong with a cell that a row names."""
    label = f"{named['chapter']}#{named['id']}"
    if not named["file"].startswith(named["chapter"] + "_") or not (NOTEBOOKS / named["file"]).exists():
        yield f"{label}: {named['file']} is not that chapter"
        return
    cell = {cell["id"]: cell for cell in notebook(named["file"]).cells}.get(named["id"])
    if cell is None:
        yield f"{label} is gone"
    elif cell["cell_type"] != "code" or not asserts(cell["source"]):
        yield f"{label} asserts nothing"


def test_every_row_has_a_verdict_and_a_cell_that_asserts_it():
    wrong = [f"line {number}: {fault}" for number, line in ROWS for fault in faults(line)]
    assert not wrong, "\n".join(wrong)


def heading_above(file: str, cell_id: str) -> str:
    """The last heading before a cell, without its number."""
    heading = ""
    for cell in notebook(file).cells:
        if cell["id"] == cell_id:
            return re.sub(r"^\d+\.? ", "", heading)
        if cell["cell_type"] == "markdown":
            heading = [heading, *re.findall(r"^##+ +(.+)$", cell["source"], re.MULTILINE)][-1]
    return ""


CHINESE = DOCUMENT.with_suffix(".zh.md")
CHINESE_VERDICTS = {
    "confirmed": "成立",
    "wrong": "不成立",
    "not tested here": "未实测",
    "outdated": "已过时\uff0c始于",
}
RELEASE = re.compile(r"(?:torch|ONNX Runtime|opset) \d+(?:\.\d+)*")


def rows(document: Path) -> list[list[str]]:
    """The columns of each row of a document's tables, without their heads."""
    lines = document.read_text("utf-8").splitlines()
    heads = {lines[i - 1] for i, line in enumerate(lines) if line.startswith("|---")}
    return [
        columns(line)
        for line in lines
        if line.startswith("|") and line not in heads and set(line) - set("|-")
    ]


@pytest.mark.release
def test_the_chinese_document_has_the_same_rows_verdicts_and_cells():
    pairs = list(zip(rows(DOCUMENT), rows(CHINESE), strict=True))
    assert len(pairs) == len(ROWS)
    for english, chinese in pairs:
        verdict = english[2].partition(":")[0]
        word = next(word for start, word in CHINESE_VERDICTS.items() if verdict.startswith(start))
        assert chinese[2].startswith(word), chinese
        assert RELEASE.findall(verdict) == RELEASE.findall(chinese[2].partition("\uff1a")[0])
        assert chinese[3] == english[3].replace("(../notebooks/", "(../notebooks/zh/")
        assert re.search("[\u4e00-\u9fff]", chinese[0]) or chinese[0] == english[0], chinese[0]


@pytest.mark.release
def test_the_chinese_rows_name_the_chinese_headings():
    for english, chinese in zip(rows(DOCUMENT), rows(CHINESE), strict=True):
        named = CELL.finditer(english[3])
        above = {(cell["chapter"], heading_above(f"zh/{cell['file']}", cell["id"])) for cell in named}
        sections = re.findall(r"(\d\d[a-z]?)\uff1a(\*.+?\*)(?:\uff1b|$)", chinese[1])
        where = {(number, name) for number, names in sections for name in names.strip("*").split("*、*")}
        assert where == above


def test_every_chapter_answers_a_statement():
    chapters = {path.name.partition("_")[0] for path in NOTEBOOKS.glob("[0-9][0-9]*_*.ipynb")} - {"00"}
    named = {match["chapter"] for rows in TABLES.values() for _, line in rows for match in named_cells(line)}
    assert not chapters - named


@pytest.mark.parametrize(
    "source", ["print('assert x')", "def f(x):\n    assert x", "x = expect", "g = lambda: guess.reveal(1)"]
)
def test_what_is_not_run_is_no_assertion(source):
    assert not asserts(source)
