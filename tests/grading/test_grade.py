"""A class of honest and hostile students at every level; runs that are cut off; nothing left behind."""

import contextlib
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from onnxlab import cli
from onnxlab.grading.marking import sweep
from onnxlab.grading.results import Ledger, facts
from onnxlab.grading.run import Step, grade
from onnxlab.grading.submissions import find
from onnxlab.grading.worker.client import Forks
from onnxlab.grading.worker.task import PREFIX
from onnxlab.sandbox.levels import Level, Limits, available
from onnxlab.sandbox.process_tree import descendants
from tests.grading.adversaries import ADVERSARIES, HONEST, Adversary, notebook_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the fork server needs Linux"),
]
LIMITS = Limits(wall=120.0, cpu=50, memory=700, disk=64, processes=40)
PATIENT = ["--time", "120"]  # no test of honest work is one of the machine's speed
LEVELS = [level for level, reason in available().items() if not reason] if sys.platform == "linux" else []


def hand_in(folder: Path, adversaries: tuple[Adversary, ...]) -> Path:
    """Write a class's submissions as a folder of students."""
    for adversary in adversaries:
        place = folder / adversary.name
        place.mkdir(parents=True)
        (place / "lab04_asinh.ipynb").write_bytes(notebook_of(adversary))
    return folder


def marks(ledger: Ledger) -> dict[str, int]:
    """The points of each student."""
    found: dict[str, int] = {}
    for row in ledger.rows():
        found[row.student] = found.get(row.student, 0) + row.points
    return found


def running() -> set[int]:
    """Every process below this one, zombies left out."""
    found = set()
    for each in descendants(os.getpid()):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if Path(f"/proc/{each.id}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.add(each.id)
    return found


@pytest.mark.parametrize("level", LEVELS)
def test_everybody_gets_their_mark_and_nothing_is_left(tmp_path, level: Level):
    corpus = ADVERSARIES if level is not Level.LANDLOCK else tuple(each for each in ADVERSARIES if each.quick)
    intake = find(hand_in(tmp_path / "class", corpus))
    before = running()
    with Ledger(tmp_path / "out", facts(level)) as ledger:
        grade(intake, ledger, level=level, limits=LIMITS, jobs=2)
        assert ledger.failures == {}
        assert marks(ledger) == {each.name: each.points for each in corpus}
        kept = [each.name for each in tmp_path.rglob("*") if "cells.json" in each.name]
    assert kept == []
    assert running() <= before
    assert not list(Path(tempfile.gettempdir()).glob(f"{PREFIX}{os.getpid()}-*"))


def test_no_output_holds_the_seed_or_a_judges_source(tmp_path, capsys):
    folder = hand_in(tmp_path / "class", HONEST)
    out = tmp_path / "out"
    assert cli.main(["grade", str(folder), "--out", str(out), "--seed", "987654321987", *PATIENT]) == 0
    files = [path for path in out.rglob("*") if path.is_file() and path.name != "run.json"]
    read = [path.read_text("utf-8", "replace") for path in files]
    for text in [*read, capsys.readouterr().out]:
        assert "987654321987" not in text
        assert "def judge" not in text
        assert str(tmp_path) not in text.replace(str(out), "")


def test_the_same_seed_gives_the_same_rows_and_another_the_same_marks(tmp_path, pool):
    folder = hand_in(tmp_path / "class", HONEST[:4])
    rows = {}
    for name, seed in (("first", 5), ("again", 5), ("other", 6)):
        with Ledger(tmp_path / name, facts("full"), seed) as ledger:
            grade(find(folder), ledger, level=LEVELS[0], limits=LIMITS, jobs=1, pool=pool)
            rows[name] = comparable(ledger), marks(ledger)
    assert rows["first"] == rows["again"]
    assert rows["first"][0] != rows["other"][0]
    assert rows["first"][1] == rows["other"][1]


def comparable(ledger: Ledger) -> list[object]:
    """The rows without what a clock says."""
    return [
        (
            row.student,
            row.exercise,
            row.status,
            row.points,
            [
                (one["title"], one["holds"], one["message"], one.get("difference"))
                for one in row.outcome["findings"]
            ],
        )
        for row in ledger.rows()
    ]


def test_nothing_is_graded_twice_but_what_was_handed_in_again(tmp_path, pool):
    folder = hand_in(tmp_path / "class", HONEST[:3])
    steps: list[Step] = []

    def run() -> int:
        with Ledger(tmp_path / "out", facts("full")) as ledger:
            return grade(find(folder), ledger, level=LEVELS[0], limits=LIMITS, pool=pool, told=steps.append)

    assert run() == 3
    assert run() == 0
    better = Adversary("one wrong", 15)
    (folder / "one wrong" / "lab04_asinh.ipynb").write_bytes(notebook_of(better))
    assert run() == 1
    assert [step.total for step in steps] == [3, 3, 3, 1]
    with Ledger(tmp_path / "out", facts("full")) as ledger:
        assert marks(ledger) == {"right": 15, "right, the other way": 15, "one wrong": 15}


def test_a_run_killed_at_any_moment_goes_on_and_gives_the_same(tmp_path):
    folder = hand_in(tmp_path / "class", HONEST)
    with Ledger(tmp_path / "whole", facts("full"), 11) as ledger:
        grade(find(folder), ledger, level=LEVELS[0], limits=LIMITS)
        expected = comparable(ledger)
    chance, out = random.Random(3), tmp_path / "out"
    command = [sys.executable, "-m", "onnxlab.cli", "grade", str(folder), "--out", str(out), "--seed", "11"]
    command += PATIENT
    for _ in range(3):  # tools/fuzz does it 200 times
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(4, 9))
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=900)
    with Ledger(out, facts("full"), 11) as ledger:
        assert comparable(ledger) == expected
    with contextlib.closing(sqlite3.connect(out / "results.sqlite")) as base:
        rows = base.execute("SELECT student, exercise FROM result").fetchall()
    assert len(rows) == len(set(rows)) == 4 * len(HONEST)
    until = time.monotonic() + 60  # what a killed run had started ends by itself
    while list(Path(tempfile.gettempdir()).glob(f"{PREFIX}{process.pid}-*")):
        assert time.monotonic() < until
        time.sleep(0.2)
        sweep()


def test_a_warm_process_that_dies_costs_nobody_a_mark(tmp_path, monkeypatch):
    folder = hand_in(tmp_path / "class", HONEST)
    started: list[Forks] = []
    begin = Forks.__init__
    monkeypatch.setattr(Forks, "__init__", lambda self: (begin(self), started.append(self))[0])
    ended = threading.Event()

    def attack() -> None:
        chance = random.Random(8)
        while not ended.wait(chance.uniform(4, 7)):
            for pool in started:
                if pool.process_id:
                    os.kill(pool.process_id, signal.SIGKILL)
                    return

    thread = threading.Thread(target=attack)
    thread.start()
    with Ledger(tmp_path / "out", facts("full")) as ledger:
        try:
            grade(find(folder), ledger, level=LEVELS[0], limits=LIMITS)
        finally:
            ended.set()
            thread.join()
        assert ledger.failures == {}
        assert marks(ledger) == {each.name: each.points for each in HONEST}


def test_a_full_disk_ends_the_run_with_a_message_and_the_next_goes_on(tmp_path):
    folder, out = hand_in(tmp_path / "class", HONEST[:3]), tmp_path / "out"
    command = [sys.executable, "-m", "onnxlab.cli", "grade", str(folder), "--out", str(out), "--jobs", "1"]
    command += PATIENT

    def little_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        # Five pages of tables fit, and not the results of three submissions.
        resource.setrlimit(resource.RLIMIT_FSIZE, (24_000, resource.RLIM_INFINITY))

    ended = subprocess.run(command, preexec_fn=little_room, capture_output=True, text=True, timeout=900)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert "3 submissions of 3 students; exercises: 11 passed, 1 incorrect" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says", "code"),
    [
        (["grade", "nowhere", "--out", "out"], "nowhere is not there", 1),
        (["grade", ".", "--out", "out"], "There are no labs in", 2),
        (["grade", "class", "--out", "file"], "file", 1),
        (["grade", "class", "--out", "out", "--jobs", "0"], "--jobs takes 1 or more", 2),
        *(
            (["grade", "class", "--out", "out", f"{option}={value}"], f"{option} takes", 2)
            for option in ("--time", "--memory")
            for value in ("nan", "inf", "-inf", "0", "-3", "1e300", "much", "")
        ),
    ],
)
def test_bad_arguments_are_a_message(tmp_path, monkeypatch, capsys, arguments, says, code):
    monkeypatch.chdir(tmp_path)
    if "class" in arguments:
        hand_in(tmp_path / "class", HONEST[:1])
    (tmp_path / "file").write_text("")
    assert cli.main(arguments) == code
    error = capsys.readouterr().err
    assert says in error
    assert len(error.splitlines()) <= 3
