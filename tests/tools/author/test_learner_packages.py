"""What a learner does not have is hidden from notebooks; `polib` stands for an optional package."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from onnxlab_class.sandbox.users import become, throw_away_user
from tools.author import learner_packages

ROOT = Path(__file__).parents[3]
ORDINARY = throw_away_user(0) if sys.platform == "linux" else None


def seen_by(code):
    command = [sys.executable, "-c", code]
    variables = os.environ | learner_packages.variables()
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout.split()


def test_a_python_sees_what_requirements_txt_installs_and_no_more():
    names = ["torch", "jupyterlab", "pytest", "onnxlab", "sklearn", "transformers", "polib", "playwright"]
    code = f"""from importlib.util import find_spec; import subprocess, sys
visible = "print(*[name for name in {names} if find_spec(name)])"
exec(visible)
subprocess.run([sys.executable, "-c", "from importlib.util import find_spec; " + visible])"""
    assert seen_by(code) == [*names[:4], *names[:4]]  # in a child process, too


def test_metadata_is_hidden_with_the_modules():
    code = "from importlib.metadata import distributions; print(*{d.name.lower() for d in distributions()})"
    names = set(seen_by(code))
    assert {"torch", "onnx", "pip"} <= names
    assert not {"polib", "scikit-learn", "playwright"} & names


def test_everything_that_only_the_tests_install_is_hidden():
    def pins(file):
        lines = (ROOT / file).read_text("utf-8").splitlines()
        return {line.split("==")[0] for line in lines if "==" in line}

    extra = pins("requirements/test.txt") - pins("requirements.txt")
    installed = learner_packages.installed_distributions().keys()
    assert len(extra & installed) > 20
    assert extra & installed <= learner_packages.hidden_distributions()


IMPORTED = "def catalogue():\n    import polib\n\n    return polib"
ASKED = "from importlib.util import find_spec\n\nprint(find_spec('polib') is not None)"


@pytest.fixture
def run_notebook(tmp_path):
    """Give a function that runs pytest over a notebook of printing cells: the failed cells."""

    def run(*cells):
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        (tmp_path / "notebooks").mkdir()
        finished = []
        for number, (source, printed, tags) in enumerate(cells, 1):
            outputs = [new_output("stream", name="stdout", text=printed)] if printed else []
            cell = new_code_cell(source, execution_count=number, outputs=outputs)
            cell.metadata["tags"] = tags
            finished.append(cell)
        nbformat.write(new_notebook(cells=finished), tmp_path / "notebooks" / "chapter.ipynb")
        command = [sys.executable, "-m", "pytest", "-p", "tools.author.learner_packages", "--nbval"]
        command += ["--nbval-current-env", "-rfp", "--color=no", "--tb=no"]
        variables = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
        lines = [line.partition(" - ")[0].split(" ", 1) for line in done.stdout.splitlines()]
        return {line[1]: line[0] == "PASSED" for line in lines if line[0] in ("PASSED", "FAILED")}

    return run


@pytest.mark.slow
def test_a_notebook_with_an_optional_package_is_run_without_it_and_with_it(run_notebook):
    cells = [(IMPORTED, "", []), (ASKED, "True\n", ["optional"]), (ASKED, "False\n", ["optional"])]
    passed = run_notebook(*cells, (ASKED, "True\n", []), ("import polib", "", []))
    assert passed == {
        f"notebooks/chapter.ipynb{run}::Cell {number}": right
        for run, outcomes in {
            # An optional cell's output is compared with the package only; a learner sees ModuleNotFoundError.
            "": (True, True, True, False, False),
            " with polib": (True, True, False, True, True),
        }.items()
        for number, right in enumerate(outcomes)
    }


@pytest.mark.slow
def test_a_notebook_without_one_is_run_once_and_every_output_compared(run_notebook):
    assert run_notebook(("print(1)", "2\n", ["optional"])) == {"notebooks/chapter.ipynb::Cell 0": False}


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.skipif(ORDINARY is None, reason="only root can become another user")
def test_a_chapter_runs_as_an_ordinary_user(tmp_path):
    tmp_path.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, ORDINARY, ORDINARY)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(home / "t")]
    command += ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=600"]
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "ONNXLAB"))
    }
    done = subprocess.run(
        [*command, "notebooks/08_custom_operators.ipynb"],  # builds a C++ operator, and caches it
        cwd=ROOT,
        env=variables | {"HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: become(ORDINARY, [Path(sys.executable), ROOT], handed_down=True),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_what_setuptools_brings_for_itself_is_not_hidden():
    code = (
        "import setuptools; from tools.author import learner_packages\n"  # it puts its copies onto the path
        "print(*learner_packages.hidden_modules())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "polib" in done.stdout.split()
    assert "jaraco" not in done.stdout.split()
