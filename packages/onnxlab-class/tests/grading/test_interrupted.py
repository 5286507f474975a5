"""Ctrl+C while a class is graded: the run stops at once, and its results stay."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from class_support.small_class import Learner, hand_in
from onnxlab_class.grading.results import Ledger, facts
from onnxlab_class.sandbox.watcher import descendants
from tests.support.ctrl_c import hear_ctrl_c

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the fork server needs Linux"),
]
SECONDS = 15.0  # two on a machine that does nothing else; the notebook would take minutes
# In the order of grading: "a" is done at once, "b" soon, "c" would take minutes.
CLASS = (
    Learner("a", 0, raw=b"no notebook"),
    Learner("b"),
    Learner("c", 0, before="import time\nimport signal\nsignal.alarm(0)\ntime.sleep(600)", quick=False),
    Learner("d0"),
    Learner("d1"),
)


def start(folder: Path, out: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "onnxlab.cli", "grade", str(folder), "--out", str(out), "--time", "120"]
    return subprocess.Popen(
        [*command, "--jobs", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl+C in a terminal reaches a process group
        preexec_fn=hear_ctrl_c,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )


# Where nothing is forked, as on macOS and Windows.
SPAWNED = """
import sys
from pathlib import Path
from onnxlab_class.sandbox.watcher import Limits
from onnxlab_class.grading.results import Ledger, facts
from onnxlab_class.grading.run import grade
from onnxlab_class.grading.submissions import find
from onnxlab_class.grading.worker.client import WorkerPool

class Announcing(WorkerPool):
    def run(self, task):
        print("begun", flush=True)
        return super().run(task)

with Ledger(Path(sys.argv[2]), facts("none"), 5) as ledger:
    try:
        grade(find(Path(sys.argv[1])), ledger, level=None, limits=Limits(wall=120), jobs=1, pool=Announcing())
    except KeyboardInterrupt:
        print(sorted({row.student for row in ledger.rows()}), ledger.failures, flush=True)
"""


def interrupt(process: "subprocess.Popen[str]") -> tuple[float, str, str]:
    """Press Ctrl+C; return the seconds until the end, and the output."""
    below = [process_id.id for process_id in descendants(process.pid)]
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=300)
    seconds = time.monotonic() - began
    until = time.monotonic() + 30
    while any(Path(f"/proc/{process_id}").exists() for process_id in below):
        assert time.monotonic() < until, "what it had started goes on"
        time.sleep(0.05)
    return seconds, out, err


def test_it_stops_at_once_and_keeps_what_is_graded(tmp_path):
    folder, out = hand_in(tmp_path / "class", CLASS), tmp_path / "out"
    process = start(folder, out)
    for line in process.stdout:
        if line.startswith("2 of"):
            break
    time.sleep(1)  # into the one that would take minutes
    seconds, _, err = interrupt(process)
    assert seconds < SECONDS
    assert process.returncode == 130
    assert err.split() == ["Stopped."]
    with Ledger(out, facts("full")) as ledger:  # what the next run goes on with
        assert {row.student for row in ledger.rows()} == {"a", "b"}
        assert ledger.failures == {}


def test_while_the_labs_are_loaded_too(tmp_path):
    process = start(hand_in(tmp_path / "class", CLASS), tmp_path / "out")
    for line in process.stdout:
        if "to grade" in line:
            break
    seconds, _, err = interrupt(process)
    assert seconds < SECONDS
    assert process.returncode == 130
    assert err.split() == ["Stopped."]


def test_where_nothing_is_forked_nobody_gets_a_mark_for_it(tmp_path):
    folder = hand_in(tmp_path / "class", CLASS)
    process = subprocess.Popen(
        [sys.executable, "-c", SPAWNED, folder, tmp_path / "out"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hear_ctrl_c,
    )
    assert process.stdout.readline() == "begun\n"
    seconds, out, _ = interrupt(process)
    assert out == "['a'] {}\n"
    assert seconds < SECONDS
