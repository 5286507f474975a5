"""Notebook files: listing, classifying, reading and writing them."""

import re
import warnings
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

from onnxlab.errors import OnnxLabError
from onnxlab.files import write_atomically
from onnxlab.language import LANGUAGES
from onnxlab.message import Message

Notebook = dict[str, Any]
"""A notebook as nbformat reads it: JSON with attribute access."""


class NotebookUnreadable(OnnxLabError):
    """A notebook file is missing or is not a notebook."""


class Kind(StrEnum):
    """The kind of a notebook, which its folder decides."""

    CHAPTER = "chapter"
    SOLUTION = "solution"
    LAB = "lab"

    @property
    def has_outputs(self) -> bool:
        """Whether the committed file carries outputs: chapters and solutions do, labs do not."""
        return self is not Kind.LAB

    @classmethod
    def of(cls, path: Path) -> "Kind":
        """Return the kind of the notebook at a path.

        >>> Kind.of(Path("labs/lab01_first_export.ipynb"))
        <Kind.LAB: 'lab'>
        >>> Kind.of(Path("notebooks/zh/00_start_here.ipynb")).has_outputs
        True
        """
        *_, above, folder = path.absolute().parent.parts
        folder = above if folder in LANGUAGES else folder
        return {"labs": cls.LAB, "solutions": cls.SOLUTION}.get(folder, cls.CHAPTER)


def course_notebooks(root: Path) -> list[Path]:
    """Return every notebook of the course below a repository's root, in reading order."""
    folders = ("notebooks", "solutions", "labs")
    return [path for folder in folders for path in sorted((root / folder).glob("*.ipynb"))]


def code_cells(notebook: Notebook) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the code cells, each with its position in the notebook (counted from 1)."""
    for position, cell in enumerate(notebook["cells"], start=1):
        if cell["cell_type"] == "code":
            yield position, cell


def is_empty(cell: dict[str, Any]) -> bool:
    r"""Tell whether a cell has nothing but white space in it.

    >>> is_empty({"source": " \n"}), is_empty({"source": "x = 1"})
    (True, False)
    """
    return re.search(r"\S", cell["source"]) is None


def read(path: Path) -> Notebook:
    """Read a notebook file.

    Raises:
        NotebookUnreadable: The file is missing or is not a notebook.
    """
    import nbformat  # here, since it takes longer than all of `onnxlab why`

    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise OSError("It is a pipe or a device")  # reading it could wait for ever
        data = path.read_bytes()
    except OSError as error:
        raise NotebookUnreadable(
            "{path} cannot be read.", f"{error.strerror or error}.", "Check the path.", path=path
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about missing cell ids: cleaning gives every cell one
            notebook: Notebook = nbformat.reads(data.decode("utf-8-sig"), as_version=4)
    except Exception as error:  # nbformat raises many kinds, and its own text is the reason
        msg = Message("{path} is not a Jupyter notebook.", path=path)
        reason = str(error).strip().splitlines()[0][:100] if str(error).strip() else type(error).__name__
        raise NotebookUnreadable(msg, reason, "Open it in JupyterLab, or take it from git again.") from None
    return notebook


def write(notebook: Notebook, path: Path) -> bool:
    """Write a notebook file atomically.

    Returns:
        Whether the file changed.
    """
    import nbformat

    text = nbformat.writes(notebook, version=4).rstrip("\n") + "\n"
    data = text.encode("utf-8")
    if path.exists() and path.read_bytes() == data:
        return False
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    write_atomically(path, data, mode=mode)
    return True
