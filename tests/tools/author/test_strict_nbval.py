"""Real pytest and real nbval over tiny notebooks: what has to turn the run red, and what must not."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]


def ran(source, text=None, *, stream="stdout", tags=()):
    outputs = [new_output("stream", name=stream, text=text)] if text else []
    return new_code_cell(
        source, outputs=outputs, execution_count=1, metadata={"tags": list(tags)} if tags else {}
    )


RAISES = ["raises-exception"]
RAISED = new_output("error", ename="ZeroDivisionError", evalue="division by zero", traceback=[])
MAGIC = "%no_such_magic"
UNKNOWN = "UsageError: Line magic function `%no_such_magic` not found.\n"

# What nbval itself turns red, and has to go on doing so.
WRONG = {
    "wrong number": (ran("print(6 * 7)", "43\n"), "Cell outputs differ"),
    "wrong claim": (ran("assert 6 * 7 == 43"), "AssertionError"),
}
# What nbval alone lets pass, with what the plugin says about it.
HOLES = {
    "unknown magic": (ran(MAGIC, UNKNOWN, stream="stderr"), "IPython did not run the line"),
    "does not raise": (ran("print(1)", "1\n", tags=RAISES), "raises-exception and did not raise"),
    "never ran": (new_code_cell("print(1)"), "The saved cell has not run"),
    "new warning": (ran("# NBVAL_IGNORE_OUTPUT\nimport warnings\nwarnings.warn('new')"), "UserWarning: new"),
}
HOLES_IN_LABS = {"unknown magic of a lab": (new_code_cell(MAGIC), "IPython did not run the line")}
CORRECT = {
    "number": ran("print(6 * 7)", "42\n"),
    "magic": ran("%matplotlib inline"),
    "known warning": ran("import sys\nprint('known', file=sys.stderr)", "known\n", stream="stderr"),
    "raises": new_code_cell("1/0", outputs=[RAISED], execution_count=1, metadata={"tags": RAISES}),
    # As Python 3.11 words them or 3.13: whichever runs this, one of each pair was saved by the other.
    "wording until 3.12": ran(
        "try:\n    min([])\nexcept ValueError as error:\n    print(error)", "min() arg is an empty sequence\n"
    ),
    "wording since 3.13": ran(
        "try:\n    min([])\nexcept ValueError as error:\n    print(error)",
        "min() iterable argument is empty\n",
    ),
    "empty cell": new_code_cell(" "),
}
CORRECT_IN_LABS = {"not run in a lab": new_code_cell("print(1)")}
NOTEBOOKS = {
    "notebooks/chapter.ipynb": {name: cell for name, (cell, _) in (WRONG | HOLES).items()} | CORRECT,
    "labs/lab.ipynb": {name: cell for name, (cell, _) in HOLES_IN_LABS.items()} | CORRECT_IN_LABS,
}
UNSEEN = ("notebooks/.ipynb_checkpoints/chapter-checkpoint.ipynb", ".venv/share/example.ipynb")


@pytest.fixture(scope="module")
def run_nbval(tmp_path_factory):
    """Give a function that runs pytest over them: a cell's name -> its failure, "" if it is green."""
    folder = tmp_path_factory.mktemp("course")
    (folder / "pytest.ini").write_text("[pytest]\n")
    unseen = {path: {f"{path}::Cell 0": ran("assert False")} for path in UNSEEN}
    for path, cells in (NOTEBOOKS | unseen).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(new_notebook(cells=list(cells.values())), folder / path)
    names = {
        f"{path}::Cell {number}": name
        for path, cells in NOTEBOOKS.items()
        for number, name in enumerate(cells)
    }

    def run(*plugin):
        command = [sys.executable, "-m", "pytest", *plugin, "--nbval", "--nbval-current-env"]
        command += ["-rfp", "--color=no"]
        variables = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=variables)
        assert done.returncode == 1, done.stdout + done.stderr
        passed = re.findall(r"^PASSED (\S+::Cell \d+)", done.stdout, flags=re.MULTILINE)
        failed = re.findall(
            r"^_+ (\S+::Cell \d+) _+\n(.*?)(?=^_+ |^=+ )", done.stdout, flags=re.MULTILINE | re.DOTALL
        )
        failures = dict.fromkeys(passed, "") | dict(failed)
        return {names.get(item, item): failure for item, failure in failures.items()}

    return run


@pytest.fixture(scope="module")
def alone(run_nbval):
    return run_nbval()


@pytest.fixture(scope="module")
def strict(run_nbval):
    return run_nbval("-p", "tools.author.strict_nbval")


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_cell_is_red(strict, name):
    assert WRONG[name][1] in strict[name]


@pytest.mark.parametrize("name", HOLES | HOLES_IN_LABS)
def test_what_nbval_alone_lets_pass_is_red(alone, strict, name):
    assert alone[name] == "", "the hole is closed upstream: this part of the plugin can go"
    assert (HOLES | HOLES_IN_LABS)[name][1] in strict[name]


@pytest.mark.parametrize("name", CORRECT | CORRECT_IN_LABS)
def test_a_correct_cell_is_green(strict, name):
    assert strict[name] == ""


def test_checkpoints_and_the_virtual_environment_are_not_collected(strict):
    assert strict.keys() == {name for cells in NOTEBOOKS.values() for name in cells}
