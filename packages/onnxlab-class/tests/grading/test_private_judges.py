"""Private judges: they decide about points, no submission sees them, and their faults give nobody a mark."""

import contextlib
import json
import os
import re
import sqlite3
import sys
from pathlib import Path

import pytest

from class_support.small_class import FULL, REST, RIGHT, Learner, hand_in
from onnxlab import cli
from onnxlab.errors import OnnxLabError
from onnxlab.kit.exercise import exercise
from onnxlab_class.grading.private_judges import NONE, read_judges, with_titles
from onnxlab_class.grading.results import Ledger, facts
from onnxlab_class.grading.run import grade
from onnxlab_class.grading.submissions import find
from onnxlab_class.sandbox.watcher import Limits

MINE = """
from onnxlab.kit.exercise import Part
from onnxlab.kit.outcome import Wrong

SECRET = "UNHEARD-OF"


def nothing_idle(work, random):
    if any(node.op_type == "Identity" for node in work.model("one_channel").graph.node):
        raise Wrong("There is a node that does nothing.", "Can it do without?")


PARTS = {"max-unpool-symbolic": [Part("no node is idle", nothing_idle)]}
"""
BROKEN = MINE.replace("if any", "1 / 0\n    if any")
LIMITS = Limits(wall=120.0, cpu=60, memory=700)
linux = pytest.mark.skipif(sys.platform != "linux", reason="the fork server needs Linux")
DIRECT = Learner("direct")
ROUNDABOUT = Learner("roundabout", REST, body=f"{RIGHT[:7]}g.op('Identity', {RIGHT[7:]})")
# Searches all memory of its process for two texts: one that it has itself, and one of the judges.
SEARCH = """
import re
here = "".join(["RATHER", "-LIKELY"])
found = set()
with open("/proc/self/mem", "rb") as memory:
    for line in open("/proc/self/maps"):
        first, last = (int(each, 16) for each in line.split()[0].split("-"))
        if line.split()[1].startswith("rw"):
            try:
                memory.seek(first)
                found |= set(re.findall(rb"UNHEARD[-]OF|RATHER[-]LIKELY", memory.read(last - first)))
            except (OSError, ValueError):
                pass
raise RuntimeError(f"searched: {sorted(found)}")
"""


def written(folder, text):
    path = folder / "judges.py"
    path.write_text(text)
    return path


def rows(out, query: str) -> list[tuple]:
    with contextlib.closing(sqlite3.connect(out / "results.sqlite")) as base:
        return base.execute(query).fetchall()


def points(out) -> dict[str, int]:
    return dict(rows(out, "SELECT CAST(student AS TEXT), sum(points) FROM result GROUP BY student"))


def test_a_part_is_added_and_the_course_s_own_are_asked_the_same(tmp_path):
    mine = read_judges(written(tmp_path, MINE))
    _, own = exercise("max-unpool-symbolic")
    (with_mine,) = with_titles([own], mine)
    assert with_mine.parts == (*own.parts, "no node is idle")
    assert mine.digest != NONE.digest
    assert "UNHEARD" not in repr(mine)


def test_the_guides_example_can_be_used(tmp_path):
    guide = (Path(__file__).parents[2] / "docs" / "instructor.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    judges = read_judges(written(tmp_path, example))
    assert judges.titles == {"asinh-symbolic": ("one node is enough", "right for a large picture")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no dictionary PARTS"),
        ("PARTS = {}", "no dictionary PARTS"),
        ("PARTS = {'asinh-symbolic': [len]}", "not a list of Part"),
        ("PARTS = {'asinh-simbolic': []}", "Did you mean 'asinh-symbolic'"),
        ("def f(:", "line 1: SyntaxError"),
        ("x = 1\nimport nowhere_at_all", "line 2: ModuleNotFoundError"),
        ("#" * 200_001, "more than 200 kB"),
    ],
)
def test_a_file_that_will_not_do_is_said_in_three_lines(tmp_path, text, message):
    with pytest.raises(OnnxLabError, match=message) as raised:
        read_judges(written(tmp_path, text))
    assert len(str(raised.value).splitlines()) <= 3


def test_a_file_that_is_not_there_stops_a_run_before_it_begins(tmp_path, capsys):
    folder = hand_in(tmp_path / "class", [DIRECT])
    arguments = ["grade", str(folder), "--out", str(tmp_path / "out"), "--judges", str(tmp_path / "none.py")]
    assert cli.main(arguments) == 2
    assert "none.py cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@linux
@pytest.mark.slow
@pytest.mark.usefixtures("shared")
def test_a_private_part_decides_and_nothing_of_it_is_shown_but_its_title(tmp_path, capsys):
    folder, out = hand_in(tmp_path / "class", [DIRECT, ROUNDABOUT]), tmp_path / "out"
    arguments = ["grade", str(folder), "--out", str(out), "--jobs", "1", "--time", "120"]
    assert cli.main([*arguments, "--judges", str(written(tmp_path, MINE))]) == 0
    assert points(out) == {DIRECT.name: FULL, ROUNDABOUT.name: REST}
    outcomes = [json.loads(text) for (text,) in rows(out, "SELECT outcome FROM result")]
    failed = [
        finding["message"] for outcome in outcomes for finding in outcome["findings"] if not finding["holds"]
    ]
    assert failed == ["There is a node that does nothing."]
    texts = [path.read_text("utf-8", "replace") for path in out.rglob("*") if path.is_file()]
    assert any("no node is idle" in text for text in texts)
    assert not any("UNHEARD" in text or "def nothing_idle" in text for text in texts)
    capsys.readouterr()
    assert cli.main(arguments) == 0  # without --judges, there is a note
    assert "Earlier rows were graded with judges" in capsys.readouterr().out


@linux
@pytest.mark.slow
def test_a_submission_that_searches_its_memory_does_not_find_the_judges(tmp_path, pool):
    folder = hand_in(tmp_path / "class", [Learner("curious", before=SEARCH)])
    mine = read_judges(written(tmp_path, MINE))
    with Ledger(tmp_path / "out", facts("")) as ledger:
        # In a sandbox it could not read its memory at all.
        grade(find(folder), ledger, level=None, limits=LIMITS, jobs=1, judges=mine, pool=pool)
        note = next(ledger.rows()).submission_note
        # Only root's may open its memory at all.
        assert "searched: [b'RATHER-LIKELY']" in note or (os.geteuid() and "PermissionError" in note), note
    assert points(tmp_path / "out") == {"curious": FULL}


@linux
@pytest.mark.slow
@pytest.mark.usefixtures("shared")
def test_a_fault_in_a_judge_is_reported_with_its_line_and_gives_no_mark(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("onnxlab_class.grading.run.ATTEMPTS", 1)  # each further attempt starts a fork server
    folder, out = hand_in(tmp_path / "class", [DIRECT]), tmp_path / "out"
    judges = written(tmp_path, BROKEN)
    command = ["grade", str(folder), "--out", str(out), "--judges", str(judges), "--time", "120"]
    assert cli.main(command) == 1
    error = capsys.readouterr().err
    line = BROKEN.splitlines().index("    1 / 0") + 1
    assert f"max-unpool-symbolic failed: 'no node is idle': line {line}: ZeroDivisionError" in error
    judges.write_text(MINE)  # corrected: the same command goes on
    assert cli.main(command) == 0
    assert points(out) == {DIRECT.name: FULL}
