import io
from pathlib import Path

import pytest
from starter.console import Progress, Stop
from starter.cpu_torch import CPU_INDEX, decide
from starter.diagnosis import diagnosis
from starter.environment import Environment

from starter import cpu_torch, packages


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """An environment of tiny requirements, with nothing of this machine."""
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "pyvenv.cfg").write_text("version = 3.11")
    (tmp_path / "requirements.txt").write_text("torch==2.13.0\n-e .\n")
    (tmp_path / "requirements-classroom.txt").write_text("-r requirements.txt\njupyterhub==6.1.1\n")
    (tmp_path / "requirements-test.txt").write_text("-r requirements-classroom.txt\npytest==9.2.0\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    for module in ("packages", "environment"):
        monkeypatch.setattr(f"starter.{module}.ROOT", tmp_path)
    monkeypatch.setattr(packages, "require_space", lambda environment, needed: None)
    monkeypatch.setattr(cpu_torch, "choose", lambda environment, version: cpu_torch.Choice())
    return Environment(tmp_path / ".venv", tmp_path / "python")


@pytest.fixture
def asked(monkeypatch):
    """What pip was asked to install."""
    calls = []
    monkeypatch.setattr(
        packages, "run_pip", lambda environment, arguments, *rest, **more: calls.append(arguments)
    )
    return calls


def install(environment, name):
    return packages.install(environment, name, Progress(io.StringIO()))


def test_an_install_happens_once_and_again_only_when_the_files_change(environment, asked, tmp_path):
    assert install(environment, "course") == "installed"
    assert install(environment, "course") == "nothing to install"
    (tmp_path / "requirements.txt").write_text("torch==2.14.0\n-e .\n")
    assert install(environment, "course") == "installed"
    assert asked == [["-r", "requirements.txt"]] * 2


def test_the_tests_add_to_the_course_and_cover_it(environment, asked):
    install(environment, "course")
    assert install(environment, "test") == "installed"
    assert asked[1] == ["-r", "requirements-test.txt"]
    assert install(environment, "course") == "nothing to install"
    assert install(environment, "classroom") == "nothing to install"


def test_a_class_adds_to_the_course(environment, asked):
    assert install(environment, "classroom") == "installed"
    assert asked == [["-r", "requirements-classroom.txt"]]
    assert install(environment, "course") == "nothing to install"
    assert install(environment, "test") == "installed"


def test_an_interrupted_install_is_resumed_and_not_trusted(environment, asked, monkeypatch):
    def interrupted(*arguments, **more):
        raise KeyboardInterrupt

    install(environment, "course")
    monkeypatch.setattr(packages, "run_pip", interrupted)
    with pytest.raises(KeyboardInterrupt):
        install(environment, "test")
    monkeypatch.setattr(packages, "run_pip", lambda *arguments, **more: None)
    assert environment.stamp == {"interrupted": "test"}, "nor is what was there before"
    assert install(environment, "test") == "the unfinished install was completed"


def test_a_package_cut_off_in_the_middle_is_installed_again(environment):
    folder = environment.folder / "lib" / "python3.11" / "site-packages"
    whole, half = folder / "numpy-2.4.6.dist-info", folder / "onnx-1.23.2.dist-info"
    for metadata in (whole, half):
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text("")
    (whole / "RECORD").write_text("")
    packages.drop_half_installed(environment)
    assert whole.exists()
    assert not half.exists()


def test_a_full_disk_is_said_before_anything_is_installed(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda place: type("Usage", (), {"free": 1_000_000_000}))
    with pytest.raises(Stop) as stop:
        packages.require_space(Environment(tmp_path / ".venv", tmp_path), needed=3)
    assert stop.value.why == "The install needs about 3 GB there, and 1.0 GB are free."


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            "disk is full",
        ),
        (
            "WARNING: Retrying ... NewConnectionError('Failed to establish a new connection')",
            "did not answer",
        ),
        ("ERROR: No matching distribution found for torch==2.13.0", "no such package"),
        ("ERROR: something new", "pip said"),
    ],
)
def test_a_failed_install_is_diagnosed_from_what_pip_said(said, reason):
    stop = diagnosis(f"Collecting a\n{said}\n", Path("the.log"))
    assert reason in stop.why
    assert said in stop.why
    assert "run the same command again" in stop.then
    assert "the.log" in stop.then


@pytest.mark.parametrize(
    ("configured", "nvidia", "answers", "cpu_build", "cuda_expected"),
    [
        (False, False, True, True, False),
        (False, False, False, False, True),
        (False, True, True, False, True),
        (True, False, True, False, False),
    ],
)
def test_the_cpu_build_is_taken_where_it_fits_and_can_be_had(
    configured, nvidia, answers, cpu_build, cuda_expected
):
    choice = decide("2.13.0", configured, nvidia, lambda: answers)
    assert bool(choice.arguments) is cpu_build
    assert choice.cuda_expected is cuda_expected
    if cpu_build:
        assert choice.arguments == ("--no-deps", "--index-url", CPU_INDEX, "torch==2.13.0")


def test_an_index_that_refuses_or_does_not_answer_in_time_does_not_answer():
    assert not cpu_torch.answers("http://127.0.0.1:9/", seconds=1.0)
    assert not cpu_torch.answers("no address", seconds=1.0)
