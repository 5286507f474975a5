import functools
import http.server
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from starter import packages
from starter.console import Stop
from starter.environment import Environment
from tests.support.torch_wheel import make_torch


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """An environment of tiny requirements, with nothing of this machine."""
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "pyvenv.cfg").write_text("version = 3.11")
    pins = ""
    (tmp_path / "requirements").mkdir()
    for file, pin in zip(
        packages.SETS["test"], ("torch==2.13.0", "jupyterhub==6.1.1", "pytest==9.2.0"), strict=True
    ):
        pins += f"{pin}\n"
        (tmp_path / file).write_text(f"-e .\n{pins}")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    for module in ("packages", "environment"):
        monkeypatch.setattr(f"starter.{module}.ROOT", tmp_path)
    monkeypatch.setattr(packages, "require_space", lambda place, gigabytes: None)
    monkeypatch.setattr(packages, "has_gpu", lambda: False)
    monkeypatch.setattr("sys.platform", "darwin")  # Linux alone has a torch with CUDA by default
    return Environment(tmp_path / ".venv", tmp_path / "python")


@pytest.fixture
def pip_calls(monkeypatch):
    """The arguments of each run of pip."""
    calls = []

    def pip(environment, arguments, log, total=1):
        calls.append(arguments)
        return 0, ""

    monkeypatch.setattr(packages, "_pip", pip)
    return calls


def test_an_install_happens_once_and_again_only_when_the_files_change(environment, pip_calls, tmp_path):
    assert packages.install(environment, "course") == "installed"
    assert packages.install(environment, "course") == "nothing to install"
    (tmp_path / "requirements.txt").write_text("torch==2.14.0\n-e .\n")
    assert packages.install(environment, "course") == "installed"
    assert pip_calls == [["-r", "requirements.txt"]] * 2


def test_a_larger_set_covers_the_smaller_ones(environment, pip_calls):
    packages.install(environment, "course")
    assert packages.install(environment, "classroom") == "installed"
    assert packages.install(environment, "course") == "nothing to install"
    assert packages.install(environment, "test") == "installed"
    assert packages.install(environment, "classroom") == "nothing to install"
    assert pip_calls == [["-r", file] for file in packages.SETS["test"]]


def test_an_interrupted_install_is_not_trusted_nor_is_what_was_there_before(
    environment, pip_calls, monkeypatch
):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    packages.install(environment, "course")
    with monkeypatch.context() as patch:
        patch.setattr(packages, "_pip", interrupted)
        with pytest.raises(KeyboardInterrupt):
            packages.install(environment, "test")
    assert environment.stamp == []
    assert packages.install(environment, "test") == "installed"


def test_a_package_cut_off_in_the_middle_is_installed_again(environment, pip_calls):
    folder = environment.folder / "lib" / "python3.11" / "site-packages"
    complete, half = folder / "numpy-2.4.6.dist-info", folder / "onnx-1.23.2.dist-info"
    for metadata in (complete, half):
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text("")
    (complete / "RECORD").write_text("")
    packages.install(environment, "course")
    assert complete.exists()
    assert not half.exists()


@pytest.mark.parametrize("present", [False, True])
def test_the_cpu_build_of_torch_comes_first_unless_torch_is_there(
    environment, pip_calls, monkeypatch, present
):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(packages, "is_configured", lambda environment: False)
    if present:
        record = environment.folder / "Lib" / "site-packages" / "torch-2.13.0.dist-info" / "RECORD"
        record.parent.mkdir(parents=True)
        record.write_text("")
    packages.install(environment, "course")
    cpu = [arguments for arguments in pip_calls if packages.CPU_INDEX in arguments]
    assert [arguments[-1] for arguments in cpu] == ([] if present else ["torch==2.13.0"])
    assert pip_calls[-1] == ["-r", "requirements.txt"]


def test_a_machine_with_a_gpu_gets_the_default_build_and_its_size_is_said_and_counted(
    environment, pip_calls, monkeypatch, capsys
):
    demanded = []
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(packages, "has_gpu", lambda: True)
    monkeypatch.setattr(packages, "require_space", lambda place, gigabytes: demanded.append(gigabytes))
    monkeypatch.delenv(packages.INDEX_VARIABLE, raising=False)
    packages.install(environment, "course")
    assert pip_calls == [["-r", "requirements.txt"]]
    assert "3 GB to download, 8 GB of disk" in capsys.readouterr().out
    assert demanded == [3, 8]


def test_a_driver_of_a_gpu_is_noticed(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert packages.has_gpu()


class Index(http.server.SimpleHTTPRequestHandler):
    """The pages of a package index."""

    def log_message(self, *_):
        """Log nothing."""


@pytest.fixture
def index(tmp_path, monkeypatch):
    """The folder and the address of an index of packages; pip knows no other, unless a test says so."""
    folder = tmp_path / "index" / "torch"
    folder.mkdir(parents=True)
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", packages.INDEX_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    handler = functools.partial(Index, directory=os.fspath(folder.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def new_environment(tmp_path_factory):
    """A virtual environment to copy: to put pip into one takes longer than a test."""
    folder = tmp_path_factory.mktemp("new") / ".venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder


@pytest.fixture
def real_environment(environment, new_environment, tmp_path, monkeypatch):
    """A real virtual environment, in which torch alone is required."""
    shutil.rmtree(tmp_path / ".venv")
    shutil.copytree(new_environment, tmp_path / ".venv", symlinks=True)
    (tmp_path / "requirements.txt").write_text("torch==2.13.0\n")
    monkeypatch.setattr("sys.platform", "linux")
    return Environment(tmp_path / ".venv", tmp_path / ".venv" / "bin" / "python")


def installed_torch(environment):
    [metadata] = environment.folder.glob("lib/*/site-packages/torch-*.dist-info")
    return metadata.name


@pytest.mark.slow
def test_a_configured_index_that_has_the_cpu_build_gives_it(real_environment, index, monkeypatch, capsys):
    folder, address = index
    for version in ("2.13.0", "2.13.0+cpu"):
        make_torch(folder, version)
    monkeypatch.setenv("PIP_INDEX_URL", address)
    packages.install(real_environment, "course")
    assert installed_torch(real_environment) == "torch-2.13.0+cpu.dist-info"
    assert "CUDA" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_second_index_gives_the_cpu_build_that_the_configured_mirror_lacks(
    real_environment, index, monkeypatch, capsys
):
    folder, address = index
    make_torch(folder, "2.13.0")
    second = folder.parent / "second" / "torch"
    second.mkdir(parents=True)
    make_torch(second, "2.13.0+cpu")
    settings = folder.parent / "pip.conf"
    settings.write_text(f"[global]\nindex-url = {address}\nextra-index-url = {address}/second\n")
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    packages.install(real_environment, "course")
    assert installed_torch(real_environment) == "torch-2.13.0+cpu.dist-info"
    assert "CUDA" not in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("gpu", [False, pytest.param(True, marks=pytest.mark.release)])
def test_a_variable_that_names_a_mirror_without_cpu_builds_brings_no_cuda_unannounced(
    real_environment, index, monkeypatch, capsys, gpu
):
    folder, address = index
    make_torch(folder, "2.13.0")
    monkeypatch.setenv("PIP_INDEX_URL", address)
    monkeypatch.setenv(packages.INDEX_VARIABLE, address)
    monkeypatch.setattr(packages, "has_gpu", lambda: gpu)
    demanded = []
    monkeypatch.setattr(packages, "require_space", lambda place, gigabytes: demanded.append(gigabytes))
    packages.install(real_environment, "course")
    printed = capsys.readouterr().out
    assert f"{address}, which {packages.INDEX_VARIABLE} names, has no CPU build" in printed
    assert "3 GB to download" in printed
    assert demanded == [3, 8]


@pytest.mark.slow
def test_the_size_of_cuda_is_said_and_counted_before_it_comes(real_environment, index, monkeypatch, capsys):
    folder, address = index
    make_torch(folder, "2.13.0")
    monkeypatch.setenv("PIP_INDEX_URL", address)
    demanded = []
    monkeypatch.setattr(packages, "require_space", lambda place, gigabytes: demanded.append(gigabytes))
    packages.install(real_environment, "course")
    assert installed_torch(real_environment) == "torch-2.13.0.dist-info"
    printed = capsys.readouterr().out
    assert "3 GB to download, 8 GB of disk" in printed
    assert packages.INDEX_VARIABLE in printed
    assert demanded == [3, 8]


@pytest.mark.slow
@pytest.mark.parametrize("gpu", [False, pytest.param(True, marks=pytest.mark.release)])
def test_a_page_of_links_to_cpu_builds_is_used_where_the_variable_names_it(
    real_environment, index, monkeypatch, capsys, gpu
):
    folder, address = index
    make_torch(folder, "2.13.0")
    (folder.parent / "cpu").mkdir()
    make_torch(folder.parent / "cpu", "2.13.0+cpu")
    monkeypatch.setenv("PIP_INDEX_URL", address)
    monkeypatch.setenv(packages.INDEX_VARIABLE, f"{address}/cpu/")
    monkeypatch.setattr(packages, "has_gpu", lambda: gpu)
    packages.install(real_environment, "course")
    assert installed_torch(real_environment) == "torch-2.13.0+cpu.dist-info"
    assert "CUDA" not in capsys.readouterr().out


def test_a_folder_of_wheels_is_installed_from_without_an_index(environment, pip_calls, tmp_path):
    (tmp_path / "wheelhouse").mkdir()
    packages.install(environment, "course")
    (tmp_path / "wheelhouse" / "a-1-py3-none-any.whl").write_text("")
    (tmp_path / "requirements.txt").write_text("torch==2.13.0\na==1\n")
    assert packages.install(environment, "course") == "installed from the folder wheelhouse"
    assert pip_calls[0] == ["-r", "requirements.txt"], "an empty folder is none"
    assert pip_calls[1][:3] == ["--no-index", "--find-links", str(tmp_path / "wheelhouse")]


@pytest.mark.slow
@pytest.mark.parametrize("source", ["wheelhouse", "links", "index"])
def test_every_package_is_counted_wherever_its_wheel_comes_from(
    real_environment, index, tmp_path, monkeypatch, source
):
    folder, address = index
    names = ("torch", "aa", "bb_b")
    (tmp_path / "wheelhouse").mkdir()
    for name in names:
        place = tmp_path / "wheelhouse"
        if source != "wheelhouse":
            place = folder.parent / (name.replace("_", "-") if source == "index" else "links")
        place.mkdir(exist_ok=True)
        make_torch(place, "2.13.0", name)
    if source == "index":
        monkeypatch.setenv("PIP_INDEX_URL", address)
    else:
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(folder.parent / "links"))
    pins = [f"{name}==2.13.0  # via others" for name in names] + ["cc==1 ; sys_platform == 'other'"]
    (tmp_path / "requirements.txt").write_text("\n".join(pins))
    monkeypatch.setattr("sys.platform", "darwin")
    shown = []
    monkeypatch.setattr(packages, "show", shown.append)
    packages.install(real_environment, "course")
    counted = [line.split(" packages, ") for line in shown if " packages, " in line]
    assert {name for _, name in counted} == {"cc", "torch", "aa", "bb-b"}
    assert counted[-1][0].strip() == "4 of 4"


def test_a_full_disk_is_said_before_anything_is_installed(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda place: type("Usage", (), {"free": 1_000_000_000}))
    with pytest.raises(Stop) as stop:
        packages.require_space(tmp_path, 3)
    assert stop.value.why == "The install needs about 3 GB there, and 1.0 GB are free."


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "The disk is full."),
        ("ERROR: No matching distribution found for torch==2.13.0", "no such package"),
        ("ERROR: something new", "pip failed."),
    ],
)
def test_a_failed_install_is_told_in_three_lines_with_pips_error(output, reason):
    stop = packages.failure(f"Collecting a\n{output}\n", Path("the.log"))
    assert reason in stop.why
    assert output in stop.why
    assert "run this again: it goes on where it stopped. Log: the.log" in stop.then
    assert len(str(stop).splitlines()) == 3


def test_no_network_is_told_in_three_lines_by_the_real_pip(tmp_path, monkeypatch):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{nobody.getsockname()[1]}/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    here = Environment(tmp_path, Path(sys.executable), managed=False)
    code, output = packages._pip(here, ["--dry-run", "onnxlab-nothing==1"], tmp_path / "log")
    assert code
    stop = packages.failure(output, tmp_path / "log")
    assert stop.why.startswith("The package index did not answer.")
    assert len(str(stop).splitlines()) == 3
