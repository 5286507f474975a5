"""A new exercise: its statement, its two modules, its contract and its section in the solution, in a copy."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
LAB = "lab04_asinh"

ASKING = '''"""Exercise: a symbolic function that gives acosh a rule at opset 9."""

import torch

from onnxlab.labs.kit.declared import RequestedExport
from onnxlab.labs.kit.samples import normal

__all__ = ["EXPORT", "produce"]

EXPORT = RequestedExport(
    torch.acosh, {"x": {0: "n"}}, lambda random: normal(random, 4).abs() + 1, "aten::acosh", opset=9
)
produce = EXPORT.produce
'''

JUDGING = '''"""What is right in acosh-symbolic, part by part."""

from onnxlab.labs.kit.declared import numbers, right_model, valid
from onnxlab.labs.kit.exercise import Judges
from onnxlab.labs.kit.samples import normal
from onnxlab.labs.lab04_asinh.acosh_symbolic import EXPORT

__all__ = ["JUDGES"]

JUDGES = Judges(
    (
        valid(EXPORT),
        numbers(
            EXPORT,
            lambda random: [normal(random, size).abs() + 1 for size in (1, 5)],
            look_at="Evaluate your formula by hand for the input shown.",
        ),
    ),
    right_model(
        EXPORT,
        """<ir_version: 8, opset_import: ["" : 9]>
    acosh (float[n] x) => (float[n] y) { y = Acosh(x) }""",
    ),
)
'''

STATEMENT = """
[[exercise]]
id = "acosh-symbolic"
title = "Write a symbolic function for acosh at opset 9"
points = 2
answers = ["acosh_symbolic"]
parts = ["a valid model at opset 9", "right for numbers from 1 on"]
hints = [
  "Is there an operator?",
  "`onnx.defs.get_schema('Acosh', 9)`",
  '`return g.op("Acosh", x)`',
]
"""

CONTRACT = """


def logarithm(g, x):
    one = g.op("Constant", value_t=torch.tensor(1.0))
    return g.op("Log", g.op("Add", x, g.op("Sqrt", g.op("Sub", g.op("Mul", x, x), one))))


CONTRACTS["acosh-symbolic"] = Contract(
    right=((lambda g, x: g.op("Acosh", x),), (logarithm,)),
    wrong=(
        WrongAnswer("another operator", (lambda g, x: g.op("Asinh", x),), "by hand"),
        WrongAnswer("a misspelt operator", (lambda g, x: g.op("ACosh", x),), "No Op registered for ACosh"),
        WrongAnswer("nothing is returned", (lambda g, x: None,), "returned None"),
        WrongAnswer("an error", (lambda g, x: g.opp(x),), "has no attribute 'opp'", Status.ERROR),
    ),
)
"""

SECTION = """def acosh_symbolic(g, x):
    \"\"\"Return the node that computes acosh.\"\"\"
    ### BEGIN SOLUTION
    return g.op("Acosh", x)
    ### END SOLUTION
"""


@pytest.mark.slow
def test_one_more_exercise_needs_nothing_else(tmp_path):
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("src", "solutions", "labs", "tests/labs", "tests/support", "tests/course", "tools"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    for file in ("pyproject.toml", "requirements.txt", "conftest.py"):
        shutil.copy(ROOT / file, tmp_path)
    (tmp_path / "notebooks").mkdir()

    # What an author writes.
    (tmp_path / f"src/onnxlab/labs/{LAB}/acosh_symbolic.py").write_text(ASKING)
    (tmp_path / f"src/onnxlab/judges/{LAB}/acosh_symbolic.py").write_text(JUDGING)
    with (tmp_path / f"src/onnxlab/labs/{LAB}.toml").open("a") as statements:
        statements.write(STATEMENT)
    with (tmp_path / "tests/labs/answers/lab04.py").open("a") as answers:
        answers.write(CONTRACT)
    solution = tmp_path / "solutions" / f"{LAB}.ipynb"
    notebook = nbformat.read(solution, 4)
    new = nbformat.v4
    notebook.cells[-1:-1] = [
        new.new_markdown_cell("## And its sister"),
        new.new_code_cell(SECTION),
        new.new_code_cell('check("acosh-symbolic", acosh_symbolic)'),
    ]
    nbformat.write(notebook, solution)

    run(tmp_path, "-m", "tools.author", "sync")
    handed_out = (tmp_path / "labs" / f"{LAB}.ipynb").read_text()
    assert "acosh_symbolic" in handed_out
    assert 'g.op(\\"Acosh\\"' not in handed_out
    tests = "acosh or contract_and_no_other or lab_says or metadata_are_those or in_sync"
    output = run(
        tmp_path,
        *("-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-k", tests),
        *("tests/labs/test_contract.py", "tests/course/test_lab_release.py"),
    )
    assert " passed" in output
    script = "from onnxlab import progress; from onnxlab.labs.kit.exercise import labs; progress()"
    assert "acosh-symbolic" in run(tmp_path, "-c", script)


def run(folder: Path, *arguments: str) -> str:
    environment = {"PYTHONPATH": str(folder / "src"), "ONNXLAB_STATE": str(folder / "progress.json")}
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert process.returncode == 0, process.stdout[-3000:] + process.stderr[-3000:]
    return process.stdout
