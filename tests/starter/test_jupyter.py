import os
import signal
import subprocess
import sys
import time
import urllib.request

import psutil
import pytest
from starter.environment import ROOT


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--nonsense-flag"], "--nonsense-flag"),
        (["--certfile=/nowhere"], "/nowhere"),
    ],
)
def test_a_start_that_fails_is_told_in_three_lines(tmp_path, options, said):
    process = course(tmp_path, "--no-browser", *options)
    printed, _ = process.communicate(timeout=120)
    assert process.returncode
    step, *message = printed[printed.index("[4/4]") :].splitlines()
    assert step == "[4/4] JupyterLab"
    assert len(message) == 3
    assert said in message[1]
    assert "--help-all" in message[2]


DEAF = """
import sys
from pathlib import Path
from starter import jupyter, server_end
from starter.console import Progress
from starter.environment import Environment
server_end.PATIENCE = (1.0, 1.0)
with Progress() as progress:
    here = Environment(Path(sys.prefix), Path(sys.executable), ours=False)
    sys.exit(jupyter.serve(here, ["--no-browser"], progress))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows stops no process")
def test_a_server_that_hangs_is_ended_all_the_same():
    command = [sys.executable, "-u", "-c", DEAF]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if "Ctrl+C here" in line:
                break
        [server] = psutil.Process(process.pid).children()
        server.suspend()  # it hears nothing any more
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "it was ended by force" in printed
    assert not server.is_running()
