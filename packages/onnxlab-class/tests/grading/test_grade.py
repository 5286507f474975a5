"""`onnxlab grade`: honest and hostile students at every level, and runs that are interrupted."""

import contextlib
import io
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from class_support.adversaries import ADVERSARIES, HONEST, MEMORY_SEARCHES, SAMPLE
from class_support.small_class import CLASS, FULL, REST, ROOT, Learner, hand_in, marks
from onnxlab import cli
from onnxlab_class.grading.marking import remove_leftovers
from onnxlab_class.grading.results import Ledger, facts
from onnxlab_class.grading.run import Step, grade
from onnxlab_class.grading.submissions import find
from onnxlab_class.grading.worker import client
from onnxlab_class.grading.worker.client import ForkServerPool
from onnxlab_class.grading.worker.task import FOLDER_PREFIX
from onnxlab_class.sandbox.entry import Level, available
from onnxlab_class.sandbox.watcher import Limits, descendants

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the fork server needs Linux"),
]
LIMITS = Limits(wall=120.0, cpu=30, cell=5.0, memory=700, disk=64, processes=40)
PATIENT = ["--time", "120"]  # honest work must pass on a slow machine, too
ENDLESS = {"does not listen", "blocks every signal"}  # only a limit ends them; their test sets a small one
LONG = {"an answer that never ends", "prints without end"}  # like another one, which is always there
SEED = 2**100 + 987654321987
LEVELS = [level for level, reason in available().items() if not reason] if sys.platform == "linux" else []


def running() -> set[int]:
    """The ids of all descendants of this process but zombies."""
    ids = set()
    for process in descendants(os.getpid()):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if Path(f"/proc/{process.id}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                ids.add(process.id)
    return ids


def comparable(ledger: Ledger) -> list[tuple[object, ...]]:
    """The rows without the times."""
    keys = ("title", "holds", "message", "difference")
    return [
        (
            row.student,
            row.exercise,
            row.status,
            row.points,
            [[finding.get(key) for key in keys] for finding in row.outcome["findings"]],
        )
        for row in ledger.rows()
    ]


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory, pool: ForkServerPool) -> tuple[Path, str]:
    """The folder that the command wrote for the small class, and what it printed."""
    folder, output = tmp_path_factory.mktemp("graded"), io.StringIO()
    command = ["grade", str(hand_in(folder / "class", CLASS)), "--out", str(folder / "out")]
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
        patch.setattr(client, "worker_pool", lambda: pool)
        assert cli.main([*command, "--seed", str(SEED), *PATIENT]) == 0
    return folder / "out", output.getvalue()


def rows_of(out: Path) -> list[tuple[object, ...]]:
    with Ledger(out, facts("full"), SEED) as ledger:
        return comparable(ledger)


@pytest.mark.parametrize("level", LEVELS)
def test_everybody_gets_their_mark_and_nothing_is_left(tmp_path, pool, level: Level, request):
    everybody = request.config.getoption("--all")
    left_out = ENDLESS | (set() if everybody else LONG)
    students = [student for student in ADVERSARIES if student.name not in left_out]
    workers = None  # the run starts a fork server, and ends it
    if level is Level.LANDLOCK:  # the files and the honest work give the same at every level
        students = [eve for eve in students if eve.quick and eve.raw is None and eve not in HONEST[1:]]
        if not everybody:  # test_sandbox.py tries what the level itself promises
            students = [eve for eve in students if eve.name in SAMPLE]
        workers = pool
        pool.wait_until_ready()
    intake = find(hand_in(tmp_path / "class", students))
    before = running()
    with Ledger(tmp_path / "out", facts(level)) as ledger:
        grade(intake, ledger, level=level, limits=LIMITS, jobs=2, pool=workers)
        assert ledger.failures == {}
        assert marks(ledger) == {student.name: student.points for student in students}
    assert not [path for path in tmp_path.rglob("*") if "cells.json" in path.name]
    assert running() <= before
    assert not list(Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}{os.getpid()}-*"))


def test_no_judge_is_in_the_memory_of_a_submission_without_a_sandbox(tmp_path, pool):
    students = [HONEST[0], *MEMORY_SEARCHES]
    intake = find(hand_in(tmp_path / "class", students))
    with Ledger(tmp_path / "out", facts("none")) as ledger:
        grade(intake, ledger, level=None, limits=replace(LIMITS, memory=1500), pool=pool)
        assert ledger.failures == {}
        assert marks(ledger) == {student.name: student.points for student in students}


@pytest.mark.release  # what ends them: test_sandbox.py; what that costs: test_spawned.py
def test_what_only_a_limit_ends_has_no_points(tmp_path, pool):
    students = [Learner(eve.name, 0, before=eve.before) for eve in ADVERSARIES if eve.name in ENDLESS]
    assert len(students) == len(ENDLESS)
    with Ledger(tmp_path / "out", facts("full")) as ledger:
        intake = find(hand_in(tmp_path / "class", students))
        grade(intake, ledger, level=LEVELS[0], limits=replace(LIMITS, cpu=5), pool=pool)
        assert ledger.failures == {}
        assert marks(ledger) == dict.fromkeys(ENDLESS, 0)


def test_no_output_holds_the_seed_or_a_judges_source(graded):
    out, output = graded
    files = [path for path in out.rglob("*") if path.is_file() and path.name != "run.json"]
    assert "summary.html" in {path.name for path in files}
    for text in [*(path.read_text("utf-8", "replace") for path in files), output]:
        assert str(SEED) not in text
        assert "def judge" not in text
        assert str(out.parent) not in text.replace(str(out), "")


def test_no_page_shows_where_the_grader_is_installed(tmp_path, shared):
    package = ROOT / "src" / "onnxlab"
    read = f"return open({str(package)!r} + '/judges/__init__.py')"
    eve = Learner("eve", REST, body=read, before=f"open({sys.prefix + '/nothing'!r})")
    folder, out = hand_in(tmp_path / "class", [eve]), tmp_path / "out"
    assert cli.main(["grade", str(folder), "--out", str(out), *PATIENT]) == 0
    page = (out / "feedback" / "eve.html").read_text("utf-8")
    assert "Permission denied" in page
    assert "No such file" in page
    for place in (sys.prefix, sys.base_prefix, str(package.parents[1])):
        assert place not in page


def test_another_seed_gives_other_rows_and_the_same_marks(graded, tmp_path, pool):
    """A run that is killed has the same seed: see below."""
    folder = hand_in(tmp_path / "class", [wrong := CLASS[1]])
    with Ledger(tmp_path / "out", facts("full"), SEED + 1) as ledger:
        grade(find(folder), ledger, level=LEVELS[0], limits=LIMITS, jobs=1, pool=pool)
        assert comparable(ledger) != [row for row in rows_of(graded[0]) if row[0] == wrong.name]
        assert marks(ledger) == {wrong.name: wrong.points}


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


def test_a_run_killed_at_any_moment_goes_on_and_gives_the_same(graded, tmp_path, pytestconfig):
    chance, out = random.Random(3), tmp_path / "out"
    command = [sys.executable, "-m", "onnxlab.cli", "grade", str(hand_in(tmp_path / "class", CLASS))]
    command += ["--out", str(out), "--seed", str(SEED), *PATIENT]
    for done in (0, 1, 1) if pytestconfig.getoption("--all") else (1,):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if done:
            next(line for line in process.stdout if line.startswith(f"{done} of"))
        time.sleep(chance.uniform(0, 0.5 if done else 5))
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=900)
    assert rows_of(out) == rows_of(graded[0])
    with contextlib.closing(sqlite3.connect(out / "results.sqlite")) as base:
        rows = base.execute("SELECT student, exercise FROM result").fetchall()
    assert len(rows) == len(set(rows)) == 2 * len(CLASS)
    until = time.monotonic() + 60  # the processes of a killed run end by themselves
    while list(Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}{process.pid}-*")):
        assert time.monotonic() < until
        time.sleep(0.2)
        remove_leftovers()


def test_a_fork_server_that_dies_costs_nobody_a_mark(tmp_path):
    students = [CLASS[0], Learner("slow", before="import time; time.sleep(2)")]
    folder, own_pool, killed = hand_in(tmp_path / "class", students), ForkServerPool(), []

    def kill(step: Step) -> None:
        if step.done == 1:  # the slow one is being graded
            killed.append(own_pool.process_id)
            os.kill(own_pool.process_id, signal.SIGKILL)

    with Ledger(tmp_path / "out", facts("full")) as ledger:
        grade(find(folder), ledger, level=LEVELS[0], limits=LIMITS, pool=own_pool, on_step=kill)
        assert killed
        assert ledger.failures == {}
        assert marks(ledger) == {student.name: FULL for student in students}


def test_a_full_disk_ends_the_run_with_a_message_and_the_next_goes_on(tmp_path, capsys, shared):
    folder, out = hand_in(tmp_path / "class", CLASS), tmp_path / "out"
    command = ["grade", str(folder), "--out", str(out), "--jobs", "1", *PATIENT]
    out.mkdir()
    # The tables fit, and not the results of five submissions.
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(out)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("only root may mount")
    try:
        assert cli.main(command) == 2
        error = capsys.readouterr().err
        assert "cannot be written" in error
        assert len(error.splitlines()) <= 3
        subprocess.run(["mount", "-o", "remount,size=16m", str(out)], check=True)
        assert cli.main(command) == 0
    finally:
        subprocess.run(["umount", str(out)], check=True)
    counts = "5 submissions, 5 students; exercises: 7 passed, 1 incorrect, 1 not attempted, 1 error"
    assert counts in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says", "code"),
    [
        (["grade", "nowhere", "--out", "out"], "nowhere is not there", 2),
        (["grade", ".", "--out", "out"], "There are no labs to grade in", 2),
        (["grade", "class", "--out", "file"], "file", 2),
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


def test_nothing_is_imported_from_a_students_folder(tmp_path):
    """An instructor grades in the folder itself, where a student has put modules of Python's names."""
    hand_in(tmp_path, CLASS[:1])
    noted = tmp_path / "noted"
    for name in ("json", "torch", "numpy", "ctypes", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"open({str(noted)!r}, 'a').write('{name} ')\n")
    command = [Path(sys.executable).with_name("onnxlab"), "grade", ".", "--out", tmp_path / "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert not noted.exists(), noted.read_text()
    assert done.returncode == 0, done.stdout + done.stderr
