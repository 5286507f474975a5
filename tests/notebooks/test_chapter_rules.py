"""Rules of a chapter that a program can see: cells to copy, length, graphs, headings that do not answer.

RULES_ONLY=04 tests one chapter: use it while you write.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from tests.notebooks.chapter import GRAPH, NOTEBOOKS, Chapter, read_chapter

MOST_CELLS = 65  # about 60
MOST_PREDICTIONS = 5
FEWEST_GRAPHS = 3
MINUTES_OFF = 5

EXEMPT = {
    ("00", "recipe"): "it welcomes, and teaches no method",
    ("99", "recipe"): "an appendix: nobody repeats at home what it shows",
    ("99", "cells"): "an appendix: it is looked up, not read through",
    ("99", "minutes"): "an appendix: it belongs to no hours",
}
"""Rules that do not fit a chapter, and why."""

ONLY = os.environ.get("RULES_ONLY", "")
PATHS = sorted(NOTEBOOKS.glob(f"{ONLY or '[0-9][0-9]'}*.ipynb"))


def broken_rules(chapter: Chapter) -> Iterator[tuple[str, str]]:
    """The name of each rule that a chapter breaks, and how."""
    if (cells := chapter.cells - chapter.folded) > MOST_CELLS:
        yield "cells", f"{cells} cells that a reader sees, at most {MOST_CELLS}: delete or split"
    if len(chapter.predictions) > MOST_PREDICTIONS:
        yield "predictions", f"{len(chapter.predictions)} predictions, at most {MOST_PREDICTIONS}"
    if chapter.graphs < FEWEST_GRAPHS:
        yield "graphs", f"{chapter.graphs} live graphs in shown cells, at least {FEWEST_GRAPHS}"
    for cell in chapter.folded_with_output:
        yield "folded output", f"{cell} is folded and has an output: unfold it, or print nothing"
    for name in chapter.borrowed:
        yield "borrowed names", f"{name} is read in a shown cell, and no shown cell before it binds it"
    if abs(chapter.minutes - chapter.computed_minutes) > MINUTES_OFF:
        yield "minutes", f"says {chapter.minutes} minutes, the cells need about {chapter.computed_minutes}"
    for prediction in chapter.predictions:
        if prediction.answered_above:
            yield "headings", f"the heading {prediction.heading!r} answers its prediction: ask a question"
    if chapter.recipe is None:
        yield (
            "recipe",
            "no section named a recipe, or for your own model, whose shown cells define a function",
        )
    elif chapter.recipe.globals:
        names = ", ".join(chapter.recipe.globals)
        yield "recipe", f"{chapter.recipe.function} reads {names} from the chapter: make them arguments"


def faults(path: Path) -> list[str]:
    """The rules that a notebook breaks, without those that do not fit it."""
    broken = broken_rules(read_chapter(path))
    return [fault for rule, fault in broken if (path.name[:2], rule) not in EXEMPT]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem.partition("_")[0])
def test_a_chapter_keeps_the_rules(path):
    assert not faults(path), "\n".join(["", *faults(path)])


def test_no_chapter_is_left_out():
    assert len(PATHS) == len(list(NOTEBOOKS.glob("*.ipynb"))) > 20 or ONLY


def write(path: Path, *cells: tuple[str, str]) -> Chapter:
    """Read a notebook of the cells (kind, source). The kind says what output a cell has saved."""
    notebook = nbformat.v4.new_notebook()
    for kind, source in cells:
        if kind == "text":
            notebook.cells.append(nbformat.v4.new_markdown_cell(source))
            continue
        cell = nbformat.v4.new_code_cell(source)
        cell.metadata["tags"] = ["proof"] if kind.startswith("proof") else []
        data = {
            "reveal": {"text/plain": "Answer: two Loops"},
            "graph": {GRAPH: {}},
            "proof, output": {"text/plain": "1"},
        }
        if kind in data:
            cell.outputs.append(nbformat.v4.new_output("display_data", data[kind]))
        notebook.cells.append(cell)
    nbformat.write(notebook, path)
    return read_chapter(path)


@pytest.mark.parametrize(
    ("cells", "borrowed"),
    [
        ([("proof", "x = 1"), ("code", "print(x)")], ["x"]),
        ([("proof", "x = 1"), ("code", "def f():\n    return x")], ["x"]),
        ([("proof", "import re"), ("code", "re.sub")], ["re"]),
        ([("code", "x = 1"), ("proof", "x = 2"), ("code", "print(x)")], ["x"]),
        ([("code", "print(y)")], ["y"]),
    ],
)
def test_a_name_is_borrowed_from_a_folded_cell(tmp_path, cells, borrowed):
    assert [name.split(": ")[1] for name in write(tmp_path / "x.ipynb", *cells).borrowed] == borrowed


@pytest.mark.parametrize(
    ("heading", "function", "answered"),
    [
        ("Two loops become two Loops", "predict", True),
        ("What a loop becomes", "predict", False),
        ("What a loop becomes", "predict_grid", True),  # the answer of a grid is not one text
    ],
)
def test_a_heading_answers_its_prediction(tmp_path, heading, function, answered):
    cells = (
        ("text", f"## 1. {heading}"),
        ("code", f"guess = {function}('A', [])"),
        ("reveal", "guess.reveal(n)"),
    )
    [prediction] = write(tmp_path / "x.ipynb", *cells).predictions
    assert prediction.answered_above == answered


def test_a_recipe_reads_nothing_of_its_chapter(tmp_path):
    cells = (
        ("code", "image = 1"),
        ("text", "## 5. A recipe for your own model"),
        ("code", "def judge(model):\n    return model(image)"),
    )
    recipe = write(tmp_path / "x.ipynb", *cells).recipe
    assert (recipe.function, recipe.globals) == ("judge", ("image",))


def test_output_of_a_folded_cell_and_graphs_of_shown_cells_are_counted(tmp_path):
    cells = ("proof, output", "1"), ("proof", "assert True"), ("graph", "graph(model)"), ("code", "x = 1")
    chapter = write(tmp_path / "x.ipynb", *cells)
    assert (len(chapter.folded_with_output), chapter.folded, chapter.graphs, chapter.shown) == (1, 2, 1, 2)
    assert chapter.computed_minutes == 5
