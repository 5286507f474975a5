"""Servers that are ended: real processes that take it, and one that does not."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from starter import server_end

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows asks nobody: it ends processes at once"
)

DEAF = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(other.pid, flush=True)
time.sleep(600)
"""


def started(code):
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)


def test_a_server_that_ends_when_asked_is_not_ended_by_force(capsys):
    with started("print(flush=True); import time; time.sleep(600)") as server:
        server.stdout.readline()
        server_end.end(server, [])
    assert server.returncode == -signal.SIGTERM
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("again", [False, True])
def test_a_server_that_does_not_end_is_ended_with_what_it_started(monkeypatch, capsys, again):
    monkeypatch.setattr(server_end, "PATIENCE", (600.0, 600.0) if again else (0.5, 0.5))
    with started(DEAF) as server:
        below = psutil.Process(int(server.stdout.readline()))
        asked = [signal.SIGINT]
        if again:  # a second Ctrl+C, while the server is waited for
            wait = server.poll
            monkeypatch.setattr(server, "poll", lambda: asked.append(signal.SIGINT) or wait())
        server_end.end(server, asked)
    assert server.returncode == -signal.SIGKILL
    assert "it was ended by force" in capsys.readouterr().out
    gone, _ = psutil.wait_procs([below], timeout=60)
    assert gone or below.status() == psutil.STATUS_ZOMBIE


def test_signals_are_noted_and_nothing_is_raised():
    before = signal.getsignal(signal.SIGTERM)
    with server_end.asked_to_end() as asked:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert set(asked) == {signal.SIGTERM}
    assert signal.getsignal(signal.SIGTERM) is before
