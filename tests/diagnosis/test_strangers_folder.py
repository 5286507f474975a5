"""A folder that somebody else filled: no file in it is run, whatever its name, and none changes a result."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx.parser import parse_model

from onnxlab.cli import main
from onnxlab.diagnosis.examination import examine

SCRIPT = Path(sys.executable).parent / "onnxlab"
HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
LIBRARIES = [
    "numpy",
    "onnx",
    "onnxruntime",
    "torch",
    "netron",
    "google",
    "ml_dtypes",
    "nbformat",
    "ipykernel",
]
MODULES = [*LIBRARIES, *(name for name in sys.stdlib_module_names if not name.startswith("_"))]


pytestmark = pytest.mark.slow  # each starts a command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a model that does not run, and a Python file of every name that may be imported."""
    where = tmp_path / "downloaded"
    where.mkdir()
    for name in MODULES:
        marker = str(where / f"ran-{name}")
        (where / f"{name}.py").write_text(f"open({marker!r}, 'w').close()\nraise SystemExit(0)\n")
    (where / "sub").mkdir()
    shutil.copy(where / "random.py", where / "sub" / "random.py")
    # No kernel of the runtime's adds booleans up.
    model = parse_model(HEAD + "g (bool[n] x) => (bool[n] y) <int64 a = {0}> { y = CumSum(x, a) }")
    onnx.save(model, where / "model.onnx")
    return where


def run(folder: Path, *command: str, path: str | None = None) -> "subprocess.CompletedProcess[str]":
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables |= {"ONNXLAB_STATE": str(folder.parent / "progress.json")}
    variables |= {} if path is None else {"PYTHONPATH": path}
    return subprocess.run(
        command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def leave_out_what_is_imported_by(module: str, folder: Path) -> None:
    """Remove what is imported before the first line of onnxlab: nothing of ours can prevent that."""
    code = f"import sys, {module}; print(*sys.modules)"
    before = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    for name in before.stdout.split():
        (folder / f"{name}.py").unlink(missing_ok=True)


def files_that_ran(folder: Path) -> set[str]:
    return {path.name.removeprefix("ran-") for path in folder.rglob("ran-*")}


@pytest.mark.parametrize(
    ("by", "arguments", "code", "says"),
    [
        *((by, ("doctor", "model.onnx"), 1, "ONNX Runtime refuses to load it") for by in ("script", "-m")),
        ("script", ("compare", "model.onnx", "model.onnx"), 1, "does not load"),
        (
            "script",
            ("why", "Exporting the operator 'aten::asinh' to ONNX opset version 17 is not supported."),
            0,
            "",
        ),
        ("script", ("next",), 0, "Next:"),
        ("script", ("open", "gone.onnx"), None, "There is no file gone.onnx."),
    ],
)
def test_a_command_runs_no_file_of_the_folder(folder, by, arguments, code, says):
    if by == "-m":
        leave_out_what_is_imported_by("runpy", folder)
    started = [str(SCRIPT)] if by == "script" else [sys.executable, "-m", "onnxlab.cli"]
    done = run(folder, *started, *arguments)
    assert files_that_ran(folder) == set()
    assert says in done.stdout + done.stderr
    assert code is None or done.returncode == code, done.stdout + done.stderr


def test_a_relative_python_path_leads_to_no_file_of_the_folder(folder):
    leave_out_what_is_imported_by("re", folder)  # as the script does that pip writes
    done = run(folder, str(SCRIPT), "doctor", "model.onnx", path=os.pathsep.join(["", ".", "sub", ""]))
    assert files_that_ran(folder) == set()
    assert done.returncode == 1
    assert "ONNX Runtime refuses to load it" in done.stdout


def test_what_a_notebook_starts_runs_no_file_of_the_folder(folder, monkeypatch):
    """A kernel has its folder on the path; what it starts for a diagnosis has not."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "."]))
    examination = examine("model.onnx")
    assert files_that_ran(folder) == set()
    assert "ONNX Runtime refuses to load it" in examination.symptoms[0].what


def test_a_lab_is_checked_beside_them_and_imports_its_own_file(folder, write_notebook):
    (folder / "google.py").unlink()  # Python prefers it to a package without __init__.py, wherever that is
    (folder / "mine.py").write_text("HERE = True\n")
    cells = ["import mine", "def lower_for(*_): return mine.HERE"]
    notebook = write_notebook(cells, "lab9_mine.ipynb")
    shutil.copy(notebook, folder)
    done = run(folder, str(SCRIPT), "check", "lab9_mine.ipynb")
    assert files_that_ran(folder) == set()
    assert "lower-for: incorrect" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("dies", "says"),
    [
        ("raise ImportError('half installed')", "exit status 1. Its last line: ImportError: half installed"),
        ("import os; os._exit(0)", "exit status 0."),
        ("import os; print('bye', file=__import__('sys').stderr); os._exit(7)", "7. Its last line: bye"),
    ],
)
def test_a_trial_that_ends_early_is_a_finding(tmp_path, monkeypatch, capsys, dies, says):
    """As with a broken installation, which an absolute PYTHONPATH brings about here."""
    (tmp_path / "onnxruntime.py").write_text(dies)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    onnx.save(parse_model(HEAD + "g (float[n] x) => (float[n] y) { y = Relu(x) }"), tmp_path / "relu.onnx")
    assert main(["doctor", str(tmp_path / "relu.onnx")]) == 1
    shown = capsys.readouterr().out
    assert "risk: The trial of the file ended early, with exit status" in shown
    assert says in shown
    assert "Not run, and not compared with PyTorch: the trial ended before." in shown


@pytest.mark.parametrize("against", ["net:make", "{elsewhere}/net.py:make"])
def test_the_factorys_folder_hides_no_library(folder, tmp_path, against):
    """A module is in the folder where the command starts, a file anywhere, with other modules beside it."""
    elsewhere = tmp_path / "else where"
    shutil.copytree(folder, elsewhere)
    where = elsewhere if "elsewhere" in against else folder
    (where / "net.py").write_text(
        "import random, numpy, torch, beside\n"
        "def make():\n"
        "    assert random.random() < 1 and numpy.ones(1) and beside.HERE\n"
        "    return torch.nn.ReLU(), torch.ones(3)\n"
    )
    (where / "beside.py").write_text("HERE = True\n")
    onnx.save(parse_model(HEAD + "g (float[n] x) => (float[n] y) { y = Relu(x) }"), folder / "relu.onnx")
    done = run(folder, str(SCRIPT), "doctor", "relu.onnx", "--against", against.format(elsewhere=elsewhere))
    assert files_that_ran(tmp_path) == set()
    assert "The file agrees with PyTorch" in done.stdout, done.stderr
    assert done.returncode == 0
