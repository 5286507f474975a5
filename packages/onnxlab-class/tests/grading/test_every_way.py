"""The hostile class outside `onnxlab grade`: in a learner's own check."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from class_support.adversaries import ADVERSARIES, HONEST
from class_support.small_class import FULL, LAB, Learner
from onnxlab.course import lab_check
from onnxlab.kit.exercise import lab

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the fork server needs Linux"),
]
# `onnxlab check` runs a learner's notebook as the learner, as JupyterLab does. Without a sandbox and its
# limits these would use up the machine that runs the tests, or end its processes.
NEEDS_A_SANDBOX = {
    "takes all memory",
    "fills the disk",
    "prints without end",
    "leaves a daemon behind",
    "does not listen",
    "blocks every signal",
    "a cell that never ends",
    "reads the memory of processes for the key",
}
# Outcomes that a notebook writes itself, in place of those of its check.
_OUTCOME = {"exercise": "max-unpool-symbolic", "status": "passed", "points": 2, "possible": 2, "findings": []}
OUTCOMES = [
    *(b"", b"nothing", b"[]", b"3", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"exercise": []}'),
    *(
        json.dumps(_OUTCOME | {key: value}).encode()
        for key, values in {
            "exercise": (3, [], None),
            "status": ("perfect", 3, []),
            "findings": (3, "text", [3], [{}], [{"title": 3, "holds": "yes", "difference": 3}]),
            "message": (3, [], {"a": 1}),
            "seconds": ("long", None),
            "case": ({}, {"x": 1}, 3),
            "points": ("many", None, [], 99, -1),
        }.items()
        for value in values
    ),
]


def checked(folder: Path, eve: Learner) -> str:
    """What `onnxlab check` prints of a submission."""
    (folder / f"{LAB}.ipynb").write_bytes(data := eve.notebook())
    command = [sys.executable, "-m", "onnxlab.cli", "check", f"{LAB}.ipynb"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=400)
    assert done.returncode in (0, 1, 2), done.stderr  # 2: it is no notebook
    assert "Traceback" not in done.stderr, done.stderr
    assert (folder / f"{LAB}.ipynb").read_bytes() == data
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "eve",
    [
        pytest.param(eve, id=eve.name, marks=[pytest.mark.release] * (eve.name != "forges the results"))
        for eve in ADVERSARIES
        if eve.name not in NEEDS_A_SANDBOX
    ],
)
def test_a_check_ends_with_a_report_whatever_the_notebook_does(eve, tmp_path, monkeypatch):
    monkeypatch.setenv("ONNXLAB_STATE", str(tmp_path / "progress.json"))
    printed = checked(tmp_path, eve)
    if eve.raw is not None and not eve.points and "is not a Jupyter notebook" in printed:
        return
    (have,) = re.findall(rf"(\d+) of {FULL} points", printed)
    if eve in HONEST:  # others may fool themselves: the notebook's own process checks
        assert int(have) == eve.points


def test_outcomes_that_a_notebook_writes_itself_are_a_report_and_no_traceback(tmp_path, monkeypatch):
    monkeypatch.setattr(lab_check.progress, "record", lambda outcome: None)
    data = iter(OUTCOMES)

    def write(notebook: object, path: Path, call: str, folder: str) -> tuple[str, list[object]]:
        (Path(folder) / "outcomes.jsonl").write_bytes(content := next(data))
        return f"{content[:40]!r}", []

    (tmp_path / f"{LAB}.ipynb").write_bytes(HONEST[0].notebook())
    monkeypatch.setattr(lab_check, "_run", write)
    for content in OUTCOMES:
        outcomes = lab_check.check_notebook(tmp_path / f"{LAB}.ipynb")
        assert len(outcomes) == len(lab(LAB).exercises), content
        assert all(0 <= outcome.points <= outcome.possible for outcome in outcomes), content
