"""A pytest plugin that makes nbval stricter. pyproject.toml loads it into every run.

nbval executes a notebook and compares its outputs with the saved ones. It passes although

- a magic does not exist: IPython prints a UsageError and the cell counts as run;
- a cell tagged ``raises-exception`` does not raise;
- a cell was saved without having run: there is nothing to compare with;
- a cell prints to stderr, which is not compared.

Each of these is a failure here. Texts that differ between Python versions are none: ``wordings.cfg`` lists
them, unless ``--nbval-sanitize-with`` names another list.
"""

import re
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from onnxlab.course.notebooks import Kind, is_empty

_WORDINGS = Path(__file__).with_name("wordings.cfg")

_UNKNOWN_MAGIC = re.compile(r"^UsageError: .*", re.MULTILINE)


def fault(
    cell: dict[str, Any], outputs: Sequence[dict[str, Any]], kind: Kind, *, may_raise: bool
) -> str | None:
    """Return why a cell that passed nbval should fail; None if it should not."""
    if is_empty(cell):
        return None
    stderr = _stderr(outputs)
    if match := _UNKNOWN_MAGIC.search(stderr):
        return f"IPython did not run the line: {match.group()}"
    if may_raise and not any(output["output_type"] == "error" for output in outputs):
        return "The cell is tagged raises-exception and did not raise"
    if kind.has_outputs and cell["execution_count"] is None:
        return "The saved cell has not run, so its outputs are not checked: run `python -m tools.author run`"
    if stderr and not _stderr(cell["outputs"]):
        return f"The cell wrote to stderr, and the saved one did not: {stderr.strip().splitlines()[0]}"
    return None


def pytest_configure(config: pytest.Config) -> None:
    """Pass ``wordings.cfg`` to nbval, if it is installed and no other list is named."""
    if getattr(config.option, "nbval_sanitize_with", "") is None:
        config.option.nbval_sanitize_with = str(_WORDINGS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """After nbval ran and compared a cell, check what it does not check."""
    result = yield
    # By name, because nbval need not be installed.
    if type(item).__name__ == "IPyNbCell" and item.test_outputs is not None:  # type: ignore[attr-defined]  # nbval's
        may_raise = bool(item.options["check_exception"])  # type: ignore[attr-defined]  # nbval's
        reason = fault(item.cell, item.test_outputs, Kind.of(Path(item.path)), may_raise=may_raise)  # type: ignore[attr-defined]  # nbval's
        if reason:
            item.raise_cell_error(reason)  # type: ignore[attr-defined]  # nbval's
    return result


def _stderr(outputs: Sequence[dict[str, Any]]) -> str:
    streams = (output for output in outputs if output["output_type"] == "stream")
    return "".join(output["text"] for output in streams if output["name"] == "stderr")
