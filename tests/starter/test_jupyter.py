import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from starter.console import Stop
from starter.environment import ROOT, Environment

from starter import jupyter

HERE = Environment(Path(sys.prefix), Path(sys.executable), ours=False)


@pytest.fixture
def taken():
    """A port that somebody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_options_go_to_jupyterlab_as_they_are():
    command = jupyter.command(HERE, ["--no-browser", "--ServerApp.base_url=/x/"])
    assert command[-2:] == ["--no-browser", "--ServerApp.base_url=/x/"]


@pytest.mark.parametrize("option", ["--ServerApp.root_dir=/x", "--notebook-dir=/x", "--LabApp.root_dir=/x"])
def test_what_a_person_says_is_not_said_a_second_time(option):
    command = jupyter.command(HERE, [option])
    assert not any("root_dir" in part for part in command if part != option)
    assert any("news_url=None" in part for part in command)


@pytest.mark.parametrize(
    ("options", "port"),
    [
        (["--port=9000"], 9000),
        (["--port", "9000", "--no-browser"], 9000),
        (["--ServerApp.port=9000"], 9000),
        (["--ServerApp.port_retries=3"], None),
        (["--no-browser"], None),
    ],
)
def test_the_port_a_person_asks_for(options, port):
    assert jupyter.port_asked_for(options) == port


def test_a_port_in_use_is_said(taken):
    with pytest.raises(Stop, match=f"Port {taken} cannot be used"):
        jupyter.require_free(taken)


def test_what_is_no_port_is_said():
    with pytest.raises(Stop, match="70000 is not a port"):
        jupyter.require_free(70000)


def course(tmp_path, *options):
    own = {"ONNXLAB_ENVIRONMENT": "current", "PYTHONUNBUFFERED": "1"}
    for name in (
        "JUPYTER_CONFIG_DIR",
        "JUPYTER_DATA_DIR",
        "JUPYTERLAB_WORKSPACES_DIR",
        "JUPYTERLAB_SETTINGS_DIR",
    ):
        own[name] = str(tmp_path / name.lower())
    return subprocess.Popen(
        [sys.executable, str(ROOT / "course.py"), *options],
        env=os.environ | own,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        # Where the tests themselves run in the background, Ctrl+C is ignored, and a child inherits that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_server_says_where_it_is_and_ends_with_the_command(tmp_path, end):
    process = course(tmp_path, "--no-browser")
    address = ""
    for line in process.stdout:
        if "http://" in line:
            address = line.strip()
            break
    assert "/lab/tree/notebooks/00_start_here.ipynb?token=" in address
    assert urllib.request.urlopen(address, timeout=20).status == 200
    time.sleep(0.2)  # let it print its last lines
    process.send_signal(end)
    assert process.wait(30) == 0
    assert "Traceback" not in process.stdout.read()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=5)


@pytest.mark.slow
def test_an_option_that_jupyterlab_refuses_ends_in_one_message(tmp_path):
    process = course(tmp_path, "--no-browser", "--ServerApp.max_body_size=large")
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "JupyterLab ended before it was ready" in printed
    assert "Traceback" not in printed


def test_a_port_in_use_ends_the_command_before_anything_else(tmp_path, taken):
    process = course(tmp_path, "--no-browser", f"--port={taken}")
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert len(printed.strip().splitlines()) == 3
