import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from importlib.metadata import version

import pytest
from websocket import create_connection

from starter.environment import ROOT
from tests.support.ctrl_c import hear_ctrl_c
from tests.support.jupyterlab import own_folders


def course(tmp_path, *options):
    own = {"ONNXLAB_ENVIRONMENT": "current", "PYTHONUNBUFFERED": "1"} | own_folders(tmp_path)
    return subprocess.Popen(
        [sys.executable, str(ROOT / "course.py"), f"--folder={tmp_path / 'work'}", *options],
        env=os.environ | own,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        preexec_fn=hear_ctrl_c,
    )


def answer(address):
    """Ask for a page; JupyterLab says its address a moment before it listens there."""
    until = time.monotonic() + 20
    while True:
        try:
            return urllib.request.urlopen(address, timeout=20).status
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.release)])
def test_the_server_says_where_it_is_and_ends_with_the_command(tmp_path, end):
    process = course(tmp_path, "--no-browser")
    address = ""
    for line in process.stdout:
        if "http://" in line:
            address = line.strip()
            break
    assert "/lab/tree/notebooks/00_start_here.ipynb?token=" in address
    assert answer(address) == 200
    assert (tmp_path / "work" / "notebooks" / "00_start_here.ipynb").exists()
    kernels = address.replace("/lab/tree/notebooks/00_start_here.ipynb", "/api/kernels")
    assert urllib.request.urlopen(kernels, data=b"{}", timeout=60).status == 201
    kernel = json.loads(urllib.request.urlopen(kernels, timeout=20).read())[0]
    channels = kernels.replace("http", "ws").replace("kernels", f"kernels/{kernel['id']}/channels")
    connection = create_connection(channels, timeout=60)
    connection.recv()  # the server asks a kernel that somebody listens to what it is, and passes the reply on
    connection.close()
    time.sleep(0.2)  # let it print its last lines
    process.send_signal(end)
    assert process.wait(30) == 0
    rest = process.stdout.read()
    assert not re.findall("Traceback|encryption|nbgrader", rest, re.IGNORECASE)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=5)


@pytest.mark.slow
def test_an_option_that_jupyterlab_refuses_is_said_and_ends_the_command(tmp_path):
    process = course(tmp_path, "--no-browser", "--nonsense-flag")
    printed, _ = process.communicate(timeout=120)
    assert process.returncode
    assert "--nonsense-flag" in printed
    assert "Traceback" not in printed


def test_a_port_in_use_ends_the_command_before_anything_else(tmp_path, used_port):
    process = course(tmp_path, "--no-browser", f"--port={used_port}")
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert len(printed.strip().splitlines()) == 3


def test_a_folder_that_cannot_be_written_ends_the_command_in_three_lines(tmp_path):
    (tmp_path / "work").write_text("a file")
    process = course(tmp_path, "--no-browser")
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert printed.splitlines()[-1].endswith("name another folder: python3 course.py --folder FOLDER")
    assert "Traceback" not in printed


@pytest.mark.slow
def test_with_a_token_of_the_users_own_the_address_is_said_too(tmp_path):
    process = course(tmp_path, "--no-browser", "--ServerApp.token=mine")
    watchdog = threading.Timer(120, process.terminate)
    watchdog.start()
    address = next((line for line in process.stdout if "http://" in line), "")
    watchdog.cancel()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert "/lab" in address


def test_the_version_is_the_courses():
    printed = subprocess.check_output([sys.executable, str(ROOT / "course.py"), "--version"], text=True)
    assert printed == f"ONNX Lab {version('onnxlab')}\n"
