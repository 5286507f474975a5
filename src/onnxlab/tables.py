"""A small table: HTML that reads well in light and dark, and aligned plain text where there is no HTML."""

import html
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from onnxlab.language import tr
from onnxlab.plain_text import aligned

GOOD = ("ok", "right", "true", "passed", "\u2713")
BAD = ("error", "wrong", "false", "failed", "\u2717")

# Colours are half transparent and the text keeps the page's own colour: one rule for light and dark.
# The doubled class outweighs JupyterLab's own rules for tables.
_STYLE = """<style>
table.onnxlab-table.onnxlab-table { border-collapse: collapse; margin: 4px 0; font-size: 13px; }
.onnxlab-table caption { text-align: left; font-weight: 600; padding: 2px 0 6px; }
table.onnxlab-table.onnxlab-table :is(th, td) { text-align: left; vertical-align: top; padding: 4px 12px;
  border: 1px solid rgba(128, 128, 128, .35); white-space: pre-line; max-width: 42em; }
table.onnxlab-table.onnxlab-table tbody tr { background: none; }
table.onnxlab-table.onnxlab-table thead th { background: rgba(128, 128, 128, .14); }
table.onnxlab-table.onnxlab-table td.good { background: rgba(46, 160, 67, .22); }
table.onnxlab-table.onnxlab-table td.bad { background: rgba(218, 54, 51, .22); }
</style>"""


@dataclass(frozen=True)
class Table:
    """Rows and columns as text, ready to be shown; a cell is coloured for the word it starts with."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    good: tuple[str, ...] = GOOD
    bad: tuple[str, ...] = BAD

    def tone(self, cell: str) -> Literal["good", "bad", ""]:
        """How a cell is coloured.

        >>> table([{"a": "ok"}]).tone("error: rank 3"), table([{"a": "ok"}]).tone("okay")
        ('bad', '')
        """
        for name, words in (("good", self.good), ("bad", self.bad)):
            if any(re.match(re.escape(word) + r"(?!\w)", cell, re.IGNORECASE) for word in words):
                return "good" if name == "good" else "bad"
        return ""

    def __repr__(self) -> str:
        columns, *rows = [[tr(cell, self.columns) for cell in row] for row in (self.columns, *self.rows)]
        lines = [line for row in (columns, *rows) for line in _lines(row)]
        text = aligned(lines, heading=len(_lines(columns)))
        return "\n".join([tr(self.caption)] * bool(self.caption) + text)

    def _repr_html_(self) -> str:
        caption = f"<caption>{markup(tr(self.caption))}</caption>" if self.caption else ""
        head = "".join(f'<th scope="col">{markup(tr(c, self.columns))}</th>' for c in self.columns)
        body = "".join(f"<tr>{''.join(map(self._cell, row))}</tr>\n" for row in self.rows)
        return (
            f'{_STYLE}<table class="onnxlab-table">{caption}<thead><tr>{head}</tr></thead>'
            f"<tbody>\n{body}</tbody></table>"
        )

    def _cell(self, text: str) -> str:
        tone = self.tone(text)
        # Lines stay apart in a notebook that is not trusted, too: it has no style.
        shown = markup(tr(text, self.columns)).replace("\n", "<br>")
        return f'<td class="{tone}">{shown}</td>' if tone else f"<td>{shown}</td>"


def table(
    rows: Sequence[Mapping[str, object]],
    columns: Sequence[str] | None = None,
    *,
    caption: str = "",
    good: Collection[str] = GOOD,
    bad: Collection[str] = BAD,
) -> Table:
    """Make a table of a list of dictionaries.

    Args:
        rows: One dictionary a row; a missing key is an empty cell. `text in backticks` is shown as code.
        columns: Which keys, in which order; by default all of them in order of appearance.
        caption: One line above the table.
        good: Cells that start with one of these words are coloured green (any case).
        bad: Cells that start with one of these words are coloured red (any case).

    Returns:
        The table, which a notebook shows when it is the last expression of a cell.

    Raises:
        ValueError: `good` or `bad` has an empty entry, which would colour cells that say nothing: code hosts
            show no colours.

    >>> table([{"model": "static", "batch of 2": "error"}, {"model": "dynamic", "batch of 2": "ok"}])
    model    batch of 2
    -------  ----------
    static   error
    dynamic  ok
    """
    if not all(word.strip() for word in (*good, *bad)):
        raise ValueError("A cell is coloured for the word it starts with: give words in `good` and `bad`.")
    names = list(columns) if columns is not None else list(dict.fromkeys(key for row in rows for key in row))
    cells = tuple(tuple(_text(row.get(name, "")) for name in names) for row in rows)
    return Table(tuple(map(str, names)), cells, caption, tuple(good), tuple(bad))


def _text(value: object) -> str:
    """A cell's text; a float is rounded, because its last digits differ between machines."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def markup(text: str) -> str:
    """Return a text as HTML, with what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _lines(row: Sequence[str]) -> list[tuple[str, ...]]:
    """A row with line breaks in its cells, as several lines of plain text."""
    parts = [cell.split("\n") for cell in row]
    height = max((len(p) for p in parts), default=0)
    return [tuple(p[i] if i < len(p) else "" for p in parts) for i in range(height)]
