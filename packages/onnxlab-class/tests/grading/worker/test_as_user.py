"""`onnxlab grade` as an ordinary user: the same marks, and no access to the grader's processes."""

import csv
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from class_support.small_class import CLASS, RIGHT, WRONG, Learner, hand_in

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="users and /proc are Linux's"),
]
ORDINARY = Path(__file__).with_name("as_ordinary_user.py")
NOBODY = 65534
_REACH = """
import ctypes, os
seen, REACHED = 0, []
for name in filter(str.isdigit, os.listdir("/proc")):
    try:
        command = open(f"/proc/{name}/cmdline", "rb").read()
        own = b"Uid:\\t%d" % os.getuid() in open(f"/proc/{name}/status", "rb").read()
    except OSError:
        continue
    if int(name) == os.getpid() or not own or b"onnxlab" not in command:
        continue
    seen += 1
    for what in ("mem", "environ"):
        try:
            open(f"/proc/{name}/{what}", "r+b" if what == "mem" else "rb").read(0)
            REACHED.append(name)
        except OSError:
            pass
    if ctypes.CDLL(None).ptrace(0x4206, int(name), None, None) == 0:
        REACHED.append(name)
if seen < 2:
    REACHED.append("the grader was not seen, so nothing was tried")
"""
CURIOUS = Learner("curious", before=_REACH, body=f"if REACHED: {WRONG}\n    {RIGHT}")


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="onnxlab-as-user-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def graded(folder: Path, home: Path, *options: str) -> dict[str, int]:
    """Grade as an ordinary user; return each student's points."""
    home.mkdir()
    out = home / "out"
    command = [sys.executable, "-m", "onnxlab.cli", "grade", str(folder), "--out", str(out), "--time", "120"]
    command += options
    if os.geteuid() == 0:
        os.chown(home, NOBODY, NOBODY)
        command = [sys.executable, str(ORDINARY), str(NOBODY), str(home), *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(home.iterdir()) == [out]
    with (out / "grades.csv").open(newline="", encoding="utf-8-sig") as file:
        return {row["student"]: int(row["total"]) for row in csv.DictReader(file)}


def test_the_same_marks(shared_folder: Path) -> None:
    points = graded(hand_in(shared_folder / "class", CLASS[:3]), shared_folder / "home")
    assert points == {student.name: student.points for student in CLASS[:3]}


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="an ordinary user's other tests are in reach"
)
def test_even_unconfined_the_graders_memory_is_out_of_reach(shared_folder: Path) -> None:
    """Where the submission is the grader's own user and sees its processes."""
    points = graded(
        hand_in(shared_folder / "class", (CURIOUS,)), shared_folder / "home", "--isolation", "none"
    )
    assert points == {CURIOUS.name: CURIOUS.points}
