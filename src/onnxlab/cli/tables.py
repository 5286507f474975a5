"""Tables that the commands print."""

from collections.abc import Sequence

from onnxlab.plain_text import aligned

__all__ = ["print_table"]


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of cells, the columns aligned."""
    print("\n".join(aligned(rows)))
