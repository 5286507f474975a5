import subprocess
import sys

import pytest

from starter.console import Stop
from starter.environment import Environment, child_variables, course_environment


def environment_at(folder):
    return Environment(folder, folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))


@pytest.fixture
def without_pip(tmp_path):
    """A real virtual environment as an interrupted `python -m venv` leaves it."""
    folder = tmp_path / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return environment_at(folder)


def test_a_folder_that_is_not_there_or_empty_has_to_be_made(tmp_path):
    assert not environment_at(tmp_path / ".venv").works()
    assert not environment_at(tmp_path).works()


@pytest.mark.parametrize("name", [".venv", ".venv/notes.txt"])
def test_somebodys_own_file_or_folder_is_left_alone_and_said_in_three_lines(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(Stop, match="is not a virtual environment") as stop:
        environment_at(tmp_path / ".venv").works()
    assert len(str(stop.value).splitlines()) == 3
    assert (tmp_path / name).read_text() == "mine"


def test_one_without_pip_is_broken(without_pip):
    assert not without_pip.works()


def test_one_whose_python_is_gone_is_broken(without_pip):
    without_pip.python.unlink()
    assert not without_pip.works()


@pytest.mark.slow
def test_making_one_in_place_of_a_broken_one(without_pip):
    leftover = without_pip.folder / "leftover"
    leftover.write_text("")
    without_pip.make()
    assert without_pip.works()
    assert not leftover.exists()


def test_a_python_that_cannot_make_one_is_told_the_package(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Stop, match="could not be made") as stop:
        environment_at(tmp_path / "file" / ".venv").make()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"sudo apt install python{version}-venv" in stop.value.then
    assert len(str(stop.value).splitlines()) == 3


def test_the_digest_changes_with_the_requirements_and_the_python(tmp_path, monkeypatch):
    monkeypatch.setattr("starter.environment.ROOT", tmp_path)
    environment = environment_at(tmp_path / ".venv")
    environment.folder.mkdir()
    files = {
        "requirements.txt": "a==1",
        "pyproject.toml": "[project]\n[tool.x]\n",
        "packages/onnxlab-class/setup.py": "setup()",
        ".venv/pyvenv.cfg": "version = 3.11",
    }
    digests = []
    for name, text in [*files.items(), *((name, text + "2") for name, text in files.items())]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        if all((tmp_path / needed).exists() for needed in files):
            digests.append(environment.digest("requirements.txt"))
    first, requirements, settings, second_package, python = digests
    assert first != requirements
    assert settings == requirements, "settings of tools after the package's own part do not count"
    assert second_package != settings
    assert python != second_package


def test_children_report_nothing_home_and_find_the_environments_programs(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONHOME", "/elsewhere")
    variables = child_variables(environment_at(tmp_path))
    assert variables["ORT_DISABLE_TELEMETRY"] == "1"
    assert "PYTHONHOME" not in variables
    assert variables["PATH"].startswith(str(environment_at(tmp_path).python.parent))


def test_the_escape_uses_this_python_as_it_is(monkeypatch):
    monkeypatch.setenv("ONNXLAB_ENVIRONMENT", "current")
    environment = course_environment()
    assert str(environment.python) == sys.executable
    assert not environment.managed
