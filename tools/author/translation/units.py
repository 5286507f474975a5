"""The units of translation in a cell: texts, each with its position in the cell's source."""

import ast
import inspect
import io
import itertools
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from markdown_it import MarkdownIt

from onnxlab.language import LANGUAGES

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
"""The Markdown that JupyterLab and GitHub agree on."""

_SUMMARY = re.compile(r"<summary>(.*?)</summary>")
_NO_WORD = re.compile(r"[\W\d_]*")
# Comments for tools, not for people.
_ORDERS = re.compile(r"#\s*(?:noqa|type:|fmt:|ruff:|YOUR CODE HERE|##)")


class Kind(StrEnum):
    """The kind of a text, which decides how its translation is written into the source."""

    TEXT = "text"
    DRAWING = "drawing"
    COMMENT = "comment"
    DOCSTRING = "docstring"
    QUESTION = "question"
    CAPTION = "caption"


@dataclass(frozen=True)
class Unit:
    """One text in a cell.

    Attributes:
        start: Its first position in the cell's source.
        end: The position after its last.
        text: The text; line breaks without a meaning are spaces.
        kind: Its kind.
        indent: The white space before each of its lines, if it has several.
    """

    start: int
    end: int
    text: str
    kind: Kind
    indent: str = ""


def units(cell: dict[str, Any]) -> list[Unit]:
    r"""Return the units of a notebook's cell, in the order of its source.

    >>> [unit.text for unit in units({"cell_type": "markdown", "source": "# A title\n\nTwo\nlines. `x`"})]
    ['A title', 'Two lines. `x`']
    >>> [unit.text for unit in units({"cell_type": "code", "source": "x = 1  # the first\ny = 2"})]
    ['the first']
    """
    source = cell["source"]
    if cell["cell_type"] == "markdown":
        return list(_in_markdown(source))
    if cell["cell_type"] == "code":
        try:
            return sorted(_in_code(source), key=lambda unit: unit.start)
        except SyntaxError:  # a magic in it
            return []
    return []


def has_words(text: str) -> bool:
    """Tell whether there is anything to translate in a text."""
    return not _NO_WORD.fullmatch(text)


def _in_markdown(source: str) -> Iterator[Unit]:
    """Yield each run of inline text, without the markup around it."""
    starts, reached = _line_starts(source), 0
    for token in MARKDOWN.parse(source):
        if not token.map:
            continue
        first, end = starts[token.map[0]], starts[min(token.map[1], len(starts) - 1)]
        if token.type == "html_block":
            for match in _SUMMARY.finditer(source, first, end):
                yield Unit(match.start(1), match.end(1), match[1], Kind.TEXT)
        elif token.type == "fence" and token.info == "text":
            begin = source.index("\n", first) + 1
            yield Unit(begin, begin + len(token.content), token.content.rstrip("\n"), Kind.DRAWING)
        elif token.type == "inline" and token.content:
            lines = token.content.split("\n")
            begin = source.index(lines[0], max(first, reached))
            reached = begin
            for line in lines:
                reached = source.index(line, reached) + len(line)
            visible = "".join(child.content for child in token.children or () if child.type == "text")
            if has_words(visible) and visible not in LANGUAGES.values():  # the link to the other edition
                yield Unit(begin, reached, " ".join(lines), Kind.TEXT)


def _in_code(source: str) -> Iterator[Unit]:
    """Comments, docstrings, and the texts that a cell gives to `predict`, `predict_grid` and `table`."""
    position = _position_in(source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", "")
            named = {word.arg: word.value for word in node.keywords}
            if name == "predict" and node.args:
                yield from _constant(node.args[0], Kind.QUESTION, position)
            elif name == "predict_grid" and "question" in named:
                yield from _constant(named["question"], Kind.QUESTION, position)
            elif name == "table" and "caption" in named:
                yield from _constant(named["caption"], Kind.CAPTION, position)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            first = node.body[0]
            assert isinstance(first, ast.Expr)
            for unit in _constant(first.value, Kind.DOCSTRING, position):
                indent = " " * first.col_offset
                yield Unit(unit.start, unit.end, inspect.cleandoc(unit.text), unit.kind, indent)
    yield from _comments(source)


def _constant(node: ast.expr, kind: Kind, position: Callable[[ast.expr], tuple[int, int]]) -> Iterator[Unit]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and has_words(node.value):
        yield Unit(*position(node), node.value, kind)


def _comments(source: str) -> Iterator[Unit]:
    """Comments; a sentence that goes on in the next line's comment is one."""
    starts, rows = _line_starts(source), source.splitlines()
    run: list[tuple[int, int, str]] = []  # the line, the column and the text of comments that belong together

    def joined() -> Iterator[Unit]:
        if run and has_words(text := " ".join(words for _, _, words in run)) and not text.startswith("!"):
            (line, column, _), (last, _, _) = run[0], run[-1]
            end = starts[last] + len(rows[last])
            yield Unit(starts[line] + column, end, text, Kind.COMMENT, rows[line][:column])
        run.clear()

    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or _ORDERS.match(token.string):
            continue
        line, column = token.start[0] - 1, token.start[1]
        alone = not rows[line][:column].strip()
        follows = run and alone and run[-1][:2] == (line - 1, column) and not rows[line - 1][:column].strip()
        if not follows:
            yield from joined()
        run.append((line, column, token.string.lstrip("#").strip()))
    yield from joined()


def _line_starts(source: str) -> list[int]:
    return list(itertools.accumulate(map(len, source.splitlines(keepends=True)), initial=0))


def _position_in(source: str) -> Callable[[ast.expr], tuple[int, int]]:
    """Return a function from a node of the syntax tree to its start and end in the text."""
    rows, starts = source.splitlines(keepends=True), _line_starts(source)

    def at(line: int, column: int) -> int:
        return starts[line - 1] + len(rows[line - 1].encode()[:column].decode())

    return lambda node: (at(node.lineno, node.col_offset), at(node.end_lineno or 0, node.end_col_offset or 0))
