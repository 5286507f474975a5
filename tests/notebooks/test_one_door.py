"""Chapters and labs import from `onnxlab` alone, so that what is behind its names may move."""

import ast
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import onnxlab

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted(
    path for folder in ("notebooks", "solutions", "labs") for path in ROOT.glob(f"{folder}/*.ipynb")
)


def imported(path):
    """The modules and names of ONNX Lab that a notebook imports."""
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type != "code":
            continue
        plain = "\n".join("pass" if line.startswith(("%", "!")) else line for line in cell.source.split("\n"))
        for node in ast.walk(ast.parse(plain)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "onnxlab":
                yield from ((node.module, alias.name) for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from ((alias.name, "") for alias in node.names if alias.name.startswith("onnxlab."))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_imports_from_the_one_door(path):
    names = set(imported(path))
    assert names
    assert {module for module, _ in names} == {"onnxlab"}
    assert {name for _, name in names} <= set(onnxlab.__all__)


@pytest.mark.parametrize("name", onnxlab.__all__)
def test_every_name_is_there(name):
    assert getattr(onnxlab, name) is not None
    assert name in dir(onnxlab)


def test_an_unknown_name_is_said():
    with pytest.raises(AttributeError, match="'onnxlab' has no attribute 'grpah'"):
        _ = onnxlab.grpah


def test_nothing_is_loaded_before_it_is_asked_for():
    heavy = "[name for name in ('torch', 'onnx', 'IPython', 'ipywidgets') if name in sys.modules]"
    process = subprocess.run(
        [sys.executable, "-c", f"import sys, onnxlab; print({heavy})"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.strip() == "[]"
