"""Small notebooks for the tests of `onnxlab.authoring`."""

from collections.abc import Callable, Sequence
from pathlib import Path

import nbformat
import pytest


@pytest.fixture
def write_notebook(tmp_path: Path) -> Callable[..., Path]:
    """Give a function that writes a notebook of code cells (str) and finished cells, and returns its path."""

    def write(cells: Sequence[object], name: str = "notebooks/chapter.ipynb") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        finished = [nbformat.v4.new_code_cell(cell) if isinstance(cell, str) else cell for cell in cells]
        nbformat.write(nbformat.v4.new_notebook(cells=finished), path)
        return path

    return write
