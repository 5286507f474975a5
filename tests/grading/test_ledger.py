"""The ledger: nothing lost, nothing twice, whatever happens to the process, the disk or the file."""

import contextlib
import errno
import json
import os
import random
import signal
import sys
import threading
import time
from dataclasses import asdict

import pytest
from graded_class import EXERCISES, HOSTILE, evidence, outcomes, submission

from onnxlab.grading import evidence as evidence_files
from onnxlab.grading.ledger import Ledger, LedgerRefused, facts
from onnxlab.grading.whole_files import CannotWrite
from onnxlab.labs.outcome import Finding, Outcome, Status

RUN = {"level": "full", "torch": "2.13"}
STUDENTS = [f"student{number}" for number in range(12)]


def as_written(ledger: Ledger) -> list[dict]:
    return [asdict(row) for row in ledger.rows()]


def fill(folder, students=STUDENTS, version=0) -> list[dict]:
    with Ledger(folder, RUN, 7) as ledger:
        for number, student in enumerate(students):
            if not ledger.done(one := submission(student, version)):
                assert ledger.record(one, outcomes(number), note="cell 1: x", seconds=0.5)
        return as_written(ledger)


def test_rows_come_back_as_they_were(tmp_path):
    students = [*HOSTILE, "ada"]
    written = fill(tmp_path, students)
    with Ledger(tmp_path, RUN) as ledger:
        assert as_written(ledger) == written
        assert all(ledger.done(submission(student)) for student in students)
        assert not ledger.done(submission("ada", 1))
        assert not ledger.done(submission("bob"))
        assert ledger.seed == 7
        assert ledger.notes == []
    assert {row["student"] for row in written} == set(students)
    assert len(written) == len(students) * len(EXERCISES)
    first = next(row for row in written if row["student"] == "=HYPERLINK(1)")
    assert first["outcome"] == outcomes(0)[0].as_json()
    assert (first["status"], first["points"], first["submission_note"]) == ("passed", 3, "cell 1: x")


def test_every_line_is_one_row_of_plain_json(tmp_path):
    fill(tmp_path, HOSTILE)
    head, *lines = (tmp_path / "results.jsonl").read_bytes().splitlines()
    assert json.loads(head)["run"] == RUN
    assert len(lines) == len(HOSTILE) * len(EXERCISES)
    assert all(line.isascii() and json.loads(line)["exercise"] for line in lines)


def test_changed_submission_replaces_the_older_and_a_doubled_one_counts_once(tmp_path):
    with Ledger(tmp_path, RUN, 7) as ledger:
        assert ledger.record(submission("ada"), outcomes(1))
        assert not ledger.record(submission("ada"), outcomes(2))
        assert ledger.record(submission("ada", 1), outcomes(3))
        newest = as_written(ledger)
    with Ledger(tmp_path, RUN) as ledger:
        assert as_written(ledger) == newest
        assert [row["status"] for row in newest] == [str(each.status) for each in outcomes(3)]
        assert not ledger.done(submission("ada"))
        assert ledger.record(submission("ada"), outcomes(1))  # handed in as it was before
        assert [row.status for row in ledger.rows()] == [str(each.status) for each in outcomes(1)]


def test_lines_doubled_by_hand_count_once(tmp_path):
    written = fill(tmp_path)
    path = tmp_path / "results.jsonl"
    head, *lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([head, *lines, *lines[4:8], *lines]))
    with Ledger(tmp_path, RUN) as ledger:
        assert as_written(ledger) == written
    path.write_bytes(b"".join([head, lines[0], *lines, lines[2], lines[0], *lines[:4]]))
    with Ledger(tmp_path, RUN) as ledger:
        assert as_written(ledger) == written


def test_cut_at_any_byte_is_repaired(tmp_path):
    written = fill(tmp_path / "whole", STUDENTS[:2])
    data = (tmp_path / "whole" / "results.jsonl").read_bytes()
    first = len(data.splitlines(keepends=True)[0])
    ends = [len(b"".join(data.splitlines(keepends=True)[: 1 + 4 * number])) for number in (1, 2)]
    folder = tmp_path / "cut"
    fill(folder, [])
    for cut in range(first, len(data), 7):
        (folder / "results.jsonl").write_bytes(data[:cut])
        with Ledger(folder, RUN) as ledger:
            assert as_written(ledger) == written[: 4 * sum(end <= cut for end in ends)]
            assert bool(ledger.notes) == (cut not in (first, *ends))
        assert fill(folder, STUDENTS[:2]) == written
        assert (folder / "results.jsonl").read_bytes() == data


@pytest.mark.parametrize(
    "tail", [b"\0" * 500, b"\0" * 500 + b"\n", b"{}\n", b"\xff\n\n", b'{"row": [1, 4]', b"[" * 9999]
)
def test_nonsense_at_the_end_is_cut_off(tmp_path, tail):
    written = fill(tmp_path)
    path = tmp_path / "results.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    assert fill(tmp_path) == written
    assert path.read_bytes() == whole


def test_damage_in_the_middle_is_named_and_mended_by_deleting_the_line(tmp_path):
    written = fill(tmp_path)
    path = tmp_path / "results.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:6], b"\0" * 30 + b"\n", *lines[7:]]))
    with pytest.raises(LedgerRefused, match="Line 7"):
        Ledger(tmp_path, RUN)
    path.write_bytes(b"".join([*lines[:6], *lines[7:]]))
    with Ledger(tmp_path, RUN) as ledger:
        missing = [student for student in STUDENTS if not ledger.done(submission(student))]
    assert missing == ["student1"]
    assert fill(tmp_path) == written


@pytest.mark.parametrize(
    "data",
    [
        b"student,points\nada,3\n",
        b"{}\n",
        b"[]\n",
        b'{"kind": "other"}\n',
        b"\xff\xfe",
        b'{"kind":"onnxlab grading res',
    ],
)
def test_another_file_is_left_alone(tmp_path, data):
    (tmp_path / "results.jsonl").write_bytes(data)
    with pytest.raises(LedgerRefused, match="not a ledger"):
        Ledger(tmp_path, RUN)
    assert (tmp_path / "results.jsonl").read_bytes() == data


def test_another_format_is_refused(tmp_path):
    (tmp_path / "results.jsonl").write_text('{"kind":"onnxlab grading results","format":9,"run":{}}\n')
    with pytest.raises(LedgerRefused, match="format 9"):
        Ledger(tmp_path, RUN)


def test_an_empty_file_is_a_new_ledger(tmp_path):
    (tmp_path / "results.jsonl").touch()
    assert len(fill(tmp_path)) == 4 * len(STUDENTS)


def test_seed_is_kept_apart_and_cannot_change(tmp_path):
    with Ledger(tmp_path, RUN) as ledger:
        seed = ledger.seed
        ledger.record(submission("ada"), outcomes())
    with Ledger(tmp_path, RUN) as ledger:
        assert ledger.seed == seed
    with Ledger(tmp_path, RUN, seed):
        pass
    with pytest.raises(LedgerRefused, match="another seed"):
        Ledger(tmp_path, RUN, seed + 1)
    assert str(seed) not in (tmp_path / "results.jsonl").read_text()
    if os.name == "posix":
        assert (tmp_path / "run.json").stat().st_mode & 0o077 == 0
    for nonsense in ("", "[]", "{}", '{"seed": "1"}', '{"seed": true}', "[" * 9999):
        (tmp_path / "run.json").write_text(nonsense)
        with pytest.raises(LedgerRefused, match="seed"):
            Ledger(tmp_path, RUN)
    (tmp_path / "run.json").unlink()
    with Ledger(tmp_path, RUN) as ledger:
        assert ledger.done(submission("ada"))


def test_texts_of_any_size_are_cut(tmp_path):
    huge = Outcome("one", Status.INCORRECT, 0, 3, (Finding("x" * 9000, False, "\0" * 9000),), "y" * 9000)
    with Ledger(tmp_path, RUN) as ledger:
        ledger.record(submission("ada"), [huge], note="z" * 10_000_000)
        (row,) = ledger.rows()
    assert max(map(len, (row.submission_note, row.outcome["message"]))) == 4001
    assert (tmp_path / "results.jsonl").stat().st_size < 60_000


@pytest.mark.parametrize(
    "change",
    [{"status": "excused"}, {"points": "3"}, {"outcome": None}, {"row": [1]}, {"row": "ab"}, {"evidence": 3}],
)
def test_line_changed_by_hand_into_no_row_is_named(tmp_path, change):
    fill(tmp_path)
    path = tmp_path / "results.jsonl"
    lines = path.read_text().splitlines()
    lines[4] = json.dumps(json.loads(lines[4]) | change)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(LedgerRefused, match="Line 5"):
        Ledger(tmp_path, RUN)


def test_two_runs_do_not_share_a_folder(tmp_path):
    with Ledger(tmp_path, RUN), pytest.raises(LedgerRefused, match="Another run"):
        Ledger(tmp_path, RUN)
    Ledger(tmp_path, RUN).close()


def test_other_versions_are_noted(tmp_path):
    fill(tmp_path)
    with Ledger(tmp_path, {**RUN, "torch": "2.14"}) as ledger:
        assert ledger.notes == ["Earlier rows were graded with torch 2.13."]
    with Ledger(tmp_path, {**RUN, "torch": "2.14"}) as ledger:
        assert ledger.notes == []
        assert len(as_written(ledger)) == 4 * len(STUDENTS)


def test_facts_name_versions():
    assert facts("full")["level"] == "full"
    assert all(facts("full").values())


def test_failures_are_no_rows_and_are_forgotten_when_graded(tmp_path):
    with Ledger(tmp_path, RUN) as ledger:
        ledger.failed(submission("ada"), "the warm process died")
        ledger.failed(submission("bob"), "the warm process died")
        ledger.record(submission("bob"), outcomes())
        assert ledger.failures == {("ada", "lab04_asinh"): "the warm process died"}
    assert [each["student"] for each in json.loads((tmp_path / "failures.json").read_text())] == ["ada"]
    with Ledger(tmp_path, RUN) as ledger:
        assert not ledger.done(submission("ada"))
        assert ledger.failures == {}
    assert not (tmp_path / "failures.json").exists()


def test_threads_write_whole_submissions(tmp_path):
    with Ledger(tmp_path, RUN) as ledger:

        def write(first: int) -> None:
            for number in range(first, 80, 2):  # every submission from two threads
                ledger.record(submission(f"s{number // 2}"), outcomes(number))

        threads = [threading.Thread(target=write, args=(first % 2,)) for first in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(as_written(ledger)) == 40 * 4
    lines = (tmp_path / "results.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["row"] for line in lines[1:]] == [[1, 4], [2, 4], [3, 4], [4, 4]] * 40


@pytest.mark.parametrize("how", ["short", "none", "fsync", "stuck"])
def test_full_disk_keeps_the_ledger_valid(tmp_path, monkeypatch, how):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    really = os.write
    with Ledger(tmp_path, RUN, 7) as ledger:
        ledger.record(submission("ada"), outcomes())
        before = (tmp_path / "results.jsonl").read_bytes()
        with monkeypatch.context() as patched:
            if how in ("short", "stuck"):
                patched.setattr(os, "write", lambda file, data: really(file, data[: len(data) // 2]))
            if how == "stuck":
                patched.setattr(os, "ftruncate", full)
            if how in ("none", "fsync"):
                patched.setattr(os, "write" if how == "none" else "fsync", full)
            with pytest.raises(CannotWrite, match=r"results\.jsonl cannot be written: [Nn]o (space|room)"):
                ledger.record(submission("bob"), outcomes(1))
        if how != "stuck":
            assert (tmp_path / "results.jsonl").read_bytes() == before
        assert not ledger.done(submission("bob"))
        assert ledger.record(submission("bob"), outcomes(1))
        after = as_written(ledger)
    with Ledger(tmp_path, RUN) as ledger:
        assert as_written(ledger) == after
        assert ledger.notes == []


def test_folder_that_takes_nothing(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CannotWrite, match="cannot be written"):
        Ledger(tmp_path / "file" / "out", RUN)


@pytest.mark.skipif(sys.platform == "win32", reason="rights of folders are POSIX")
def test_read_only_folder(tmp_path):
    if not can_be_nobody():
        pytest.skip("root may write everywhere, and cannot become anybody else")
    fill(tmp_path)
    tmp_path.chmod(0o555)
    for file in tmp_path.iterdir():
        file.chmod(0o444)

    def attempt() -> int:
        if os.getuid() == 0:
            for folder in (tmp_path.parent, tmp_path.parent.parent):
                folder.chmod(0o755)
            os.setuid(65534)
        try:
            Ledger(tmp_path, RUN)
        except CannotWrite:
            return 7
        return 1

    assert in_fork(attempt) == 7
    tmp_path.chmod(0o755)


def can_be_nobody() -> bool:
    return os.getuid() != 0 or in_fork(lambda: os.setuid(65534) or 0) == 0


def in_fork(function) -> int:
    process = os.fork()
    if not process:
        code = 99
        with contextlib.suppress(BaseException):
            code = function()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_limit_on_file_size_is_like_a_full_disk(tmp_path):
    resource = pytest.importorskip("resource")
    fill(tmp_path, STUDENTS[:3])
    before = (tmp_path / "results.jsonl").read_bytes()

    def attempt() -> int:
        with Ledger(tmp_path, RUN) as ledger:
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 1000, len(before) + 1000))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            try:
                ledger.record(submission("new"), outcomes())
            except CannotWrite:
                return 7
        return 1

    assert in_fork(attempt) == 7
    assert (tmp_path / "results.jsonl").read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_writer_killed_at_sixty_random_moments(tmp_path):
    undisturbed = fill(tmp_path / "undisturbed")
    made = random.Random(60)
    folder = tmp_path / "killed"
    kills = rounds = 0
    while kills < 60:
        process = os.fork()
        if not process:
            try:
                fill(folder)
            finally:
                os._exit(0)
        time.sleep(made.uniform(0.001, 0.025))
        os.kill(process, signal.SIGKILL)
        kills += os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
        with Ledger(folder, RUN, 7) as ledger:
            complete = len(as_written(ledger)) == len(undisturbed)
        if complete:
            rounds += 1
            assert fill(folder) == undisturbed
            lines = (folder / "results.jsonl").read_bytes().splitlines()
            assert len(lines) == 1 + len(undisturbed)
            folder = tmp_path / f"killed{rounds}"
    assert fill(folder) == undisturbed
    assert not list(tmp_path.rglob(".writing-*"))  # what a kill left half written, the next run removed


def test_memory_does_not_grow_with_what_rows_say(tmp_path):
    import tracemalloc

    def used() -> int:
        return tracemalloc.get_traced_memory()[0]

    with Ledger(tmp_path, RUN, 7) as ledger:
        one = outcomes(1)
        tracemalloc.start()
        start = used()
        for number in range(400):
            ledger.record(submission(f"s{number}"), one, note="x" * 2000)
        rows = sum(1 for _ in ledger.rows())
        grown = used() - start
        tracemalloc.stop()
    assert rows == 1600
    assert grown < 400 * 1500  # bytes for each submission; its rows take 12,000


def test_evidence_is_kept_in_files(tmp_path):
    with Ledger(tmp_path, RUN, 7) as ledger:
        given = {EXERCISES[1].id: evidence(), EXERCISES[2].id: evidence(expected=False)}
        ledger.record(submission("../ada"), outcomes(), evidence=given)
        names = [row.evidence for row in ledger.rows()]
    assert names[0] is names[3] is None
    both = evidence_files.kept(tmp_path, names[1])
    assert (both.model, both.expected) == (b"a model", b"a model")
    assert evidence_files.kept(tmp_path, names[2]).expected is None
    assert sorted(path.name for path in (tmp_path / "evidence").iterdir()) == sorted(names[1:3])


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"model": 3}', '{"model": "?"}', '{"model": "", "highlight": 3}']
)
def test_damaged_evidence_is_none(tmp_path, text):
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "one.json").write_text(text)
    assert evidence_files.kept(tmp_path, "one.json") is None
    assert evidence_files.kept(tmp_path, "../run.json") is None
    assert evidence_files.kept(tmp_path, "none.json") is None
