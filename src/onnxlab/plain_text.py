"""Text that is safe to show: no control characters or formulas, not too long; tables and counts as text."""

import unicodedata
from collections.abc import Sequence

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_FORMULA = tuple("=+-@\t\r\n'\uff1d\uff0b\uff0d\uff20")
_JOINERS = "\u200c\u200d"  # parts of names in Persian and in Indian scripts


def plain(text: object, most: int = 2000, *, lines: bool = False) -> str:
    r"""Return a text with all characters replaced that a terminal or a page could take for commands.

    Args:
        text: Any value; it is converted to a string.
        most: The most characters; a longer text is cut.
        lines: Whether line ends stay.

    Example:
        >>> plain("a\x1b[2Jb\u202e", 3), plain("one\ntwo"), plain("one\ntwo", lines=True)
        ('a\ufffd[…', 'one two', 'one\ntwo')
    """
    source = text if isinstance(text, str) else str(text)
    cut = source if len(source) <= most else source[:most] + "…"
    allowed = _JOINERS + "\n" if lines else _JOINERS
    shown = "".join(
        character
        if character in allowed or unicodedata.category(character) not in _HIDDEN
        else " "
        if character in "\n\r\t"
        else "\ufffd"
        for character in cut
    )
    return source if shown == source else shown  # a message stays one


def aligned(rows: Sequence[Sequence[str]], heading: int = 0) -> list[str]:
    """Return the lines of a table with aligned columns; a Chinese character is as wide as two letters.

    Args:
        rows: The cells.
        heading: The number of rows above a line; 0 for no line.

    Example:
        >>> aligned([["模型", "a"], ["model", "b"]])
        ['模型   a', 'model  b']
    """
    widths = [max(map(columns_of, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell + " " * (width - columns_of(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
    if heading:
        lines.insert(heading, "  ".join("-" * width for width in widths))
    return lines


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return len(text) + sum(unicodedata.east_asian_width(character) in "WF" for character in text)


def escape_formula(cell: str) -> str:
    """Return a text with an apostrophe before it if a spreadsheet would take it for a formula.

    Example:
        >>> escape_formula("=1+1"), escape_formula("Ada")
        ("'=1+1", 'Ada')
    """
    return f"'{cell}" if cell.lstrip(" \u00a0").startswith(_FORMULA) else cell


def pluralise(number: int, what: str) -> str:
    """Return a number with its noun, in the plural unless it is 1.

    Example:
        >>> pluralise(1, "submission"), pluralise(1200, "submission")
        ('1 submission', '1,200 submissions')
    """
    return f"{number:,} {what}{'s' * (number != 1)}"
