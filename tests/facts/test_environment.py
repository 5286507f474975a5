"""Installed and tested versions, also where the one or the other is not known."""

from importlib.metadata import version
from pathlib import Path

import pytest

from onnxlab.facts import environment as module
from onnxlab.facts.environment import PACKAGES, Installed, advice, environment, pinned_versions

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


def test_pins_are_read_whatever_stands_around_them(course):
    assert pinned_versions(course) == {"torch": "2.13.0", "onnx-ir": "1.1.0", "numpy": "2.4.6"}


def test_what_is_installed_stands_beside_what_was_tested(course):
    found = {package.name: package for package in environment(course)}
    assert list(found) == list(PACKAGES)
    assert found["torch"].tested == "2.13.0"
    assert found["onnx-ir"].tested == "1.1.0"
    assert found["onnx"] == Installed("onnx", version("onnx"), None)


def test_this_course_is_found_beside_its_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "torch" in pinned_versions()


def test_a_course_is_found_above_the_working_directory(course, monkeypatch):
    monkeypatch.setattr(
        module, "__file__", str(course / "elsewhere" / "site-packages" / "onnxlab" / "facts" / "e.py")
    )
    (course / "src" / "onnxlab").mkdir(parents=True)
    (course / "notebooks").mkdir()
    monkeypatch.chdir(course / "notebooks")
    assert pinned_versions()["torch"] == "2.13.0"


def test_the_requirements_of_another_project_are_not_the_courses(course, monkeypatch):
    monkeypatch.setattr(
        module, "__file__", str(course / "elsewhere" / "site-packages" / "onnxlab" / "facts" / "e.py")
    )
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
    assert "pip install -r requirements.txt" in text


def test_every_package_of_the_list_is_really_pinned():
    assert set(PACKAGES) <= pinned_versions(Path(__file__).parents[2]).keys()
