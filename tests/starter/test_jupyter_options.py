import sys
from pathlib import Path

import pytest
from starter.console import Stop
from starter.environment import Environment

from starter import jupyter, jupyter_options

HERE = Environment(Path(sys.prefix), Path(sys.executable), ours=False)


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
    assert jupyter_options.port_asked_for(options) == port


def test_a_port_in_use_is_said(taken):
    with pytest.raises(Stop, match=f"Port {taken} cannot be used"):
        jupyter_options.require_free(taken)


def test_what_is_no_port_is_said():
    with pytest.raises(Stop, match="70000 is not a port"):
        jupyter_options.require_free(70000)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--port"], "--port has no value"),
        (["--port", "--no-browser"], "--port has no value"),
        (["--port", "abc"], "'abc' is not a port"),
        (["--ServerApp.port=9000.5"], "'9000.5' is not a port"),
        (["--port="], "'' is not a port"),
        (["--port=-1"], "-1 is not a port"),
        (["--ip"], "--ip has no value"),
        (["--ip", "300.1.1.1"], "cannot listen at '300.1.1.1'"),
        (["--ip=.."], "cannot listen at '..'"),
        (["--ip=192.0.2.1"], "cannot listen at '192.0.2.1'"),  # kept for documentation: no machine has it
    ],
)
def test_what_cannot_be_a_port_or_an_address_is_said_in_three_lines(options, said):
    with pytest.raises(Stop, match=said) as stop:
        jupyter_options.require_suitable(options)
    assert len(str(stop.value).splitlines()) == 3


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "0.0.0.0", "*", ""])
def test_an_address_of_this_machine_will_do(address):
    jupyter_options.require_suitable([f"--ip={address}"])


def test_a_port_in_use_at_an_address_is_said(taken):
    with pytest.raises(Stop, match=f"Port {taken} cannot be used"):
        jupyter_options.require_suitable(["--ip=127.0.0.1", f"--port={taken}"])
