"""Reading one submission: the bytes of an ordinary file, and the cells of a notebook in any state."""

import codecs
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxlab.errors import OnnxLabError
from onnxlab.files import FileTooLarge, NotRegularFile, read_untrusted

__all__ = [
    "LARGEST",
    "TOO_LARGE",
    "CannotRead",
    "NotebookUnreadable",
    "SubmittedCell",
    "cells_of",
    "digest",
    "read",
    "whole_cells",
]

LARGEST = 8 * 2**20
"""Bytes that a notebook may have."""
TOO_LARGE = f"It has more than {LARGEST // 2**20} MB; outputs can be cleared."


class NotebookUnreadable(OnnxLabError):
    """A submission is no notebook that could be run. Its text is one line, for the student."""


class CannotRead(NotebookUnreadable):
    """The system does not give a submission's bytes (rights, a disk): not the student's fault."""


def read(path: Path) -> bytes:
    """Read a submission; no link is followed, no pipe waited for.

    Raises:
        NotebookUnreadable: If it is not an ordinary file of a reasonable size.
        CannotRead: If the system refuses.
    """
    try:
        return read_untrusted(path, LARGEST)
    except NotRegularFile:
        msg = "It is not an ordinary file."
        raise NotebookUnreadable(msg) from None
    except FileTooLarge:
        raise NotebookUnreadable(TOO_LARGE) from None
    except OSError as error:
        msg = f"The file cannot be read: {error.strerror or error}."
        raise CannotRead(msg) from None


def digest(path: Path) -> str:
    """Return what a submission's content is, as in `submissions.Submission`."""
    try:
        data = read(path)
    except NotebookUnreadable as error:
        data = f"unreadable {error}".encode()
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class SubmittedCell:
    """One cell as it was handed in.

    Attributes:
        kind: "code", "markdown" or "raw"; what is none of these counts as markdown.
        source: Its text.
        grade_id: The name that nbgrader's metadata gives it; "" if there is none.
    """

    kind: str
    source: str
    grade_id: str = ""


def whole_cells(data: bytes) -> list[SubmittedCell]:
    r"""Return every cell, as `cells_of` reads them: also what is prose, and which cell nbgrader takes it for.

    Raises:
        NotebookUnreadable: If there is no notebook in these bytes, or it has no cells.

    Example:
        >>> whole_cells(b'{"cells": [{"cell_type": "markdown", "source": "# Title"}]}')
        [SubmittedCell(kind='markdown', source='# Title', grade_id='')]
    """
    found = []
    for cell in _some_cells(data):
        kind = cell.get("cell_type")
        metadata = cell.get("metadata")
        grading = metadata.get("nbgrader") if isinstance(metadata, dict) else None
        name = grading.get("grade_id") if isinstance(grading, dict) else None
        found.append(
            SubmittedCell(
                kind if kind in ("code", "raw") else "markdown",
                _source(cell),
                name if isinstance(name, str) else "",
            )
        )
    return found


def cells_of(data: bytes) -> list[str]:
    r"""Return the sources of the code cells in order; nothing else of a notebook is looked at.

    Notebooks of formats 3 (with worksheets) and 4, of any kernel, with or without metadata. A cell whose
    source is no text counts as empty. Magics and shell lines stay as they are.

    Raises:
        NotebookUnreadable: If there is no notebook in these bytes, or it has no cells.

    Example:
        >>> cells_of(b'{"cells": [{"cell_type": "code", "source": ["x = 1\\n", "x"]}]}')
        ['x = 1\nx']
    """
    return [_source(cell) for cell in _some_cells(data) if cell.get("cell_type") == "code"]


def _some_cells(data: bytes) -> list[dict[str, Any]]:
    cells = list(_cells(_notebook(data)))
    if not cells:
        msg = "The notebook has no cells."
        raise NotebookUnreadable(msg)
    return cells


def _notebook(data: bytes) -> dict[str, Any]:
    if not data.strip(b"\x00 \t\r\n" + codecs.BOM_UTF8):
        msg = "The file is empty."
        raise NotebookUnreadable(msg)
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as error:
        msg = f"The file is not text: byte {error.start} is not {error.encoding.upper()}."
        raise NotebookUnreadable(msg) from None
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        if any(line.startswith("<<<<<<< ") for line in text.splitlines()):
            msg = "The file holds an unresolved merge conflict of Git."
        else:
            msg = f"The file is not JSON: {error.msg}, line {error.lineno}."
        raise NotebookUnreadable(msg) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, a thousand brackets
        msg = "The file is JSON that no notebook would hold."
        raise NotebookUnreadable(msg) from None
    if not isinstance(found, dict) or not ({"cells", "worksheets"} & found.keys()):
        msg = "The file is JSON, but not a notebook: it has no list of cells."
        raise NotebookUnreadable(msg)
    return found


def _cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    sheets = notebook.get("worksheets")
    lists = [notebook.get("cells")]
    if isinstance(sheets, list):
        lists += [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
    for cells in lists:
        if isinstance(cells, list):
            yield from (cell for cell in cells if isinstance(cell, dict))


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list):
        return "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""
