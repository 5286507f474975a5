"""Runs a notebook from top to bottom in a fresh kernel and saves it clean."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from onnxlab.course.cleaning import clean
from onnxlab.course.notebooks import Notebook, is_empty, read, write
from onnxlab.errors import OnnxLabError

Progress = Callable[[int, int, str], None]
"""Called before each code cell: its number, how many there are, its first line."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class NotebookFailed(OnnxLabError):
    """A cell raised, ran too long, or killed the kernel.

    Attributes:
        cell: Number of the code cell, counted from 1 as in ``In [1]``.
        traceback: The kernel's traceback without colours; empty where there is none.
    """

    def __init__(self, what: str, why: str, then: str, *, cell: int, traceback: str = "") -> None:
        super().__init__(what, why, then)
        self.cell, self.traceback = cell, traceback


def run(path: Path, progress: Progress | None = None, *, timeout: int = 600) -> bool:
    """Run the notebook at a path and write it back clean; return whether the file changed.

    A failed run leaves it as it was.

    Raises:
        NotebookUnreadable: The file is missing or is not a notebook.
        NotebookFailed: A cell raised, ran too long, or killed the kernel.
    """
    notebook = read(path)
    return write(execute(notebook, path, progress, timeout=timeout), path)


def execute(
    notebook: Notebook, path: Path, progress: Progress | None = None, *, timeout: int = 600
) -> Notebook:
    """Return the clean result of running a notebook as if it lay at `path`. Nothing is written."""
    notebook = nbformat.from_dict(notebook)
    to_run = [position for position, cell in enumerate(notebook["cells"]) if _runs(cell)]
    number = 0

    def starts(cell: dict[str, Any], cell_index: int) -> None:
        nonlocal number
        number = to_run.index(cell_index) + 1
        if progress:
            progress(number, len(to_run), cell["source"].strip().splitlines()[0])

    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=timeout,
        startup_timeout=120,
        resources={"metadata": {"path": str(path.absolute().parent)}},
        on_cell_execute=starts,
        record_timing=False,
        store_widget_state=False,
    )
    try:
        client.execute()
    except CellExecutionError as error:
        what = f"{path.name}: cell {number} of {len(to_run)} raised {error.ename}: "
        what += _first_line(error.evalue)
        raise _failed(what, notebook, to_run, number, traceback=_COLOUR.sub("", error.traceback)) from None
    except CellTimeoutError:
        what = f"{path.name}: cell {number} of {len(to_run)} ran longer than {timeout} seconds."
        raise _failed(what, notebook, to_run, number) from None
    except DeadKernelError:
        what = f"{path.name}: cell {number} of {len(to_run)} ended the kernel (a crash in native code?)."
        raise _failed(what, notebook, to_run, number) from None
    return clean(notebook)


def _runs(cell: dict[str, Any]) -> bool:
    return cell["cell_type"] == "code" and not is_empty(cell)


def _failed(
    what: str, notebook: Notebook, to_run: list[int], number: int, traceback: str = ""
) -> NotebookFailed:
    source = notebook["cells"][to_run[number - 1]]["source"] if number else ""
    why = f"The cell begins: {_first_line(source)}" if source else "No cell had started."
    then = "The file was left as it was. Correct the cell and run the command again."
    return NotebookFailed(what, why, then, cell=number, traceback=traceback)


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0][:100] if lines else ""
