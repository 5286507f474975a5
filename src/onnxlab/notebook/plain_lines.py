"""A message as lines that are the same on every machine, so that they can be committed and compared."""

import os
import re
import site
import sys
import tempfile
from pathlib import Path

__all__ = ["plain_lines"]

_WIDTH = 160


def plain_lines(message: object, count: int) -> list[str]:
    r"""The first lines of a message, without what differs between machines or does not fit.

    Colour codes, object addresses and the folders of absolute paths are removed, long lines shortened. Where
    the last line announces "Next steps:" that are not shown, the announcement is removed too.

    >>> message = f"\x1b[31mbad\x1b[0m <Graph object at 0x7f01ab> in {tempfile.gettempdir()}/a1b2/m.onnx"
    >>> plain_lines(message, 1)
    ['bad <Graph object> in .../m.onnx']
    """
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", str(message))
    text = re.sub(r"(?<=\w) at 0x[0-9a-fA-F]+", "", text)
    text = re.sub(r"\b0x[0-9a-fA-F]{6,}\b", "0x...", text)
    text = re.sub(r"\S*[\\/]ipykernel_\d+[\\/]\d+\.py", "<cell>", text)
    text = re.sub(r"(?:[A-Za-z]:)?[\\/][\w.\\/-]*[\\/](?=[\w-]+\.(?:cc|cpp|h)\b)", ".../", text)
    for root in _machine_folders():
        text = re.sub(re.escape(root) + r"[\\/](?:[^\s\\/'\":,;<>]+[\\/])*", ".../", text)
    rows = [row.rstrip() for row in text.splitlines() if row.strip()]
    rows = [row if len(row) <= _WIDTH else row[: _WIDTH - 3].rstrip() + "..." for row in rows[:count]]
    if rows:
        rows[-1] = re.sub(r"\s*Next steps:$", "", rows[-1])
    return rows[:-1] if rows and not rows[-1] else rows


def _machine_folders() -> list[str]:
    """Folders whose names say where this machine keeps things, the longest first."""
    folders = {
        tempfile.gettempdir(),
        str(Path.home()),
        str(Path.cwd()),
        sys.prefix,
        sys.base_prefix,
        *site.getsitepackages(),
    }
    folders |= {os.path.realpath(f) for f in folders}
    return sorted((f for f in folders if len(f) > 1), key=len, reverse=True)
