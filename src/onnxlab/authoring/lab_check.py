"""`onnxlab check`: the checks of a lab's notebook from a terminal, in a kernel of their own."""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError

from onnxlab.authoring.notebooks import Notebook, NotebookUnreadable, read
from onnxlab.errors import UnknownExercise
from onnxlab.labs.kit import progress
from onnxlab.labs.kit.checking import check
from onnxlab.labs.kit.exercise import LABS, lab
from onnxlab.labs.kit.outcome import Difference, Finding, Outcome, Status

__all__ = ["check_notebook", "lab_of", "read_lab", "write_outcomes"]

_CELL_SECONDS = 120


def lab_of(path: Path) -> str:
    """Return the lab that a notebook is, by the file's name: also of a copy, as "lab05_bitshift-Copy1".

    Raises:
        UnknownExercise: If the name says none.

    Example:
        >>> lab_of(Path("lab04_asinh-Copy1.ipynb"))
        'lab04_asinh'
    """
    number = re.search(r"lab\d\d", path.stem)
    if number is None:
        msg = f"{path.name} is not named after a lab."
        raise UnknownExercise(msg, "", f"The labs are {', '.join(LABS)}.")
    return lab(number[0]).name


def read_lab(path: Path) -> tuple[str, Notebook]:
    """Return which lab a notebook is, and the notebook.

    Raises:
        NotebookUnreadable: If it is missing or is not a notebook.
        UnknownExercise: If its name says no lab.
    """
    then = "Name a lab's notebook, as labs/lab04_asinh.ipynb."
    if os.path.isdir(path):  # noqa: PTH112 - never raises
        msg = f"{path} is a folder."
        raise NotebookUnreadable(msg, "", then)
    if not os.path.lexists(path):
        msg = f"There is no file {path}."
        raise NotebookUnreadable(msg, "", then)
    if path.suffix != ".ipynb":
        msg = f"{path} is not a notebook (.ipynb)."
        raise NotebookUnreadable(msg, "", then)
    return lab_of(path), read(path)


def check_notebook(path: Path) -> list[Outcome]:
    """Run a lab's notebook in a fresh kernel and check every exercise with the functions it defines.

    The file is not changed. Cells that raise do not keep the later ones from running.

    Args:
        path: The notebook.

    Returns:
        An outcome for each exercise of the lab, in order; they are also noted as progress.

    Raises:
        NotebookUnreadable: If it is missing or is not a notebook.
        UnknownExercise: If its name says no lab.
    """
    name, notebook = read_lab(path)
    with tempfile.TemporaryDirectory(prefix="onnxlab-") as folder:
        file = Path(folder) / "outcomes.jsonl"
        stop = _run(notebook, path, f"write_outcomes({name!r}, globals(), {str(file)!r})", folder)
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
    found = {outcome.exercise: outcome for outcome in map(_outcome, lines)}
    outcomes = [
        found.get(each.id) or Outcome(each.id, Status.ERROR, 0, each.points, message=stop)
        for each in lab(name).exercises
    ]
    for outcome in outcomes:
        progress.record(outcome)
    return outcomes


def write_outcomes(name: str, namespace: dict[str, Any], file: str) -> None:
    """Check the exercises of a lab with the functions in a namespace; runs inside the notebook's kernel.

    Args:
        name: The lab.
        namespace: Where the functions are looked up. Without one of them the exercise is not attempted.
        file: Gets a line of JSON for each exercise as it is done.
    """
    for each in lab(name).exercises:
        if all(answer in namespace for answer in each.answers):
            outcome = check(each, {answer: namespace[answer] for answer in each.answers})
        else:
            outcome = Outcome(each.id, Status.NOT_ATTEMPTED, 0, each.points)
        with Path(file).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(outcome.as_json()) + "\n")


def _run(notebook: dict[str, Any], path: Path, call: str, folder: str) -> str:
    """Run the code cells and then ours; return why nothing may have been checked."""
    cells = [
        nbformat.v4.new_code_cell(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"
    ]
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
    # The notebook's own checks must not count as attempts beside ours.
    variables = {**os.environ, "ONNXLAB_STATE": str(Path(folder) / "progress.json")}
    try:
        client.execute(env=variables, stderr=subprocess.DEVNULL)  # the kernel's own remarks, not the cells'
    except DeadKernelError:
        return "The notebook ended its kernel (a crash in native code, or exit())."
    except CellTimeoutError:
        return f"A cell ran longer than {_CELL_SECONDS} seconds."
    return "The check did not run: the notebook changed names that it needs."


def _outcome(line: str) -> Outcome:
    data = json.loads(line)
    findings: Sequence[dict[str, Any]] = data.pop("findings")
    known = {each.name for each in fields(Outcome)}
    plain = {key: value for key, value in data.items() if key in known}
    plain["status"] = Status(plain["status"])
    return Outcome(**plain, findings=tuple(map(_finding, findings)))


def _finding(data: dict[str, Any]) -> Finding:
    given = data.pop("difference", None)
    return Finding(**data, difference=Difference(**given) if given else None)
