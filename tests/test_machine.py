"""Installed and tested versions, also if one of them is not known, and the C++ compiler."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from onnxlab import machine as module
from onnxlab.machine import (
    PACKAGES,
    Installed,
    Toolchain,
    advice,
    cpp_toolchain,
    environment,
    pinned_versions,
)

PINS = """\
# a comment
torch==2.13.0
ONNX_IR==1.1.0 ; python_version < "3.14"  # via onnxscript
numpy==2.4.6              # via onnx
netron>=9
-e .
"""


@pytest.fixture
def course(tmp_path):
    (tmp_path / "requirements.txt").write_text(PINS)
    return tmp_path


def test_pins_are_read_among_comments_and_markers(course):
    assert pinned_versions(course) == {"torch": "2.13.0", "onnx-ir": "1.1.0", "numpy": "2.4.6"}


def test_every_package_has_its_installed_and_tested_version(course):
    packages = {package.name: package for package in environment(course)}
    assert list(packages) == list(PACKAGES)
    assert packages["torch"].tested == "2.13.0"
    assert packages["onnx-ir"].tested == "1.1.0"
    assert packages["onnx"] == Installed("onnx", version("onnx"), None)


def test_this_course_is_found_beside_its_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "torch" in pinned_versions()


@pytest.fixture
def elsewhere(course, monkeypatch):
    """The package is installed in another place than the course."""
    monkeypatch.setattr(module, "__file__", str(course / "elsewhere/site-packages/onnxlab/facts/e.py"))


def test_a_course_is_found_above_the_working_directory(elsewhere, course, monkeypatch):
    (course / "src" / "onnxlab").mkdir(parents=True)
    (course / "notebooks").mkdir()
    monkeypatch.chdir(course / "notebooks")
    assert pinned_versions()["torch"] == "2.13.0"


def test_the_requirements_of_another_project_are_not_the_courses(elsewhere, course, monkeypatch):
    monkeypatch.chdir(course)
    assert pinned_versions() == {}
    packages = environment()
    assert {package.agrees for package in packages} == {None}
    assert "no requirements.txt" in advice(packages)


@pytest.mark.parametrize(
    ("installed", "tested", "agrees"),
    [
        ("2.13.0", "2.13.0", True),
        ("2.13.0+cpu", "2.13.0", True),
        ("2.13.0+cu126", "2.13.0+cpu", True),
        ("2.13.1", "2.13.0", False),
        ("2.13.0.dev1", "2.13.0", False),
        (None, "2.13.0", False),
        ("2.13.0", None, None),
    ],
)
def test_a_build_tag_is_no_difference(installed, tested, agrees):
    assert Installed("torch", installed, tested).agrees is agrees


def test_the_advice_names_what_differs():
    packages = [
        Installed("torch", "2.15.0", "2.13.0"),
        Installed("onnx", None, "1.23.2"),
        Installed("numpy", "2", "2"),
    ]
    text = advice(packages)
    assert "torch is 2.15.0, tested was 2.13.0" in text
    assert "onnx is not installed, tested was 1.23.2" in text
    assert "numpy" not in text
    assert text.endswith("run: pip install torch==2.13.0 onnx==1.23.2")


def test_every_package_of_the_list_is_really_pinned():
    assert set(PACKAGES) <= pinned_versions(Path(__file__).parents[1]).keys()


# The search for a compiler: one that is found runs, missing programs are named.


def program(folder, name):
    file = folder / (f"{name}.exe" if sys.platform == "win32" else name)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return str(file)


def test_nothing_found(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    tools = cpp_toolchain()
    assert tools == Toolchain(None, None)
    assert not tools.ready
    assert "compiler" in tools.missing
    assert "pip install ninja" in tools.missing


def test_ninja_beside_python_is_found_and_put_on_the_path(monkeypatch, tmp_path):
    (tmp_path / "venv").mkdir()
    ninja = program(tmp_path / "venv", "ninja")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    tools = cpp_toolchain()
    assert tools.ninja == ninja
    assert tools.path.split(os.pathsep) == [str(tmp_path), str(tmp_path / "venv")]


def test_the_compiler_of_the_environment_is_used(monkeypatch, tmp_path):
    compiler = program(tmp_path, "my-compiler")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "my-compiler")
    assert cpp_toolchain().compiler == compiler


def test_the_path_does_not_grow(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    tools = Toolchain(compiler=str(tmp_path / "c++"), ninja=str(tmp_path / "ninja"))
    assert tools.path == str(tmp_path)


def test_the_programs_of_this_machine_run():
    tools = cpp_toolchain()
    if not tools.ready:
        pytest.skip(f"nothing to try: {tools.missing} missing")
    assert Path(tools.compiler).exists()
    assert subprocess.run([tools.ninja, "--version"], capture_output=True, check=True).stdout
