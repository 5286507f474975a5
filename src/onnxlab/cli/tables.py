"""Tables that the commands print."""

from collections.abc import Sequence

__all__ = ["print_table"]


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of cells, the columns aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
