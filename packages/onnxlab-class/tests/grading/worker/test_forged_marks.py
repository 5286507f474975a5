"""No mark can be forged: what a submission writes is never read as a judge's word."""

import itertools
import sys
from dataclasses import replace

import pytest

from class_support.forgers import FORGERS, files_of, hand_in_forgers, hand_in_records
from class_support.small_class import FULL, LAB, Learner, hand_in
from onnxlab import cli
from onnxlab.kit.exercise import LABS, lab
from onnxlab_class.grading import marking
from onnxlab_class.grading.results import Ledger, facts
from onnxlab_class.grading.run import grade
from onnxlab_class.grading.submissions import find
from onnxlab_class.sandbox.entry import strongest
from onnxlab_class.sandbox.watcher import Limits

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the fork server needs Linux"),
]
HONEST = Learner("honest")
_PRETEND = """
import json, os, pathlib
for exercise in ("to-global-indices", "max-unpool-symbolic"):
    pathlib.Path(exercise).mkdir()
    record = {{"status": {status!r}, "message": {message!r}}}
    pathlib.Path(exercise, "production.json").write_text(json.dumps(record))
os._exit(0)
"""
_EMPTY_NODES = """
import json, onnx, os, pathlib
(place := pathlib.Path("max-unpool-symbolic")).mkdir()
model = onnx.ModelProto(ir_version=8, graph=onnx.GraphProto())
data = model.SerializeToString()[:-1] + bytes([0x80, 0xEA, 0x30]) + bytes([10, 0]) * 400_000
for name in ("one_channel", "odd_height", "many_channels", "few_channels", "odd", "odd_width"):
    (place / f"{name}.onnx").write_bytes(data)
(place / "production.json").write_text(json.dumps({"status": None}))
os._exit(0)
"""
PRETENDERS = [
    Learner(f"pretends {number}", 0, before=_PRETEND.format(status=status, message=f"{message} (x)."))
    for number, (status, message) in enumerate(
        itertools.product(("incorrect", "error"), (marking.STUMBLE_MESSAGE, marking.CRASH_MESSAGE))
    )
]


def test_no_forger_has_a_point_and_the_honest_have_theirs(tmp_path, pool, monkeypatch, pytestconfig):
    monkeypatch.setattr(marking, "JUDGE_SECONDS", 4)
    forgers = FORGERS if pytestconfig.getoption("--all") else [eve for eve in FORGERS if eve.lab == LAB][:2]
    folder = hand_in_forgers(hand_in(tmp_path / "class", [HONEST]), forgers)
    with Ledger(tmp_path / "out", facts("")) as ledger:
        grade(find(folder), ledger, level=strongest(), limits=Limits(wall=120.0, cpu=4), pool=pool)
        assert ledger.failures == {}
        rows = list(ledger.rows())
    points = {(row.student, row.exercise): row.points for row in rows if row.points}
    assert {student for student, _ in points} == {HONEST.name}
    assert sum(points.values()) == FULL
    forged = [row for row in rows if row.student != HONEST.name]
    everything = {exercise.id for forger in forgers for exercise in lab(forger.lab).exercises}
    assert {row.exercise for row in forged} == everything
    for row in forged:
        failed = [finding for finding in row.outcome["findings"] if not finding["holds"]]
        assert row.outcome["message"] or failed[0]["message"], row


def test_records_of_every_wrong_kind_are_a_mark_and_end_no_run(tmp_path, shared, capsys):
    folder, out = hand_in(tmp_path / "class", [HONEST]), tmp_path / "out"
    count = hand_in_records(folder)
    assert cli.main(["grade", str(folder), "--out", str(out)]) == 0
    assert f"{count + 1} submissions, {count + 1} students" in capsys.readouterr().out
    with Ledger(out, facts("")) as ledger:
        rows = list(ledger.rows())
    assert sum(row.points for row in rows) == FULL
    assert {row.student for row in rows if row.points} == {HONEST.name}
    assert len(list((out / "feedback").iterdir())) == count + 1


def test_every_file_of_a_right_answer_is_copied_for_its_judge(tmp_path, pytestconfig):
    names = LABS if pytestconfig.getoption("--all") else (LAB, "lab14_speed")  # files of every kind
    for exercise in (exercise for name in names for exercise in lab(name).exercises):
        (source := tmp_path / exercise.id).mkdir()
        for name, content in files_of(exercise.id).items():
            (source / name).write_bytes(content)
        marking._collect_files(source, tmp_path / f"{exercise.id} copied", 2**24)
        copied = {path.name for path in (tmp_path / f"{exercise.id} copied").iterdir()}
        assert copied == files_of(exercise.id).keys(), exercise.id


def test_no_submission_can_say_that_a_judge_failed(tmp_path, shared, capsys):
    folder = hand_in(tmp_path / "class", [HONEST, *PRETENDERS])
    assert cli.main(["grade", str(folder), "--out", str(tmp_path / "out")]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    assert not [line for line in output.out.splitlines() if line.startswith("pretends")]


def test_a_model_that_takes_all_memory_is_no_fault_of_its_judge(tmp_path, shared, capsys, monkeypatch):
    """Empty nodes: less than 1 MB in the file, hundreds once they are parsed."""
    monkeypatch.setattr(marking, "_judge_limits", lambda limits: replace(limits, memory=200))
    folder = hand_in(tmp_path / "class", [Learner("empty nodes", 0, before=_EMPTY_NODES)])
    assert cli.main(["grade", str(folder), "--out", str(tmp_path / "out")]) == 0
    assert f"max-unpool-symbolic: {marking.CRASH_MESSAGE} (it took more" in capsys.readouterr().out
