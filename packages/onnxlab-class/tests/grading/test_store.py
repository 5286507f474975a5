"""The ledger: no result is lost or doubled, whatever happens to the process, the disk or the file."""

import base64
import contextlib
import os
import random
import signal
import sqlite3
import sys
import threading
import time
from dataclasses import asdict

import pytest

from class_support.graded_class import EXERCISES, HOSTILE, LAB, evidence, outcomes, submission
from onnxlab.files import CannotWrite
from onnxlab.kit.outcome import Finding, Outcome, Status
from onnxlab_class.grading.results import Ledger, LedgerRefused, read_evidence

FILE = "results.sqlite"
SEED = 2**64 + 7
RUN = {"level": "full", "torch": "2.13"}
STUDENTS = [f"student{number}" for number in range(12)]


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


def message_of(function) -> str:
    """The message of a refusal; "" if there is none."""
    try:
        function()
    except (CannotWrite, LedgerRefused) as error:
        return str(error)
    return ""


def as_written(ledger: Ledger) -> list[dict]:
    return [asdict(row) for row in ledger.rows()]


def fill(folder, students=STUDENTS, version=0) -> list[dict]:
    with Ledger(folder, RUN, SEED) as ledger:
        for number, student in enumerate(students):
            if not ledger.done(new := submission(student, version)):
                assert ledger.record(new, outcomes(number), note="cell 1: x", seconds=0.5)
        return as_written(ledger)


def test_rows_come_back_as_they_were(tmp_path):
    students = [*HOSTILE, "ada"]
    written = fill(tmp_path, students)
    with Ledger(tmp_path, RUN) as ledger:
        assert as_written(ledger) == written
        assert all(ledger.done(submission(student)) for student in students)
        assert not ledger.done(submission("ada", 1))
        assert not ledger.done(submission("bob"))
        assert ledger.seed == SEED
        assert ledger.notes == []
    assert {row["student"] for row in written} == set(students)
    assert len(written) == len(students) * len(EXERCISES)
    first = next(row for row in written if row["student"] == "=HYPERLINK(1)")
    assert first["outcome"] == outcomes(0)[0].as_json()
    assert (first["status"], first["submission_note"]) == ("passed", "cell 1: x")
    assert first["points"] == EXERCISES[0].points


def test_changed_submission_replaces_the_older_and_a_doubled_one_counts_once(tmp_path):
    with Ledger(tmp_path, RUN, SEED) as ledger:
        assert ledger.record(submission("ada"), outcomes(1))
        assert not ledger.record(submission("ada"), outcomes(2))
        assert ledger.record(submission("ada", 1), outcomes(3))
        newest = as_written(ledger)
    with Ledger(tmp_path, RUN) as ledger:
        assert as_written(ledger) == newest
        assert [row["status"] for row in newest] == [str(outcome.status) for outcome in outcomes(3)]
        assert not ledger.done(submission("ada"))
        assert ledger.record(submission("ada"), outcomes(1))  # handed in as it was before
        assert [row.status for row in ledger.rows()] == [str(outcome.status) for outcome in outcomes(1)]


def cells(folder) -> list[tuple]:
    """The rows as another program reads them."""
    with contextlib.closing(sqlite3.connect(folder / FILE)) as base:
        return base.execute("SELECT student, lab, exercise, points FROM result").fetchall()


def test_what_a_kill_leaves_of_a_transaction_is_taken_back(tmp_path):
    """A writer that is killed before its commit leaves a rollback journal beside the file."""
    written = fill(tmp_path, STUDENTS[:2])
    if in_fork(lambda: stopped_before_commit(tmp_path)) != 99:
        pytest.fail("the writer went on")
    assert (tmp_path / f"{FILE}-journal").exists()
    with Ledger(tmp_path, RUN) as ledger:
        assert as_written(ledger) == written
        assert not ledger.done(submission("new"))


def stopped_before_commit(folder) -> int:
    base = sqlite3.connect(folder / FILE, isolation_level=None)
    base.execute("PRAGMA cache_size = 1")  # the changes are written into the file before the commit
    base.execute("BEGIN IMMEDIATE")
    for number in range(500):
        base.execute("INSERT INTO submission VALUES (?, 'lab', '', ?, 0)", (b"new%d" % number, "x" * 5000))
    os._exit(99)


def test_what_is_recorded_survives_a_power_cut(tmp_path):
    """SQLite promises it for a rollback journal and full synchronisation: sqlite.org/pragma.html."""
    with Ledger(tmp_path, RUN) as ledger:
        settings = [
            ledger._base.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
        ]
    assert settings == ["delete", 2]


def test_damage_in_the_middle_is_named_and_nothing_is_changed(tmp_path):
    fill(tmp_path)
    path = tmp_path / FILE
    data = bytearray(path.read_bytes())
    data[4096 * 4 : 4096 * 5] = b"\0" * 4096
    path.write_bytes(data)
    with pytest.raises(LedgerRefused, match="damaged"):
        Ledger(tmp_path, RUN)
    assert path.read_bytes() == data


@pytest.mark.parametrize("data", [b"student,points\nada,3\n", b"{}\n" * 500, b"\xff\xfe" * 900, b"other"])
def test_another_file_is_left_alone(tmp_path, data):
    if data == b"other":
        with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as base:
            base.execute("CREATE TABLE other (one)")
        data = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(data)
    with pytest.raises(LedgerRefused, match="not a file of the grader"):
        Ledger(tmp_path, RUN)
    assert (tmp_path / FILE).read_bytes() == data


def test_another_format_is_refused(tmp_path):
    fill(tmp_path, [])
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as base:
        base.execute("PRAGMA user_version = 9")
    with pytest.raises(LedgerRefused, match="format 9"):
        Ledger(tmp_path, RUN)


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE submission",
        "DROP TABLE failure",
        "DROP TABLE run",
        "ALTER TABLE result RENAME COLUMN outcome TO other",
        "UPDATE run SET facts = '['",
        "UPDATE run SET facts = '7'",
        "UPDATE run SET facts = CAST(X'FF' AS TEXT)",  # an error of Python's own, without an error code
        "UPDATE result SET outcome = CAST(X'FF' AS TEXT)",
        "UPDATE result SET exercise = CAST(X'FF' AS TEXT)",
        "UPDATE submission SET student = X'FF'; UPDATE result SET student = X'FF' WHERE number = 1",
        "UPDATE submission SET note = X'FF'",
    ],
)
def test_any_damage_is_a_message_and_never_a_traceback(tmp_path, change):
    fill(tmp_path, STUDENTS[:1])
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as base:
        base.executescript(change)

    def use() -> None:
        with Ledger(tmp_path, RUN) as ledger:
            ledger.done(submission(STUDENTS[0]))
            list(ledger.rows())
            assert ledger.failures == {}

    with pytest.raises(LedgerRefused, match="damaged"):
        use()


def test_an_empty_file_is_a_new_ledger(tmp_path):
    (tmp_path / FILE).touch()
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
    assert str(seed).encode() not in (tmp_path / FILE).read_bytes()
    if os.name == "posix":
        assert (tmp_path / "run.json").stat().st_mode & 0o077 == 0
    for nonsense in (
        "",
        "[]",
        "{}",
        '{"seed": "1"}',
        '{"seed": true}',
        '{"seed": 1, "name": "x"}',
        "[" * 9999,
    ):
        (tmp_path / "run.json").write_text(nonsense)
        with pytest.raises(LedgerRefused, match="seed"):
            Ledger(tmp_path, RUN)
    (tmp_path / "run.json").unlink()
    with Ledger(tmp_path, RUN) as ledger:
        assert ledger.done(submission("ada"))


@pytest.mark.parametrize("before", [None, '{"seed": 7}'])
def test_a_seed_that_can_be_found_by_trying_only_names_a_run(tmp_path, before):
    seeds = set()
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        if before:  # of a version that used such seeds
            (folder / "run.json").write_text(before)
        for _ in range(2):
            with Ledger(folder, RUN, 7) as ledger:
                seeds.add(ledger.seed)
        with pytest.raises(LedgerRefused, match="another seed"):
            Ledger(folder, RUN, 8)
    assert len(seeds) == 2
    assert all(2**64 <= seed < 2**128 for seed in seeds)
    with Ledger(tmp_path / "c", RUN, min(seeds)) as ledger:  # as it stands in run.json
        assert ledger.seed in seeds


def test_texts_of_any_size_are_cut(tmp_path):
    huge = Outcome("one", Status.INCORRECT, 0, 3, (Finding("x" * 9000, False, "\0" * 9000),), "y" * 9000)
    with Ledger(tmp_path, RUN) as ledger:
        ledger.record(submission("ada"), [huge], note="z" * 10_000_000)
        (row,) = ledger.rows()
    assert max(map(len, (row.submission_note, row.outcome["message"]))) == 4001
    assert (tmp_path / FILE).stat().st_size < 100_000


@pytest.mark.parametrize(
    "change",
    ["status = 'excused'", "points = 'three'", "outcome = 'null'", "outcome = '{'", "student = 'ada'"],
)
def test_row_changed_by_hand_into_none_is_named(tmp_path, change):
    fill(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as base:
        base.execute("PRAGMA ignore_check_constraints = 1")
        base.execute(f"UPDATE result SET {change} WHERE number = 1 AND student = CAST('student1' AS BLOB)")
        base.commit()
    with Ledger(tmp_path, RUN) as ledger:
        if change.startswith("student"):
            assert len(as_written(ledger)) == 4 * len(STUDENTS) - 1
            return
        with pytest.raises(LedgerRefused, match=f"'student1', {LAB}"):
            list(ledger.rows())


def test_two_runs_do_not_share_a_folder(tmp_path):
    with Ledger(tmp_path, RUN), pytest.raises(LedgerRefused, match="Another run"):
        Ledger(tmp_path, RUN)
    with Ledger(tmp_path, RUN):
        refused = in_fork(lambda: 7 if "Another run" in message_of(lambda: Ledger(tmp_path, RUN)) else 1)
    assert refused == 7
    Ledger(tmp_path, RUN).close()


def test_other_versions_are_noted(tmp_path):
    fill(tmp_path)
    with Ledger(tmp_path, {**RUN, "torch": "2.14"}) as ledger:
        assert ledger.notes == ["Earlier rows were graded with torch 2.13."]
    with Ledger(tmp_path, {**RUN, "torch": "2.14"}) as ledger:
        assert ledger.notes == []
        assert len(as_written(ledger)) == 4 * len(STUDENTS)


def test_failures_are_no_rows_and_are_forgotten_when_graded(tmp_path):
    with Ledger(tmp_path, RUN) as ledger:
        ledger.failed(submission("ada"), "the fork server died")
        ledger.failed(submission("bob"), "the fork server died")
        ledger.record(submission("bob"), outcomes())
        assert ledger.failures == {("ada", LAB): "the fork server died"}
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as base:
        assert base.execute("SELECT student FROM failure").fetchall() == [(b"ada",)]
    with Ledger(tmp_path, RUN) as ledger:
        assert not ledger.done(submission("ada"))
        assert ledger.failures == {}


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
    assert len(cells(tmp_path)) == 40 * 4


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_limit_on_file_size_is_like_a_full_disk(tmp_path):
    resource = pytest.importorskip("resource")
    fill(tmp_path, STUDENTS[:3])
    before = fill(tmp_path, STUDENTS[:3])
    size = (tmp_path / FILE).stat().st_size

    def attempt() -> int:
        with Ledger(tmp_path, RUN) as ledger:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 1000, size + 1000))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            return 7 if "cannot be written" in message_of(lambda: fill_up(ledger)) else 1

    def fill_up(ledger) -> None:
        for number in range(50):
            ledger.record(submission(f"new{number}"), outcomes(), note="x" * 3000)

    assert in_fork(attempt) == 7
    with Ledger(tmp_path, RUN) as ledger:
        assert as_written(ledger)[-12:] == before


@pytest.mark.release
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_writer_killed_at_sixty_random_moments(tmp_path):
    undisturbed = fill(tmp_path / "undisturbed")
    rng = random.Random(60)
    folder = tmp_path / "killed"
    kills = rounds = 0
    while kills < 60:
        process = os.fork()
        if not process:
            try:
                fill(folder)
            finally:
                os._exit(0)
        time.sleep(rng.uniform(0.001, 0.025))
        os.kill(process, signal.SIGKILL)
        kills += os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
        with Ledger(folder, RUN, SEED) as ledger:
            complete = len(as_written(ledger)) == len(undisturbed)
        if complete:
            rounds += 1
            assert fill(folder) == undisturbed
            assert len(cells(folder)) == len(undisturbed)
            folder = tmp_path / f"killed{rounds}"
    assert fill(folder) == undisturbed
    assert not list(tmp_path.rglob(".writing-*"))  # the next run removes half-written files


@pytest.mark.slow
def test_memory_does_not_grow_with_what_rows_say(tmp_path):
    import tracemalloc

    def used() -> int:
        return tracemalloc.get_traced_memory()[0]

    with Ledger(tmp_path, RUN, SEED) as ledger:
        outcome = outcomes(1)
        tracemalloc.start()
        start = used()
        for number in range(400):
            ledger.record(submission(f"s{number}"), outcome, note="x" * 2000)
        rows = sum(1 for _ in ledger.rows())
        grown = used() - start
        tracemalloc.stop()
    assert rows == 1600
    assert grown < 400 * 1500  # bytes for each submission; its rows take 12,000


def test_evidence_is_kept_in_files(tmp_path):
    with Ledger(tmp_path, RUN, SEED) as ledger:
        graphs = {EXERCISES[1].id: evidence(), EXERCISES[2].id: evidence(expected=False)}
        ledger.record(submission("../ada"), outcomes(), evidence=graphs)
        names = [row.evidence for row in ledger.rows()]
    assert names[0] is names[3] is None
    both = read_evidence(tmp_path, names[1])
    assert both.model == both.expected == base64.b64decode(evidence()["model"])
    assert read_evidence(tmp_path, names[2]).expected is None
    assert sorted(path.name for path in (tmp_path / "evidence").iterdir()) == sorted(names[1:3])


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"model": 3}', '{"model": "?"}', '{"model": "", "highlight": 3}']
)
def test_damaged_evidence_is_none(tmp_path, text):
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "one.json").write_text(text)
    assert read_evidence(tmp_path, "one.json") is None
    assert read_evidence(tmp_path, "../run.json") is None
    assert read_evidence(tmp_path, "none.json") is None
