"""The wheelhouse: real wheels of a small course, repaired, completed, and installed without the network."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from onnxlab.cli import main
from onnxlab_class.classroom.course.wheelhouse import (
    SYSTEMS,
    Target,
    WheelhouseRefused,
    check_wheelhouse,
    make_wheelhouse,
    pins_for,
    this_target,
)
from tests.support.torch_wheel import make_torch

ROOT = Path(__file__).parents[5]
PINS = "markupsafe==3.0.4\nsix==1.17.0\nsetuptools==84.2.1\ncolorama==0.4.6 ; sys_platform == 'win32'\n-e .\n"
PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "onnxlab"
version = "0.0.1"
[tool.setuptools.packages.find]
where = ["src"]
"""
HERE, WINDOWS = this_target(), Target("windows", "3.12")


def commit(root: Path) -> None:
    name = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    subprocess.run(["git", *name, "commit", "-q", "-m", "All"], cwd=root, check=True)


@pytest.fixture(scope="module")
def small_course(tmp_path_factory):
    """A small course: three packages, the real starter. It is made once: copy it."""
    root = tmp_path_factory.mktemp("small") / "course"
    shutil.copytree(ROOT / "starter", root / "starter", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "course.py", root)
    (root / "src" / "onnxlab").mkdir(parents=True)
    (root / "src" / "onnxlab" / "__init__.py").write_text("import markupsafe, six\n")
    (root / "pyproject.toml").write_text(PROJECT)
    (root / "requirements.txt").write_text(PINS)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    commit(root)
    return root


@pytest.fixture
def course(small_course, tmp_path):
    return Path(shutil.copytree(small_course, tmp_path / "course"))


@pytest.fixture(scope="module")
def filled_house(small_course, tmp_path_factory):
    """The wheelhouse of the small course for this machine. It is downloaded once: copy it."""
    folder = tmp_path_factory.mktemp("filled") / "house"
    assert wheelhouse(small_course, folder, HERE) == {HERE: []}
    return folder


@pytest.fixture
def house(filled_house, tmp_path):
    return Path(shutil.copytree(filled_house, tmp_path / "house"))


def wheelhouse(root: Path, folder: Path, *targets: Target):
    try:
        return make_wheelhouse(root, folder, targets, "requirements.txt")
    except WheelhouseRefused as error:
        if not re.search(r"connection broken|Could not fetch|[Tt]imed out", error.why):
            raise
        pytest.skip(f"the package index does not answer: {error.why}")


@pytest.mark.slow
def test_a_laptop_installs_with_the_network_cut(house, tmp_path):
    laptop = house.rename(tmp_path / "laptop")
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PIP_", "PYTHON", "ONNXLAB"))
    }
    code = "from starter.commands import prepare; print(prepare('course').python)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command,
        cwd=laptop,
        env=variables | nowhere | {"PIP_NO_CACHE_DIR": "1"},
        text=True,
        capture_output=True,
    )
    assert "installed from the folder wheelhouse" in done.stdout, done.stdout + done.stderr
    python = done.stdout.splitlines()[-1]
    code = "import onnxlab, markupsafe; print(onnxlab.__file__); print(markupsafe.__file__)"
    where = subprocess.run(
        [python, "-c", code], text=True, capture_output=True, check=True, cwd=tmp_path
    ).stdout
    assert all(line.startswith(str(laptop)) for line in where.splitlines())
    (laptop / "requirements.txt").write_text(PINS + "anyio==4.16.0\n")
    done = subprocess.run(command, cwd=laptop, env=variables | nowhere, text=True, capture_output=True)
    assert "The folder wheelhouse has no such package" in done.stderr


@pytest.mark.slow
def test_damage_is_found_and_mended_and_more_machines_are_added(course, house):
    wheels = house / "wheelhouse"
    six, setuptools = wheels / "six-1.17.0-py2.py3-none-any.whl", next(wheels.glob("setuptools-*"))
    six.unlink()
    setuptools.write_bytes(setuptools.read_bytes()[:-7])
    assert check_wheelhouse(house) == ({HERE: ["six==1.17.0"]}, [setuptools.name])
    untouched = {path: path.stat().st_mtime_ns for path in wheels.glob("markupsafe-*")}
    assert wheelhouse(course, house, WINDOWS) == {HERE: [], WINDOWS: []}
    assert check_wheelhouse(house) == ({HERE: [], WINDOWS: []}, [])
    assert (wheels / "colorama-0.4.6-py2.py3-none-any.whl").exists()
    assert len(list(wheels.glob("markupsafe-*"))) == (1 if HERE == WINDOWS else 2)
    assert {path: path.stat().st_mtime_ns for path in untouched} == untouched


@pytest.mark.slow
def test_pins_that_move_leave_no_wheel_behind(course, house):
    (course / "requirements.txt").write_text(PINS.replace("six==1.17.0", "six==1.16.0"))
    commit(course)
    assert wheelhouse(course, house, HERE) == {HERE: []}
    assert [path.name for path in (house / "wheelhouse").glob("six-*")] == ["six-1.16.0-py2.py3-none-any.whl"]


@pytest.mark.slow
def test_what_has_no_wheel_for_a_machine_is_named_and_the_rest_is_there(course, tmp_path):
    (course / "requirements.txt").write_text(PINS + "onnxruntime-extensions==0.15.2\n")
    commit(course)
    assert wheelhouse(course, tmp_path / "house", WINDOWS) == {WINDOWS: ["onnxruntime-extensions==0.15.2"]}
    assert len(list((tmp_path / "house" / "wheelhouse").glob("*.whl"))) == 4


def test_an_index_that_does_not_answer_is_not_taken_for_packages_that_do_not_exist(
    course, tmp_path, monkeypatch
):
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(WheelhouseRefused, match="could not be downloaded"):
        make_wheelhouse(course, tmp_path / "house", [HERE], "requirements.txt")
    assert (tmp_path / "house" / "INSTALL-OFFLINE.txt").exists(), "the same command goes on from here"


@pytest.mark.skipif(not HERE.system.startswith("linux"), reason="only Linux has builds with CUDA")
@pytest.mark.slow
def test_torch_comes_from_the_index_that_the_variable_names(course, tmp_path, monkeypatch):
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    make_torch(mirror, "1.2.3")
    (course / "requirements.txt").write_text("torch==1.2.3\n-e .\n")
    commit(course)
    monkeypatch.setenv("ONNXLAB_TORCH_INDEX", mirror.as_uri())
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # configured, and without torch
    assert make_wheelhouse(course, tmp_path / "house", [HERE], "requirements.txt") == {HERE: []}
    assert [path.name for path in (tmp_path / "house" / "wheelhouse").iterdir()] == [
        "torch-1.2.3-py3-none-any.whl"
    ]


def test_a_folder_with_something_else_is_left_alone(course, tmp_path, capsys, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("")
    with pytest.raises(WheelhouseRefused, match="is no wheelhouse"):
        make_wheelhouse(course, tmp_path / "mine", [HERE], "requirements.txt")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["file"]
    assert main(["class", "wheelhouse", str(tmp_path / "mine"), "--check"]) == 2
    assert "is no wheelhouse" in capsys.readouterr().err


def test_a_course_that_is_no_clone_is_said(tmp_path, course):
    shutil.rmtree(course / ".git")
    with pytest.raises(WheelhouseRefused, match="Run this in a clone"):
        make_wheelhouse(course, tmp_path / "house", [HERE], "requirements.txt")


def test_a_machine_that_the_course_does_not_run_on_is_said(tmp_path, capsys):
    with pytest.raises(WheelhouseRefused, match=r"does not run with Python 3\.14"):
        Target("linux", "3.14")
    assert main(["class", "wheelhouse", str(tmp_path / "house"), "--for", "beos", "--python", "3.12"]) == 2
    assert "It runs with Python 3.11, 3.12, 3.13 on linux" in capsys.readouterr().err


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_machine_gets_the_pins_whose_conditions_hold_there(system):
    text = (ROOT / "requirements.txt").read_text()
    names = {pin.partition("==")[0] for pin in pins_for(text, Target(system, "3.12"))}
    assert ("colorama" in names, "onnxruntime-extensions" in names) == (
        system == "windows",
        system != "windows",
    )
    assert ("appnope" in names, "overrides" in names) == (system == "macos-arm64", False)
    assert "overrides==7.7.0" in pins_for(text, Target(system, "3.11"))


def test_the_platform_tags_for_pip_are_those_of_the_machine():
    assert Target("windows", "3.12").platforms == ["win_amd64"]
    assert {"manylinux_2_28_aarch64", "manylinux2014_aarch64"} <= set(Target("linux-arm64", "3.12").platforms)
    assert "manylinux_2_34_x86_64" not in Target("linux", "3.12").platforms


def test_a_wheel_cut_off_anywhere_is_damaged(tmp_path):
    house = tmp_path / "wheelhouse"
    house.mkdir()
    (tmp_path / "INSTALL-OFFLINE.txt").write_text("-r requirements.txt")
    (tmp_path / "requirements.txt").write_text("")
    path = house / "a-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.py", "b" * 200)
    content = path.read_bytes()
    assert check_wheelhouse(tmp_path) == ({}, [])
    for cut in (0, 10, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])
        assert check_wheelhouse(tmp_path) == ({}, [path.name])
