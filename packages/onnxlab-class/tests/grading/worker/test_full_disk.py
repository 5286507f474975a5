"""A small folder for temporary files: submissions that fill it hold up nobody else."""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from class_support.small_class import FULL, Learner, hand_in, marks
from onnxlab_class.grading.results import Ledger, facts
from onnxlab_class.grading.run import grade
from onnxlab_class.grading.submissions import find
from onnxlab_class.sandbox.entry import Level, available
from onnxlab_class.sandbox.watcher import Limits

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")]
SPARSE = """
import os
for name in ("to-global-indices", "max-unpool-symbolic", "export-autoencoder"):
    os.makedirs(name, exist_ok=True)
    for number in range(24):
        with open(f"{name}/a{number:02}.npy", "wb") as file: file.truncate(16 << 20)
"""
IN_FLIGHT = """
import os
while True:
    files = []
    try:
        for _ in range(40):
            files.append(open("f", "wb"))
            os.unlink("f")
            for _ in range(60): files[-1].write(bytes(1 << 20))
    except OSError:
        pass
"""


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of one gigabyte for temporary files."""
    folder = Path(tempfile.mkdtemp(prefix="onnxlab-small-", dir="/tmp"))
    command = ["mount", "-t", "tmpfs", "-o", "size=1g,mode=1777", "none", str(folder)]
    if os.geteuid() or subprocess.run(command, check=False, capture_output=True).returncode:
        folder.rmdir()
        pytest.skip("only root may mount")
    try:
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        monkeypatch.setenv("TMPDIR", str(folder))
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()


@pytest.mark.parametrize("level", [Level.FULL, pytest.param(Level.LANDLOCK, marks=pytest.mark.release)])
def test_what_fills_the_disk_holds_up_nobody_else(small: Path, tmp_path: Path, level: Level) -> None:
    if available()[level]:
        pytest.skip(available()[level])
    attackers = [Learner("eve", before=IN_FLIGHT), Learner("mallory", before=SPARSE)]
    honest = [Learner("right"), Learner("too")]
    most, ended = 0, threading.Event()

    def measure() -> None:
        nonlocal most
        while not ended.wait(0.005):
            place = os.statvfs(small)
            most = max(most, (place.f_blocks - place.f_bfree) * place.f_frsize >> 20)

    watching = threading.Thread(target=measure)
    watching.start()
    try:
        with Ledger(tmp_path / "out", facts("")) as ledger:
            intake = find(hand_in(tmp_path / "class", [*attackers, *honest]))
            grade(intake, ledger, level=level, limits=Limits(wall=30.0, cpu=30), jobs=2)
            points, failures = marks(ledger), ledger.failures
    finally:
        ended.set()
        watching.join()
    assert failures == {}
    assert [points[student.name] for student in honest] == [FULL, FULL]
    assert most < 900
