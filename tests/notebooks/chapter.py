"""What a chapter asks of its reader, counted. A cell with the tag `proof` is folded; the others are shown."""

import ast
import builtins
import re
import symtable
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
GRAPH = "application/vnd.onnxlab.graph+json"
HEADING = re.compile(r"^##+ +(?:\d+\. +)?(.+)$", re.MULTILINE)
MINUTES = re.compile(r"^\*\*Time:\*\* (\d+) minutes", re.MULTILINE)
RECIPE = re.compile(r"\brecipe\b|\byour (own )?(model|file|target)\b", re.IGNORECASE)
PREDEFINED = {*dir(builtins), "get_ipython", "display"}  # the last two by the kernel


@dataclass(frozen=True)
class Prediction:
    """A prediction, with the heading above it and the answer that was saved."""

    heading: str
    answer: str
    is_grid: bool

    @property
    def answered_above(self) -> bool:
        """Whether the heading is not a question and contains the answer. A grid's cannot be searched for."""
        return not self.heading.endswith("?") and (self.is_grid or self._in_heading)

    @property
    def _in_heading(self) -> bool:
        word = rf"(?<!\w){re.escape(self.answer)}(?!\w)"
        return bool(self.answer and re.search(word, self.heading, re.IGNORECASE))


@dataclass(frozen=True)
class Recipe:
    """The function that a reader copies, and what it reads from the chapter besides imports."""

    function: str
    globals: tuple[str, ...]


@dataclass
class Chapter:
    """The contents of one chapter, counted."""

    name: str
    cells: int = 0
    shown: int = 0
    folded: int = 0
    folded_with_output: list[str] = field(default_factory=list)
    borrowed: list[str] = field(default_factory=list)
    """`cell: name` for each name that a shown cell reads and a folded cell, or no earlier cell, binds."""
    predictions: list[Prediction] = field(default_factory=list)
    graphs: int = 0
    minutes: int = 0
    recipe: Recipe | None = None

    @property
    def computed_minutes(self) -> int:
        """Two minutes for a shown code cell and one for a prediction, rounded up to the next five."""
        return -(-(2 * self.shown + len(self.predictions)) // 5) * 5


def read_chapter(path: Path) -> Chapter:
    """Count the cells of a notebook, and find which cells bind the names that its shown cells read."""
    cells = nbformat.read(path, as_version=4).cells
    chapter = Chapter(path.name, cells=len(cells))
    answers = _answers(cells)
    binder: dict[str, str] = {}  # for each global name, the kind of cell that bound it last, or "import"
    heading = ""
    sections: dict[str, set[str]] = defaultdict(
        set
    )  # what the shown cells of a recipe bind is copied with it
    for cell in cells:
        if cell.cell_type != "code":
            heading = [heading, *HEADING.findall(cell.source)][-1]
            chapter.minutes = int([*MINUTES.findall(cell.source), chapter.minutes][0])
            continue
        bound, imported, read = _names(cell.source)
        for name, function in _assigned_calls(cell.source):
            if function in {"predict", "predict_grid"}:
                asked = Prediction(heading, answers.get(name, ""), function == "predict_grid")
                chapter.predictions.append(asked)
        if "proof" in cell.metadata.get("tags", ()):
            chapter.folded += 1
            chapter.folded_with_output += [cell.id] if cell.outputs else []
            again = {name for name in imported if binder.get(name) == "import"}
            binder |= dict.fromkeys(bound - again, "folded")
            continue
        chapter.shown += 1
        chapter.graphs += sum(GRAPH in output.get("data", {}) for output in cell.outputs)
        binder |= dict.fromkeys(bound, "shown") | dict.fromkeys(imported, "import")
        unbound = [name for name in sorted(read) if binder.get(name, "folded") == "folded"]
        chapter.borrowed += [f"{cell.id}: {name}" for name in unbound]
        if RECIPE.search(heading):
            copied = {name for name, kind in binder.items() if kind == "import"} | sections[heading]
            chapter.recipe = _recipe(cell.source, copied) or chapter.recipe
            sections[heading] |= bound
    return chapter


def _names(source: str) -> tuple[set[str], set[str], set[str]]:
    """The global names that a cell binds, those of them that it imports, and those that it reads."""
    bound, imported, read = set(), set(), set()
    for scope in _scopes(symtable.symtable(source, "<cell>", "exec")):
        top = scope.get_type() == "module"
        for symbol in scope.get_symbols():
            if top or symbol.is_global():
                name = symbol.get_name()
                bound |= {name} if symbol.is_assigned() or symbol.is_imported() else set()
                imported |= {name} if symbol.is_imported() else set()
                read |= {name} if symbol.is_referenced() else set()
    return bound, imported, read - PREDEFINED


def _scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _scopes(child)


def _assigned_calls(source: str) -> list[tuple[str, str]]:
    """The pairs (variable, function) of a cell's lines such as `guess = predict(...)`."""
    assignments = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assign)]
    return [
        (ast.unparse(node.targets[0]), ast.unparse(node.value.func))
        for node in assignments
        if isinstance(node.value, ast.Call)
    ]


def _answers(cells: list[Any]) -> dict[str, str]:
    """The answer to each prediction with one answer, by its variable, as the revealing cell saved it."""
    answers: dict[str, str] = {}
    for cell in cells:
        texts = [output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", ())]
        saved = [text.removeprefix("Answer: ") for text in texts if text.startswith("Answer: ")]
        answers |= zip(re.findall(r"(\w+)\.reveal\(", cell.source), saved, strict=False)
    return answers


def _recipe(source: str, copied: set[str]) -> Recipe | None:
    """The first function of a cell, with the names that its functions read from other cells."""
    tables = symtable.symtable(source, "<cell>", "exec").get_children()
    functions = [table.get_name() for table in tables if table.get_type() == "function"]
    if not functions:
        return None
    scopes = [scope for table in tables for scope in _scopes(table)]
    read = {symbol.get_name() for scope in scopes for symbol in scope.get_symbols() if symbol.is_global()}
    return Recipe(
        functions[0], tuple(sorted(read - PREDEFINED - copied - {table.get_name() for table in tables}))
    )
