"""Grading on a Dask cluster gives the rows of a local run, whatever happens to the workers."""

import contextlib
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from class_support.adversaries import ADVERSARIES, HONEST, SAMPLE
from class_support.machines import Machines, machines, wait_for
from class_support.small_class import CLASS, hand_in, marks
from onnxlab import cli
from onnxlab_class.grading import cluster
from onnxlab_class.grading.cluster import ClusterFailed, common_level, connected, grade_on
from onnxlab_class.grading.private_judges import PrivateJudges
from onnxlab_class.grading.results import Ledger, facts
from onnxlab_class.grading.run import Step, grade
from onnxlab_class.grading.submissions import Intake, find
from onnxlab_class.grading.worker.task import FOLDER_PREFIX
from onnxlab_class.sandbox.entry import strongest
from onnxlab_class.sandbox.watcher import Limits, descendants

pytest.importorskip("distributed")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="tried on Linux only")]
SEED = 2**100 + 60314159
LIMITS = Limits(wall=120.0, cpu=60)
STUDENTS = [*CLASS, *(eve for eve in ADVERSARIES if eve.name in SAMPLE and eve not in HONEST)]
JUDGES = PrivateJudges(
    """
from onnxlab.kit.exercise import Part

def judge(work, random):
    return "UNHEARD-OF"[:0]

PARTS = {"to-global-indices": [Part("the instructor's own", judge)]}
""",
    {"to-global-indices": ("the instructor's own",)},
)
SETTINGS: dict[str, Any] = {"limits": LIMITS, "judges": JUDGES}
SERVER = "onnxlab_class.grading.worker.server"


def fork_servers(parent: int) -> list[int]:
    """The ids of the fork servers below a process, and of their forks."""
    servers = []
    for process in [parent, *(child.id for child in descendants(parent))]:
        with contextlib.suppress(OSError):
            if SERVER in Path(f"/proc/{process}/cmdline").read_text():
                servers.append(process)
    return servers


def rows(ledger: Ledger) -> list[dict[str, Any]]:
    """The rows without the times."""
    return [{**asdict(row), "seconds": 0, "outcome": {**row.outcome, "seconds": 0}} for row in ledger.rows()]


@pytest.fixture(scope="module", autouse=True)
def patient() -> Iterator[None]:
    """Wait for workers as long as these tests do: on a busy machine one takes a minute to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "_ANSWER_SECONDS", 240.0)
        patch.setattr(cluster, "_PATIENCE", 240.0)
        yield


@pytest.fixture(scope="module")
def intake(tmp_path_factory) -> Intake:
    return find(hand_in(tmp_path_factory.mktemp("class"), STUDENTS))


@pytest.fixture(scope="module")
def expected(intake, tmp_path_factory, pool) -> list[dict[str, Any]]:
    """The rows of a run on this machine."""
    with Ledger(tmp_path_factory.mktemp("here"), facts("full"), SEED) as ledger:
        grade(intake, ledger, level=strongest(), jobs=2, pool=pool, **SETTINGS)
        return rows(ledger)


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Iterator[Machines]:
    """A scheduler and two workers, for the tests that do not end them."""
    with machines(tmp_path_factory.mktemp("two") / "machines") as there:
        there.worker()
        there.worker("--no-nanny")
        with connected(there.address) as client:
            client.wait_for_workers(2, timeout=240)
        yield there


def test_a_cluster_gives_the_rows_of_a_local_run_and_keeps_nothing(intake, expected, two, tmp_path):
    _, *workers = two.started
    with connected(two.address) as client, Ledger(tmp_path / "out", facts("full"), SEED) as ledger:
        graded = grade_on(client, intake, ledger, level=common_level(client), **SETTINGS)
        assert graded == len(intake.submissions)
        assert ledger.failures == {}
        assert rows(ledger) == expected
        assert marks(ledger) == {student.name: student.points for student in STUDENTS}
        assert grade_on(client, intake, ledger, level=None, limits=LIMITS) == 0
        wait_for(lambda: not any(fork_servers(worker.pid) for worker in workers))
    assert any("the instructor's own" in str(row) for row in expected)
    assert str(SEED) not in two.log()
    assert "UNHEARD-OF" not in two.log()
    assert not any(
        list(Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}{worker.pid}-*")) for worker in workers
    )


def test_a_worker_with_other_versions_gives_no_marks(intake, two, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "facts", lambda level: facts(level) | {"torch": "1.0"})
    with connected(two.address) as client, Ledger(tmp_path / "out", facts("full"), SEED) as ledger:
        graded = grade_on(client, intake, ledger, level=None, limits=LIMITS)
        assert graded == 1  # the file that is no notebook
        assert len(ledger.failures) == len(intake.submissions) - 1
        assert all("not 1.0" in reason for reason in ledger.failures.values())


@pytest.mark.release  # the next one loses a worker, too
def test_workers_that_die_and_join_lose_nothing_and_double_nothing(intake, expected, tmp_path):
    with machines(tmp_path / "machines") as there:
        first, second = there.worker("--no-nanny"), there.worker("--no-nanny")
        servers: list[int] = []

        def disturb(step: Step) -> None:
            if step.done == 2:
                servers.extend(fork_servers(first.pid))
                first.kill()
                there.worker("--no-nanny")
            if step.done == 3:
                servers.extend(fork_servers(second.pid))
                second.kill()  # the worker that joined does the rest

        with connected(there.address) as client, Ledger(tmp_path / "out", facts("full"), SEED) as ledger:
            client.wait_for_workers(2, timeout=240)
            grade_on(client, intake, ledger, level=common_level(client), on_step=disturb, **SETTINGS)
            assert ledger.failures == {}
            assert rows(ledger) == expected
        assert servers
        wait_for(lambda: not any(Path(f"/proc/{server}").exists() for server in servers))


def test_what_a_worker_cannot_grade_another_one_does(intake, expected, tmp_path, monkeypatch):
    names = {student.name for student in CLASS[:4]}
    few = replace(intake, submissions=[one for one in intake.submissions if one.student in names])
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "onnxruntime.py").write_text("raise OSError('damaged')")
    with machines(tmp_path / "machines") as there:
        good = there.worker("--no-nanny")
        with monkeypatch.context() as broken:
            broken.setenv("PYTHONPATH", str(tmp_path / "broken"))
            there.worker("--no-nanny")

        def replace_the_good_worker() -> None:
            servers.extend(fork_servers(good.pid))
            good.send_signal(signal.SIGSTOP)
            there.worker("--no-nanny")
            client.wait_for_workers(3, timeout=240)
            good.kill()  # its submissions must go to the worker that joined

        with connected(there.address) as client, Ledger(tmp_path / "out", facts("full"), SEED) as ledger:
            client.wait_for_workers(2, timeout=240)
            problems, servers = list[str](), list[int]()
            watch = cluster._watch

            def watch_and_note(*arguments: Any) -> Iterator[Any]:
                for future, (worker, answer) in watch(*arguments):
                    problems.extend([answer] if isinstance(answer, str) else [])
                    yield future, (worker, answer)
                    if isinstance(answer, str) and len(problems) == 1:
                        replace_the_good_worker()  # which has just been sent what the broken one failed on

            monkeypatch.setattr(cluster, "_watch", watch_and_note)
            grade_on(client, few, ledger, level=strongest(), **SETTINGS)
            assert ledger.failures == {}
            assert rows(ledger) == [row for row in expected if row["student"] in names]
            assert any("The fork server did not start" in problem for problem in problems)
            assert "Its worker is gone." in problems
        assert servers
        wait_for(lambda: not any(Path(f"/proc/{server}").exists() for server in servers))


def test_a_scheduler_without_workers_is_a_message_and_one_that_dies_ends_the_run(
    intake, expected, pool, tmp_path, monkeypatch
):
    monkeypatch.setattr(cluster, "_PATIENCE", 3.0)  # a run notices it only by this
    with machines(tmp_path / "machines") as there:
        with monkeypatch.context() as impatient:
            impatient.setattr(cluster, "_ANSWER_SECONDS", 5.0)
            with pytest.raises(ClusterFailed, match="has no workers"), connected(there.address):
                pass
        there.worker("--no-nanny")

        def disturb(step: Step) -> None:
            if step.done == 2:
                there.scheduler.kill()

        with connected(there.address) as client, Ledger(tmp_path / "out", facts("full"), SEED) as ledger:
            with pytest.raises(ClusterFailed, match="What is graded is kept"):
                grade_on(client, intake, ledger, level=strongest(), on_step=disturb, **SETTINGS)
            assert 0 < len(rows(ledger)) < len(expected)
    with Ledger(tmp_path / "out", facts("full"), SEED) as ledger:
        grade(intake, ledger, level=strongest(), pool=pool, **SETTINGS)
        assert rows(ledger) == expected


@pytest.mark.parametrize(
    ("options", "says", "code"),
    [
        (["--dask", "127.0.0.1:{free}"], "No Dask scheduler could be reached at tcp://127.0.0.1:", 2),
        (["--dask", "tcp://192.0.2.1:8786"], "would not be encrypted", 2),
        (["--dask", "nowhere"], "would not be encrypted", 2),
        (["--dask", "tls://127.0.0.1:{free}"], "No Dask scheduler could be reached", 2),
    ],
)
def test_what_cannot_be_a_cluster_is_a_message(tmp_path, monkeypatch, capsys, options, says, code):
    monkeypatch.setattr(cluster, "_ANSWER_SECONDS", 1.0)
    hand_in(tmp_path, CLASS[:1])
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        free = listener.getsockname()[1]
    command = ["grade", str(tmp_path), "--out", str(tmp_path / "out")]
    assert cli.main([*command, *(option.format(free=free) for option in options)]) == code
    error = capsys.readouterr().err
    assert says in error
    assert len(error.splitlines()) <= 3


def test_without_dask_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ClusterFailed, match=r'pip install "dask\[distributed\]"'), connected("127.0.0.1:1"):
        pass
