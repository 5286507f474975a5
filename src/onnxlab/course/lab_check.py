"""`onnxlab check`: checks a lab's notebook from a terminal, in a kernel of its own."""

import contextlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError

from onnxlab.course.notebooks import Notebook, NotebookUnreadable, read
from onnxlab.errors import UnknownExercise
from onnxlab.files import read_untrusted
from onnxlab.kit import progress
from onnxlab.kit.checking import check
from onnxlab.kit.exercise import LABS, exercise, lab
from onnxlab.kit.outcome import Outcome, Status
from onnxlab.message import Message
from onnxlab.typed_json import UnexpectedType, decode

_CELL_SECONDS = 120
_FOLDER_LAST = "import os, sys; os.environ.pop('PYTHONSAFEPATH'); sys.path.append(''); del os, sys"
"""Lets a notebook import files beside it, none of which hides a library from the check."""

_LARGEST_REPORT = 16 << 20  # bytes


@dataclass(frozen=True)
class _FailedCell:
    """A cell that raised: its source, the error in one line, and the line of the cell."""

    source: str
    message: str
    where: str


def lab_of(path: Path) -> str:
    """Return the lab of a notebook by the file's name, also of a copy, as "lab05_bitshift-Copy1".

    Raises:
        UnknownExercise: If no lab has this name.

    Example:
        >>> lab_of(Path("lab04_asinh-Copy1.ipynb"))
        'lab04_asinh'
    """
    number = re.search(r"lab\d{1,2}", path.stem)
    if number is None:
        raise UnknownExercise(
            "{path.name} is not named after a lab.",
            "",
            "The labs are {labs}.",
            path=path,
            labs=", ".join(LABS),
        )
    return lab(number[0]).name


def read_lab(path: Path) -> tuple[str, Notebook]:
    """Return the name of a notebook's lab, and the notebook.

    Raises:
        NotebookUnreadable: If it is missing or is not a notebook.
        UnknownExercise: If no lab has its name.
    """
    then = "Name a lab's notebook, as labs/lab04_asinh.ipynb."
    if not os.path.lexists(path):
        raise NotebookUnreadable("There is no file {path}.", "", then, path=path)
    if path.suffix != ".ipynb":
        raise NotebookUnreadable("{path} is not a notebook (.ipynb).", "", then, path=path)
    return lab_of(path), read(path)


def check_notebook(path: Path) -> list[Outcome]:
    """Run a lab's notebook in a fresh kernel and check every exercise with the functions that it defines.

    The file is not changed. If a cell raises, the later ones run all the same.

    Args:
        path: The notebook.

    Returns:
        An outcome for each exercise of the lab, in order; they are also recorded as progress.

    Raises:
        NotebookUnreadable: If it is missing or is not a notebook.
        UnknownExercise: If no lab has its name.
    """
    name, notebook = read_lab(path)
    with tempfile.TemporaryDirectory(prefix="onnxlab-") as folder:
        file = Path(folder) / "outcomes.jsonl"
        stop, failed = _run(notebook, path, f"write_outcomes({name!r}, globals(), {str(file)!r})", folder)
        outcome_of = {outcome.exercise: outcome for outcome in _outcomes(file)}
    outcomes = [
        outcome
        if (outcome := outcome_of.get(record.id)) and outcome.points in (0, record.points)
        else Outcome(record.id, Status.ERROR, 0, record.points, message=stop)
        for record in lab(name).exercises
    ]
    outcomes = [_with_reason(outcome, failed) for outcome in outcomes]
    for outcome in outcomes:
        progress.record(outcome)
    return outcomes


def write_outcomes(name: str, namespace: dict[str, Any], file: str) -> None:
    """Check the exercises of a lab with the functions in a namespace; runs inside the notebook's kernel.

    Args:
        name: The lab.
        namespace: The functions by name. If one of an exercise is missing, it was not attempted.
        file: To which a line of JSON is appended after each exercise.
    """
    for record in lab(name).exercises:
        if all(answer in namespace for answer in record.answers):
            outcome = check(record, {answer: namespace[answer] for answer in record.answers})
        else:
            outcome = Outcome(record.id, Status.NOT_ATTEMPTED, 0, record.points)
        with Path(file).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(outcome.as_json()) + "\n")


def _with_reason(outcome: Outcome, failed: list[_FailedCell]) -> Outcome:
    """Return an outcome; if the cell that should define the answer failed, with its error and line."""
    if outcome.status is not Status.NOT_ATTEMPTED:
        return outcome
    _, record = exercise(outcome.exercise)
    defined = re.compile(rf"^(?:def|class) (?:{'|'.join(record.answers)})\b", re.MULTILINE)
    for cell in failed:
        if defined.search(cell.source):
            return replace(outcome, status=Status.ERROR, message=cell.message, where=cell.where)
    return outcome


def _failed_cell(cell: Any) -> _FailedCell | None:  # noqa: ANN401 - nbformat ships no types
    error = next((output for output in cell.outputs if output.output_type == "error"), None)
    if error is None:
        return None
    trace = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(error.traceback))
    numbers = [int(text) for text in re.findall(rf"Cell In\s?\[{cell.execution_count}\], line (\d+)", trace)]
    lines = cell.source.splitlines()
    where: list[str] = [
        Message("line {number}: {code}", number=number, code=lines[number - 1].strip())
        for number in numbers
        if number <= len(lines)
    ]
    return _FailedCell(cell.source, f"{error.ename}: {error.evalue.split(' (')[0]}", (where or [""])[-1])


def _run(notebook: dict[str, Any], path: Path, call: str, folder: str) -> tuple[str, list[_FailedCell]]:
    """Run the code cells and then `call`.

    Returns:
        The reason if exercises are left without an outcome, and the cells that raised.
    """
    cells = [
        nbformat.v4.new_code_cell(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"
    ]
    cells.insert(0, nbformat.v4.new_code_cell(_FOLDER_LAST))
    cells.append(nbformat.v4.new_code_cell(f"from {__name__} import write_outcomes\n{call}"))
    client = NotebookClient(
        nbformat.v4.new_notebook(cells=cells),
        kernel_name="python3",
        allow_errors=True,
        timeout=_CELL_SECONDS,
        interrupt_on_timeout=True,
        startup_timeout=120,
        resources={"metadata": {"path": str(path.absolute().parent)}},
        store_widget_state=False,
    )
    # The notebook's own calls of check() must not count as attempts, too.
    own_state = {"ONNXLAB_STATE": str(Path(folder) / "progress.json")}
    variables = {**os.environ, **own_state, "PYTHONSAFEPATH": "1"}
    reason = "The check did not run: the notebook changed names that it needs."
    try:
        client.execute(env=variables, stderr=subprocess.DEVNULL)  # of the kernel, not of the cells
    except DeadKernelError:
        reason = "The notebook ended its kernel (a crash in native code, or exit())."
    except CellTimeoutError:
        reason = Message("A cell ran longer than {cell_seconds} seconds.", cell_seconds=_CELL_SECONDS)
    return reason, [failed for cell in client.nb.cells[:-1] if (failed := _failed_cell(cell)) is not None]


def _outcomes(file: Path) -> Iterator[Outcome]:
    """Yield what a kernel wrote. The notebook's code ran in it, too, so the file may hold anything."""
    with contextlib.suppress(OSError):
        for line in (read_untrusted(file, _LARGEST_REPORT) or b"").splitlines():
            with contextlib.suppress(UnexpectedType):
                yield decode(line, Outcome)
