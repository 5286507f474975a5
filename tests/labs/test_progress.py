"""The progress file: kept over restarts, set aside when damaged, never in the way of a check."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from filelock import FileLock

from onnxlab.kit import progress
from onnxlab.kit.exercise import exercise
from onnxlab.kit.outcome import Finding, Outcome, Status
from onnxlab.kit.progress import Standing

_, ASINH = exercise("asinh-symbolic")


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    path = tmp_path / "deep" / "progress.json"
    monkeypatch.setenv("ONNXLAB_STATE", str(path))
    return path


def outcome(status: Status) -> Outcome:
    return Outcome(ASINH.id, status, ASINH.points if status is Status.PASSED else 0, ASINH.points)


def standing() -> Standing:
    return next(entry for entry in progress.standings()[0] if entry.exercise is ASINH)


def test_open_tried_passed_and_passed_for_good(file):
    assert standing().word == "open"
    progress.record(outcome(Status.NOT_ATTEMPTED))
    assert not file.exists()
    progress.record(outcome(Status.INCORRECT))
    assert (standing().word, standing().points, standing().attempts) == ("tried", 0, 1)
    progress.record(outcome(Status.PASSED))
    progress.record(outcome(Status.ERROR))
    final = standing()
    assert (final.word, final.points, final.attempts, final.last) == ("passed", ASINH.points, 3, Status.ERROR)


def test_hints_come_one_after_the_other_and_the_last_stays(file):
    hints = [progress.next_hint(ASINH) for _ in range(4)]
    assert hints == [(1, ASINH.hints[0]), (2, ASINH.hints[1]), (3, ASINH.hints[2]), (3, ASINH.hints[2])]
    assert standing().hints == 3
    assert standing().word == "open"


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1, 2]", b'{"asinh-symbolic": 3}', b"\xff\xfe", b"[" * 100_000]
)
def test_damaged_file_is_set_aside_with_a_message(file, content):
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    standings, message = progress.standings()
    assert not any(entry.passed for entry in standings)
    assert "progress.damaged-1.json" in message
    assert (file.parent / "progress.damaged-1.json").read_bytes() == content
    assert progress.record(outcome(Status.PASSED)) == ""
    assert standing().passed


@pytest.mark.parametrize(
    "entry",
    [{}, {"attempts": "x", "last": 5, "passed": "yes", "hints": -1}, {"attempts": True, "hints": None}],
)
def test_odd_values_count_as_nothing(file, entry):
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"asinh-symbolic": entry, "of another version": {}}))
    odd = standing()
    assert (odd.word, odd.attempts, odd.last, odd.hints) == ("open", 0, None, 0)


def test_a_place_that_cannot_be_written_is_said_and_survived(tmp_path, monkeypatch):
    blocker = tmp_path / "file"
    blocker.write_text("")
    monkeypatch.setenv("ONNXLAB_STATE", str(blocker / "progress.json"))
    assert "Progress is not kept" in progress.record(outcome(Status.PASSED))
    assert progress.next_hint(ASINH) == (1, ASINH.hints[0])
    assert standing().word == "open"


def test_two_notebooks_at_once_lose_nothing(file):
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda _: progress.record(outcome(Status.INCORRECT)), range(40)))
    # On a busy machine one waits too long for the seven others, and says that it is not kept.
    assert standing().attempts == said.count("") > 8
    assert [path.name for path in file.parent.iterdir() if "lock" not in path.name] == ["progress.json"]


def test_a_failed_check_keeps_when_it_was_and_the_title_of_the_first_part_that_fails(file, monkeypatch):
    findings = (Finding(ASINH.parts[0], True), Finding(ASINH.parts[1], False, "secret(x) = 1"))
    incorrect = Outcome(ASINH.id, Status.INCORRECT, 0, ASINH.points, findings)
    entries = []
    for moment, result in (
        (100.9, incorrect),
        (160, outcome(Status.ERROR)),
        (200, outcome(Status.PASSED)),
        (300, incorrect),
    ):
        monkeypatch.setattr(progress.time, "time", lambda moment=moment: moment)
        assert progress.record(result) == ""
        entries.append(json.loads(file.read_text())[ASINH.id])
    wrong, error, passed, after = entries
    assert (wrong["first_at"], wrong["last_at"], wrong["failing"]) == (100, 100, ASINH.parts[1])
    assert (error["first_at"], error["last_at"], error["failing"], error["last"]) == (100, 160, "", "error")
    assert (passed["passed_at"], passed["failing"], "secret" in file.read_text()) == (200, "", False)
    assert (after["passed"], after["passed_at"], after["last_at"]) == (True, 200, 300)


def test_a_file_of_an_earlier_version_is_read_and_continued(file):
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({ASINH.id: {"attempts": 2, "last": "incorrect", "passed": False, "hints": 1}}))
    assert (standing().word, standing().attempts, standing().hints) == ("tried", 2, 1)
    progress.record(outcome(Status.PASSED))
    assert (standing().word, standing().attempts, standing().hints) == ("passed", 3, 1)


def test_private_is_kept_beside_the_work_and_changes_nothing_of_it(file):
    assert not progress.is_private()
    progress.record(outcome(Status.PASSED))
    assert progress.set_private(True) == ""
    assert progress.is_private()
    progress.record(outcome(Status.ERROR))
    assert progress.is_private()
    assert standing().passed
    assert progress.set_private(False) == ""
    assert not progress.is_private()


def test_private_that_cannot_be_kept_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ONNXLAB_STATE", str(tmp_path / "file" / "progress.json"))
    assert "Progress is not kept" in progress.set_private(True)


def test_a_reader_waits_for_the_notebook_that_repairs_a_damaged_file(file):
    file.parent.mkdir(parents=True)
    file.write_text("damaged{")
    with ThreadPoolExecutor(1) as pool:
        with FileLock(file.with_suffix(".lock")):
            reader = pool.submit(standing)
            time.sleep(0.3)  # the reader meets the damaged file
            file.write_text(json.dumps({ASINH.id: {"passed": True, "attempts": 1}}))
        assert reader.result().passed
    assert not list(file.parent.glob("*damaged*"))


def test_a_file_with_exercises_that_the_course_no_longer_has_is_read_and_kept(file):
    file.parent.mkdir(parents=True)
    old = {"passed": True, "attempts": 3, "last": "passed", "hints": 1}
    file.write_text(json.dumps({"uses-bitshift": old, "halve": old, ASINH.id: old}))
    standings, message = progress.standings()
    assert message == ""
    assert sum(entry.points for entry in standings) == ASINH.points
    progress.record(outcome(Status.ERROR))
    assert json.loads(file.read_text())["halve"] == old
