import sys
from pathlib import Path

import pytest

from starter import jupyter
from starter.console import Stop
from starter.environment import Environment

HERE = Environment(Path(sys.prefix), Path(sys.executable), ours=False)


def test_options_go_to_jupyterlab_as_they_are():
    command = jupyter.command(HERE, ["--no-browser", "--ServerApp.base_url=/x/"])
    assert command[-2:] == ["--no-browser", "--ServerApp.base_url=/x/"]


@pytest.mark.parametrize("option", ["--ServerApp.root_dir=/x", "--notebook-dir=/x", "--LabApp.root_dir=/x"])
def test_what_a_person_says_is_not_said_a_second_time(option):
    command = jupyter.command(HERE, [option])
    assert not any("root_dir" in part for part in command if part != option)
    assert any("news_url=None" in part for part in command)


def test_a_port_that_was_asked_for_is_the_one_or_none():
    assert "--ServerApp.port_retries=0" in jupyter.command(HERE, ["--port=9000"])
    assert "--ServerApp.port_retries=0" not in jupyter.command(HERE, ["--ServerApp.port_retries=3"])


@pytest.mark.parametrize("option", [["--port={}"], ["--port", "{}", "--no-browser"], ["--ServerApp.port={}"]])
@pytest.mark.parametrize("address", [[], ["--ip=127.0.0.1"], ["--ip", "localhost"]])
def test_a_port_in_use_is_said_in_three_lines(taken, option, address):
    with pytest.raises(Stop, match=f"Port {taken} cannot be used") as stop:
        jupyter.require_free_port([*(part.format(taken) for part in option), *address])
    assert len(str(stop.value).splitlines()) == 3


@pytest.mark.parametrize("port", ["70000", "0", "abc", "9000.5", "-1"])
def test_what_is_no_port_is_said_in_three_lines(port):
    with pytest.raises(Stop, match="is not a port") as stop:
        jupyter.require_free_port([f"--port={port}"])
    assert len(str(stop.value).splitlines()) == 3


@pytest.mark.parametrize("options", [[], ["--no-browser"], ["--ServerApp.port_retries=3"], ["--ip=0.0.0.0"]])
def test_without_a_port_there_is_nothing_to_find_out(options):
    jupyter.require_free_port(options)
