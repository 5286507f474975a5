import os
import sys
import time

import pytest

from starter import server_output

STAMP = "[W 2026-11-21 16:12:46.285 ServerApp]"
TAB = "referer=http://localhost:8931/lab/tree/notebooks/00_start_here.ipynb"
STALE = f"""\
{STAMP} Clearing invalid/expired login cookie username-localhost-8931
{STAMP} wrote error: 'Forbidden'
{STAMP} 403 GET /api/kernels?1795277566282 (@127.0.0.1) 0.88ms {TAB}
{STAMP} Couldn't authenticate WebSocket connection
{STAMP} 403 GET /x/api/events/subscribe (@::1) 25.51ms referer=None
{STAMP.replace("ServerApp", "LabApp")} 403 GET /lab/api/workspaces?1795277574604 (@127.0.0.1) 0.77ms {TAB}
"""


@pytest.fixture
def pipe():
    """What a server writes to, and what is read from it."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "wb", 0) as writer:
        yield reader, writer


def test_all_is_held_back_until_it_is_released(pipe, capsys):
    output = server_output.ServerOutput(pipe[0])
    pipe[1].write(b"early\n")
    while not output.held:
        time.sleep(0.01)
    assert capsys.readouterr().err == ""
    output.release()
    pipe[1].write("späte\r\nend".encode())
    pipe[1].close()
    output.finish()
    assert capsys.readouterr().err == "early\nspäte\nend\n"


def test_all_is_passed_on_at_once_to_who_asked_for_it(pipe, capsys):
    output = server_output.ServerOutput(pipe[0], everything=True)
    pipe[1].write(STALE.encode())
    pipe[1].close()
    output.finish()
    assert capsys.readouterr().err == STALE
    assert output.held == ""


def test_a_tab_of_an_earlier_start_is_told_of_once(pipe, capsys):
    other = [
        f"{STAMP} 404 GET /api/kernels/1 (@127.0.0.1) 0.88ms {TAB}",
        f"{STAMP} 403 POST /api/kernels (@127.0.0.1) 0.88ms {TAB}",
        f"{STAMP} 403 GET /api/kernels?1 (@192.0.2.7) 0.88ms {TAB}",
        f"{STAMP} 403 GET /files/secret (@127.0.0.1) 0.88ms {TAB}",
    ]
    output = server_output.ServerOutput(pipe[0])
    output.release()
    pipe[1].write((STALE + STALE + "\n".join(other)).encode())
    pipe[1].close()
    output.finish()
    first, *rest = capsys.readouterr().err.splitlines()
    assert "tab of an earlier start" in first
    assert rest == other


NOT_THEIRS = """\
[W 2026-11-21 17:54:45.227 ServerApp] No nbgrader_config.py file found (rerun with --debug)
[NbGrader | WARNING] No nbgrader_config.py file found (rerun with --debug)
[W 2026-11-21 17:54:48.975 ServerApp] Notebook notebooks/02_trace_and_script.ipynb is not trusted
[IPKernelApp] WARNING | Kernel is running over TCP without encryption. All communication is sent in plain text
[W 2026-11-21 17:54:50.039 ServerApp] The websocket_ping_timeout (90000) cannot be longer than 30000.
    Setting websocket_ping_timeout=30000
"""


@pytest.mark.parametrize("everything", [False, True])
def test_warnings_about_nothing_that_a_learner_did_are_left_out(pipe, capsys, everything):
    output = server_output.ServerOutput(pipe[0], everything=everything)
    output.release()
    other = "[W 2026-11-21 17:54:50.039 ServerApp] Notebook x.ipynb is not valid"
    pipe[1].write((NOT_THEIRS + other + "\n").encode())
    pipe[1].close()
    output.finish()
    said = capsys.readouterr().err.splitlines()
    assert said == ([*NOT_THEIRS.splitlines(), other] if everything else [other])


def test_a_closed_terminal_does_not_keep_the_server_waiting(pipe, monkeypatch):
    class Gone:
        def write(self, text):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stderr", Gone())
    output = server_output.ServerOutput(pipe[0])
    output.release()
    pipe[1].write(b"line\n" * 100_000)  # more than a pipe holds: somebody has to read
    pipe[1].close()
    output.finish()
    assert pipe[0].closed


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("", ""),
        ("[W 2026-11-21 16:12:46.285 ServerApp] a\n[C 2026-11-21 16:12:46.285 ServerApp] Bad\nlast", "Bad"),
        ("[C 2026-11-21 16:12:46.285 ServerApp] \n    indented\nlast", "last"),
        ("[E 2026-11-21 16:12:46.285 LabApp] first\n[E 2026-11-21 16:12:46.285 LabApp] second\n", "first"),
        (
            'Traceback (most recent call last):\n  File "x"\nValueError: certfile "/x" is not there',
            "ValueError: c",
        ),
        ("x" * 1000, "x" * 199 + "…"),
    ],
)
def test_what_a_server_says_is_told_in_one_line(written, told):
    assert server_output.essence(written).startswith(told)
    assert len(server_output.essence(written)) <= 200
    assert bool(server_output.essence(written)) == bool(told)
