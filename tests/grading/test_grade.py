"""A class of honest and hostile students at every level; runs that are cut off; nothing left behind."""

import contextlib
import io
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from onnxlab import cli
from onnxlab.grading.marking import remove_leftovers
from onnxlab.grading.results import Ledger, facts
from onnxlab.grading.run import Step, grade
from onnxlab.grading.submissions import find
from onnxlab.grading.worker import client
from onnxlab.grading.worker.client import ForkServerPool
from onnxlab.grading.worker.task import FOLDER_PREFIX
from onnxlab.sandbox.entry import Level, available
from onnxlab.sandbox.watcher import Limits, descendants
from tests.grading.adversaries import ADVERSARIES, HONEST
from tests.grading.small_class import CLASS, FULL, REST, Learner, hand_in, marks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the fork server needs Linux"),
]
LIMITS = Limits(wall=120.0, cpu=30, memory=700, disk=64, processes=40)
PATIENT = ["--time", "120"]  # no test of honest work is one of the machine's speed
ENDLESS = {"does not listen", "blocks every signal"}  # until a limit ends them: here a small one
SEED = 987654321987
LEVELS = [level for level, reason in available().items() if not reason] if sys.platform == "linux" else []


def running() -> set[int]:
    """Every process below this one, zombies left out."""
    found = set()
    for each in descendants(os.getpid()):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if Path(f"/proc/{each.id}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.add(each.id)
    return found


def comparable(ledger: Ledger) -> list[object]:
    """The rows without what a clock says."""
    said = ("title", "holds", "message", "difference")
    return [
        (
            row.student,
            row.exercise,
            row.status,
            row.points,
            [[one.get(name) for name in said] for one in row.outcome["findings"]],
        )
        for row in ledger.rows()
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, pool: ForkServerPool) -> tuple[Path, str]:
    """The folder that the command wrote for the small class, and what it printed."""
    place, said = tmp_path_factory.mktemp("whole"), io.StringIO()
    command = ["grade", str(hand_in(place / "class", CLASS)), "--out", str(place / "out")]
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        patch.setattr(client, "worker_pool", lambda: pool)
        assert cli.main([*command, "--seed", str(SEED), *PATIENT]) == 0
    return place / "out", said.getvalue()


def rows_of(out: Path) -> list[object]:
    with Ledger(out, facts("full"), SEED) as ledger:
        return comparable(ledger)


@pytest.mark.parametrize("level", LEVELS)
def test_everybody_gets_their_mark_and_nothing_is_left(tmp_path, level: Level):
    corpus = [each for each in ADVERSARIES if each.name not in ENDLESS]
    if level is Level.LANDLOCK:  # how a file is read, and what honest work gets, was seen at the first level
        corpus = [each for each in corpus if each.quick and each.raw is None and each not in HONEST[1:]]
    intake = find(hand_in(tmp_path / "class", corpus))
    before = running()
    with Ledger(tmp_path / "out", facts(level)) as ledger:
        grade(intake, ledger, level=level, limits=LIMITS, jobs=2)
        assert ledger.failures == {}
        assert marks(ledger) == {each.name: each.points for each in corpus}
        kept = [each.name for each in tmp_path.rglob("*") if "cells.json" in each.name]
    assert kept == []
    assert running() <= before
    assert not list(Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}{os.getpid()}-*"))


def test_what_only_a_limit_ends_has_no_points(tmp_path, pool):
    corpus = [Learner(each.name, 0, before=each.before) for each in ADVERSARIES if each.name in ENDLESS]
    assert len(corpus) == len(ENDLESS)
    with Ledger(tmp_path / "out", facts("full")) as ledger:
        intake = find(hand_in(tmp_path / "class", corpus))
        grade(intake, ledger, level=LEVELS[0], limits=replace(LIMITS, cpu=5), pool=pool)
        assert ledger.failures == {}
        assert marks(ledger) == dict.fromkeys(ENDLESS, 0)


def test_no_output_holds_the_seed_or_a_judges_source(whole):
    out, said = whole
    files = [path for path in out.rglob("*") if path.is_file() and path.name != "run.json"]
    assert "summary.html" in {path.name for path in files}
    for text in [*(path.read_text("utf-8", "replace") for path in files), said]:
        assert str(SEED) not in text
        assert "def judge" not in text
        assert str(out.parent) not in text.replace(str(out), "")


def test_the_same_seed_gives_the_same_rows_and_another_the_same_marks(whole, tmp_path, pool):
    folder = hand_in(tmp_path / "class", CLASS)
    for seed in (SEED, SEED + 1):
        with Ledger(tmp_path / f"{seed}", facts("full"), seed) as ledger:
            grade(find(folder), ledger, level=LEVELS[0], limits=LIMITS, jobs=1, pool=pool)
            assert (comparable(ledger) == rows_of(whole[0])) == (seed == SEED)
            assert marks(ledger) == {each.name: each.points for each in CLASS}


def test_nothing_is_graded_twice_but_what_was_handed_in_again(tmp_path, pool):
    folder = hand_in(tmp_path / "class", CLASS[:3])
    steps: list[Step] = []

    def run() -> int:
        with Ledger(tmp_path / "out", facts("full")) as ledger:
            return grade(
                find(folder), ledger, level=LEVELS[0], limits=LIMITS, pool=pool, on_step=steps.append
            )

    assert run() == 3
    assert run() == 0
    hand_in(folder, [Learner("one wrong")])
    assert run() == 1
    assert [step.total for step in steps] == [3, 3, 3, 1]
    with Ledger(tmp_path / "out", facts("full")) as ledger:
        assert marks(ledger) == {"right": FULL, "one wrong": FULL, "one not attempted": REST}


def test_a_run_killed_at_any_moment_goes_on_and_gives_the_same(whole, tmp_path):
    chance, out = random.Random(3), tmp_path / "out"
    command = [sys.executable, "-m", "onnxlab.cli", "grade", str(hand_in(tmp_path / "class", CLASS))]
    command += ["--out", str(out), "--seed", str(SEED), *PATIENT]
    for done in (0, 1, 1):  # tools/fuzz does it 200 times
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if done:
            next(line for line in process.stdout if line.startswith(f"{done} of"))
        time.sleep(chance.uniform(0, 0.5 if done else 5))
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=900)
    assert rows_of(out) == rows_of(whole[0])
    with contextlib.closing(sqlite3.connect(out / "results.sqlite")) as base:
        rows = base.execute("SELECT student, exercise FROM result").fetchall()
    assert len(rows) == len(set(rows)) == 2 * len(CLASS)
    until = time.monotonic() + 60  # what a killed run had started ends by itself
    while list(Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}{process.pid}-*")):
        assert time.monotonic() < until
        time.sleep(0.2)
        remove_leftovers()


def test_a_warm_process_that_dies_costs_nobody_a_mark(tmp_path):
    folder, mine, killed = hand_in(tmp_path / "class", CLASS), ForkServerPool(), []

    def attack(step: Step) -> None:
        if step.done == 1:  # others are being graded
            killed.append(mine.process_id)
            os.kill(mine.process_id, signal.SIGKILL)

    with Ledger(tmp_path / "out", facts("full")) as ledger:
        grade(find(folder), ledger, level=LEVELS[0], limits=LIMITS, pool=mine, on_step=attack)
        assert killed
        assert ledger.failures == {}
        assert marks(ledger) == {each.name: each.points for each in CLASS}


@pytest.mark.usefixtures("shared")
def test_a_full_disk_ends_the_run_with_a_message_and_the_next_goes_on(tmp_path, capsys):
    folder, out = hand_in(tmp_path / "class", CLASS), tmp_path / "out"
    command = ["grade", str(folder), "--out", str(out), "--jobs", "1", *PATIENT]

    def little_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        # Five pages of tables fit, and not the results of five submissions.
        resource.setrlimit(resource.RLIMIT_FSIZE, (24_000, resource.RLIM_INFINITY))

    ended = subprocess.run(
        [sys.executable, "-m", "onnxlab.cli", *command],
        preexec_fn=little_room,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "cannot be written" in ended.stderr
    assert cli.main(command) == 0
    counts = "5 submissions of 5 students; exercises: 7 passed, 1 incorrect, 1 not attempted, 1 error"
    assert counts in capsys.readouterr().out


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
        hand_in(tmp_path / "class", CLASS[:1])
    (tmp_path / "file").write_text("")
    assert cli.main(arguments) == code
    error = capsys.readouterr().err
    assert says in error
    assert len(error.splitlines()) <= 3
