"""The outputs of the English run with the texts that a run of the translated notebook shows.

Only what the course's own displays show is touched; what a cell prints, and every picture, is copied.
"""

import html
import re
from typing import Any

from onnxlab.notebook.language import said
from onnxlab.notebook.tables import Table
from onnxlab.plain_text import aligned

__all__ = ["retell"]

_OURS = re.compile(r'class="onnxlab-(?!message)')
_TEXT = re.compile(
    r"(<(p|li|th|td|em|caption|figcaption|pre)\b[^>]*>)((?:(?!</?(?!/?code>)\w).)*)(</\2>)", re.DOTALL
)
_ATTRIBUTE = re.compile(r'(<(?:img|div class="onnxlab-still")[^>]* ?(?:alt|title)=")([^"]*)(")')
_TABLE = re.compile(r'<table class="onnxlab-table">(.*?)</table>', re.DOTALL)
_GRID = re.compile(r"<table><thead>(.*?)</table>", re.DOTALL)
_CELL = re.compile(r"<(?:th|td)\b[^>]*>(.*?)</(?:th|td)>", re.DOTALL)
_LEGEND = re.compile(r"(?:(?:removed|added|changed) \(\w+\)(?:, )?)+:")
_HINT = re.compile(r"(Predict: )?Each cell: (.*)\?")
_GRAPH = re.compile(r"Graph\((.*)\)")
_MORE = re.compile(r" and \d+ more operators$")
_NUMBERED = re.compile(r"(.+)( \(\d+\))")  # two models of one name, side by side
_EXPECTED = re.compile(r"^(  caused by \w+|\w+ \(\d+ times\)|\(\d+ more warnings? not shown\))", re.MULTILINE)


def retell(output: dict[str, Any], source: str) -> None:
    """Put what a translated cell shows in the place of what the English one showed.

    Args:
        output: One output of the cell; it is changed.
        source: The cell's code.
    """
    if output["output_type"] == "stream":
        if "expect_error(" in source or "expect_warning(" in source:
            output["text"] = _EXPECTED.sub(lambda found: said(found[0]), output["text"])
        return
    data = output.get("data", {})
    markup = data.get("text/html", "")
    if not _OURS.search(markup):
        return
    translated = _TEXT.sub(_retold, _ATTRIBUTE.sub(_named, markup))
    text = data["text/plain"]
    if "onnxlab-slider" not in markup and (found := _TABLE.search(markup)):
        text = _table(found[1])
    elif found := _GRID.search(translated):
        text = _grid(text, found[1])
    else:
        text = "\n".join(_line(line) for line in text.split("\n"))
    data |= {"text/html": translated, "text/plain": text}


def _retold(found: re.Match[str]) -> str:
    """An element that holds a text."""
    start, tag, inner, end = found.groups()
    if tag == "pre" and "align-self" in start:
        return start + html.escape(_words(html.unescape(inner))) + end
    text = html.unescape(re.sub(r"</?code>", "`", inner))
    if tag == "figcaption" and (numbered := _NUMBERED.fullmatch(text)):
        return f"{start}{html.escape(said(numbered[1]))}{numbered[2]}{end}"
    shown = "\n".join(map(_line, text.split("\n"))) if tag in ("p", "pre") else said(text)
    shown = html.escape(shown, quote=tag != "em")
    if "<code>" in inner:
        shown = re.sub(r"`([^`]+)`", r"<code>\1</code>", shown)
    return start + shown + end


def _named(found: re.Match[str]) -> str:
    """A graph's summary or the description of its picture."""
    text = _MORE.sub(lambda more: said(more[0]), html.unescape(found[2]))
    return found[1] + html.escape(_line(text)) + found[3]


def _line(line: str) -> str:
    """A line of an output in plain text."""
    if found := _GRAPH.fullmatch(line):
        return f"Graph({' | '.join(map(_graph, found[1].split(' | ')))})"
    if _LEGEND.fullmatch(line):
        return f"{', '.join(map(said, line[:-1].split(', ')))}:"
    if found := _HINT.fullmatch(line):
        choices = said(" or ").join(map(said, found[2].split(" or ")))
        hint = said(f"Each cell: {choices}?")
        return said(f"Predict: {hint}") if found[1] else hint
    if line.startswith("Answer: "):  # the right option has been looked up by itself
        return said(f"Answer: {said(line.removeprefix('Answer: '))}")
    if line.startswith("  - "):
        return f"  - {said(line[4:])}"
    return said(line)


def _graph(summary: str) -> str:
    name, _, count = summary.rpartition(", ")
    return f"{said(name)}, {said(count)}"


def _words(text: str) -> str:
    """A small graph in words: its inputs, nodes and outputs."""
    rows = [re.split(r"(?<=\S)  +", line, maxsplit=1) for line in text.split("\n")]
    return "\n".join(
        aligned([[said(row[0]) if row[0] in ("input", "output") else row[0], *row[1:]] for row in rows])
    )


def _table(inner: str) -> str:
    caption = re.search(r"<caption>(.*?)</caption>", inner, re.DOTALL)
    columns, *rows = ([_plain(cell) for cell in _CELL.findall(row)] for row in inner.split("<tr>")[1:])
    return repr(Table(tuple(columns), tuple(map(tuple, rows)), _plain(caption[1]) if caption else ""))


def _grid(text: str, inner: str) -> str:
    rows = [[_plain(cell) for cell in _CELL.findall(row)] for row in inner.split("<tr>")[1:]]
    first = text.split("\n")[0]
    head = [_line(first)] if first.startswith("Predict: ") else []
    return "\n".join([*head, *aligned(rows)])


def _plain(markup: str) -> str:
    return html.unescape(re.sub(r"</?code>", "`", markup))
