"""Grading without a fork server and without a sandbox, as on macOS and Windows; tested on any system."""

import pytest

from class_support.small_class import REST, WRONG, Learner, hand_in, marks
from onnxlab import cli
from onnxlab_class.grading.results import Ledger, facts
from onnxlab_class.grading.run import grade
from onnxlab_class.grading.submissions import find
from onnxlab_class.grading.worker import client
from onnxlab_class.grading.worker.client import ForkServerPool, WorkerPool, worker_pool
from onnxlab_class.sandbox import entry
from onnxlab_class.sandbox.watcher import Limits

pytestmark = pytest.mark.slow
INTERRUPT = """import os, signal
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGINT)"""
"""As Ctrl+C in the grader's terminal would, which gives no mark."""
CLASS = (
    Learner("one wrong", REST, body=WRONG),
    Learner("ends its process", 0, before="import os\nos._exit(0)"),
    Learner("interrupts its process", 0, before=INTERRUPT),
)


def test_a_notebook_that_never_ends_is_left(tmp_path):
    """It waits in native code, where no limit within Python can end it."""
    endless = "import torch, threading\nthreading.Lock().acquire() or None\nlock = threading.Lock()\n"
    endless += "lock.acquire()\nimport signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})\n"
    intake = find(hand_in(tmp_path / "class", [Learner("endless", 0, before=endless + "lock.acquire()")]))
    with Ledger(tmp_path / "out", facts("none"), 5) as ledger:
        grade(intake, ledger, level=None, limits=Limits(wall=2), pool=WorkerPool())
        assert {row.status for row in ledger.rows()} == {"timed out"}


def test_a_class_gets_the_same_marks_and_the_instructor_is_told_what_is_missing(
    tmp_path, monkeypatch, capsys
):
    hand_in(tmp_path / "class", CLASS)
    command = ["grade", str(tmp_path / "class"), "--out", str(tmp_path / "out")]
    monkeypatch.setattr(client, "can_fork", lambda: False)
    assert not isinstance(worker_pool(), ForkServerPool)
    entry.available.cache_clear()
    with monkeypatch.context() as macos:
        macos.setattr(entry.sys, "platform", "darwin")
        assert cli.main(command) == 2
    entry.available.cache_clear()
    refused = capsys.readouterr().err
    assert "WSL2" in refused
    assert "--isolation none" in refused
    assert len(refused.splitlines()) <= 3
    assert cli.main([*command, "--isolation", "none", "--time", "120"]) == 0
    output = capsys.readouterr().out
    assert "Nothing confines the notebooks" in output
    assert "WSL2" in output
    with Ledger(tmp_path / "out", facts("none")) as ledger:
        assert ledger.failures == {}
        assert marks(ledger) == {student.name: student.points for student in CLASS}
