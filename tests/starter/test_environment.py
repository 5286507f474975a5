import subprocess
import sys

import pytest
from starter.console import Stop
from starter.environment import Environment, State, child_variables, course_environment, require_venv


def environment_at(folder):
    return Environment(folder, folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))


@pytest.fixture
def without_pip(tmp_path):
    """A real virtual environment as an interrupted `python -m venv` leaves it."""
    folder = tmp_path / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return environment_at(folder)


def test_a_folder_that_is_not_there_is_missing(tmp_path):
    assert environment_at(tmp_path / ".venv").state() is State.MISSING


def test_an_empty_folder_counts_as_missing(tmp_path):
    assert environment_at(tmp_path).state() is State.MISSING


def test_somebodys_own_folder_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    assert environment_at(tmp_path).state() is State.SOMETHING_ELSE


def test_a_file_in_its_place_is_left_alone(tmp_path):
    (tmp_path / ".venv").write_text("")
    assert environment_at(tmp_path / ".venv").state() is State.SOMETHING_ELSE


def test_one_without_pip_is_broken(without_pip):
    assert without_pip.state() is State.BROKEN


def test_one_whose_python_is_gone_is_broken(without_pip):
    without_pip.python.unlink()
    assert without_pip.state() is State.BROKEN


@pytest.mark.slow
def test_making_one_in_place_of_a_broken_one(without_pip):
    leftover = without_pip.folder / "leftover"
    leftover.write_text("")
    without_pip.make()
    assert without_pip.state() is State.WORKS
    assert not leftover.exists()


def test_a_python_without_venv_is_told_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(Stop) as stop:
        require_venv()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"sudo apt install python{version}-venv" in stop.value.then


def test_the_digest_changes_with_the_requirements_and_the_python(tmp_path, monkeypatch):
    monkeypatch.setattr("starter.environment.ROOT", tmp_path)
    environment = environment_at(tmp_path / ".venv")
    environment.folder.mkdir()
    files = {
        "requirements.txt": "a==1",
        "pyproject.toml": "[project]\n[tool.x]\n",
        ".venv/pyvenv.cfg": "version = 3.11",
    }
    digests = []
    for name, text in [*files.items(), *((name, text + "2") for name, text in files.items())]:
        (tmp_path / name).write_text(text)
        if all((tmp_path / needed).exists() for needed in files):
            digests.append(environment.digest(["requirements.txt"]))
    first, requirements, settings, python = digests
    assert first != requirements
    assert settings == requirements, "settings of tools after the package's own part do not count"
    assert python != settings


@pytest.mark.parametrize("text", [None, "", "not json", "[1]"])
def test_a_stamp_that_cannot_be_read_is_no_stamp(tmp_path, text):
    if text is not None:
        (tmp_path / "onnxlab-installed.json").write_text(text)
    assert environment_at(tmp_path).stamp == {}


def test_a_stamp_is_read_back(tmp_path):
    environment_at(tmp_path).set_stamp({"course": "abc"})
    assert environment_at(tmp_path).stamp == {"course": "abc"}


def test_a_package_counts_as_installed_when_its_record_is_there(tmp_path):
    metadata = tmp_path / "lib" / "python3.12" / "site-packages" / "torch-2.13.0.dist-info"
    metadata.mkdir(parents=True)
    assert not environment_at(tmp_path).has("torch")
    (metadata / "RECORD").write_text("")
    assert environment_at(tmp_path).has("torch")


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
    assert not environment.ours
