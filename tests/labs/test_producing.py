"""Running a learner's code: in a child process that may crash, within a time limit, the exporter loaded."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.kit import exporting, producing
from onnxlab.kit.checking import check, questions_seed
from onnxlab.kit.exercise import exercise
from onnxlab.kit.outcome import Status, Wrong
from onnxlab.kit.producing import TimeLimitReached, produce, time_limit
from onnxlab.kit.work import Work
from onnxlab_class.sandbox.watcher import descendants
from tests.support.labs import contracts

CONTRACTS = contracts()
_, ASINH = exercise("asinh-symbolic")
_, UNPOOL = exercise("max-unpool-symbolic")

forks = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks safely")


def rated(answer, record=ASINH):
    return check(record, {record.answers[0]: answer})


def axes_as_an_input(g, values, index, size):
    """As newer opsets have it. The exporter folds the constants of a node that opset 11 does not know."""
    begin, axes = (g.op("Constant", value_t=torch.tensor(value)) for value in ([0, 1], [1]))
    index = g.op("Add", index, g.op("Unsqueeze", begin, axes))
    return g.op("MaxUnpool", values, index, kernel_shape_i=[2, 2], strides_i=[2, 2])


@forks
def test_a_crash_in_torch_is_an_error_that_says_so():
    outcome = rated(axes_as_an_input, UNPOOL)
    assert outcome.status is Status.ERROR
    assert "signal 11 (SIGSEGV)" in outcome.message
    assert "This notebook goes on." in outcome.message


@forks
def test_an_answer_that_ends_its_process():
    outcome = rated(lambda g, x: os._exit(7))
    assert outcome.status is Status.ERROR
    assert "exit code 7" in outcome.message


@pytest.mark.slow
@forks
def test_native_code_that_hangs_is_ended():
    started = time.monotonic()
    lock = ctypes.create_string_buffer(64)  # a pthread_mutex_t of zeros is one that is free

    def answer(g, x):
        ctypes.PyDLL(None).pthread_mutex_lock(lock)
        ctypes.PyDLL(None).pthread_mutex_lock(lock)  # waits for itself

    outcome = rated(answer, replace(ASINH, time_limit=0.5))
    assert outcome.status is Status.TIMED_OUT
    assert "native code" in outcome.message
    assert time.monotonic() - started < 60


@forks
def test_torchs_threads_work_before_and_after():
    """The pool of threads is started here, and is missing in the child: it must not wait for it."""
    x = torch.rand(600, 600)

    def answer(g, node):
        (x @ x).sum().sort()
        return g.op("Asinh", node)

    (x @ x).sum()
    assert rated(answer).passed
    assert (x @ x).isfinite().all()


@forks
def test_what_an_answer_changes_stays_in_the_child():
    calls = []

    def answer(g, x):
        calls.append(1)
        return g.op("Asinh", x)

    assert rated(answer).passed
    assert calls == []


def spin(seconds: float) -> None:
    """Compute for some seconds of processor time: those count also where others compute, too."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_the_outer_limit_holds_after_an_inner_one():
    started = time.thread_time()
    with pytest.raises(TimeLimitReached), time_limit(0.5):  # noqa: PT012 - the nesting is what is tested
        with time_limit(5):
            pass
        spin(5)
    assert time.thread_time() - started < 2


def test_the_outer_limit_holds_inside_a_longer_inner_one():
    started = time.thread_time()
    with pytest.raises(TimeLimitReached), time_limit(0.3), time_limit(60):
        spin(5)
    assert time.thread_time() - started < 2


def test_the_outer_limit_comes_again_to_whoever_took_it_for_the_inner_one():
    started = time.thread_time()
    with pytest.raises(TimeLimitReached), time_limit(0.3):  # noqa: PT012 - the nesting is what is tested
        with contextlib.suppress(TimeLimitReached), time_limit(60):
            spin(5)
        spin(5)
    assert time.thread_time() - started < 2


def test_the_inner_limit_alone_is_left_first():
    with time_limit(2):
        with pytest.raises(TimeLimitReached), time_limit(0.2):
            spin(5)
        reached = time.thread_time()
        spin(0.3)  # nothing of the inner limit comes any more
        assert time.thread_time() - reached >= 0.3


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers")
def test_a_foreign_timer_is_kept():
    rang = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(time.monotonic()))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.4)
        started = time.monotonic()
        with time_limit(5):
            time.sleep(0.1)
        time.sleep(0.8)
        assert len(rang) == 1
        assert rang[0] - started > 0.3
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_busy_machine_takes_nothing_from_the_limit():
    """Whoever waits for the processor, here by sleeping, has not used it."""
    with time_limit(0.2, patience=50):
        time.sleep(0.5)
    with pytest.raises(TimeLimitReached), time_limit(0.2, patience=50):
        spin(9)


def test_patience_ends():
    started = time.monotonic()
    with pytest.raises(TimeLimitReached), time_limit(0.2, patience=2):
        time.sleep(9)
    assert 0.4 < time.monotonic() - started < 9


# Once all is imported, ReLU's own export takes less than half as long as the loading did.
_FRESH = """
import os, sys, time
from dataclasses import replace
import torch
from onnxlab.exporters.export import _COLLECTED, Exporter
from onnxlab.kit.checking import check
from onnxlab.kit.exercise import Judges, exercise
from onnxlab.kit.exporting import exported
from onnxlab.kit.producing import load_exporter

def threads():
    return len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 0

def produce(answers, work, random):
    before, collected = set(sys.modules), set(_COLLECTED)
    exported(work, "relu", torch.nn.ReLU(), torch.ones(2), Exporter.TORCH_EXPORT)
    work.write_json("imported", sorted(set(sys.modules) - before))
    work.write_json("collected", len(_COLLECTED.keys() - collected))

def judge(work, random):
    assert len(work.json("imported")) < 5, work.json("imported")
    assert work.json("collected") == 0, "the exporter's translations were collected again"

symbolic, translation = exercise("asinh-symbolic")[1], exercise("asinh-translation")[1]
load_exporter(symbolic)
assert "torch._dynamo" not in sys.modules
before, started = threads(), time.thread_time()
load_exporter(translation)
loading = time.thread_time() - started
assert threads() == before  # what has threads does not fork well
limit = 0.75 * loading  # less than loading takes, on a machine of any speed
record = replace(translation, produce=produce, parts=("loaded",), judges=Judges((judge,)), time_limit=limit)
outcome = check(record, {"asinh_translation": len})
assert outcome.passed, outcome
"""


@pytest.mark.slow
def test_the_import_is_no_part_of_the_limit():
    done = subprocess.run([sys.executable, "-c", _FRESH], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTRACTS)
def test_an_exercise_says_whether_it_needs_torch_export(name, tmp_path, monkeypatch):
    exporters = set()

    def export(*arguments, **options):
        exporters.add(arguments[2])
        raise Wrong("Only the exporter's name is of interest here.")

    def exported_by_the_answer(*arguments, dynamo=True, **options):
        return export(None, None, Exporter.TORCH_EXPORT if dynamo else Exporter.TORCHSCRIPT)

    _, record = exercise(name)
    monkeypatch.setattr(exporting, "export", export)
    monkeypatch.setattr(torch.onnx, "export", exported_by_the_answer)
    for right in CONTRACTS[name].right:
        answers = dict(zip(record.answers, right, strict=True))
        produce(replace(record, torch_export=False), answers, Work(tmp_path, questions_seed(record, 0)))
        if Exporter.TORCH_EXPORT in exporters:
            break
    assert record.torch_export == (Exporter.TORCH_EXPORT in exporters)


def stopped(process: int, seconds: float) -> None:
    """Stop a process once it works, and continue it, as a machine does that stands still for a while."""
    time.sleep(0.3)
    os.kill(process, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(process, signal.SIGCONT)


@pytest.mark.slow
@forks
def test_a_machine_that_stands_still_takes_nothing_from_the_limit():
    process = os.fork()
    if not process:
        code = 1
        try:
            with time_limit(2):
                spin(0.6)
            code = 0
        finally:
            os._exit(code)
    stopped(process, 4)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


@pytest.mark.slow
@forks
def test_a_machine_that_gives_one_per_cent_takes_nothing_from_the_limit():
    """Another process with sixty times the weight wants the same processor."""
    core = {min(os.sched_getaffinity(0))}
    processes = []
    for nice in (0, 19):
        processes.append(os.fork())
        if not processes[-1]:
            code = 1
            try:
                os.sched_setaffinity(0, core)
                os.nice(nice)
                with time_limit(1) if nice else contextlib.nullcontext():
                    spin(0.05 if nice else 90)
                code = 0
            finally:
                os._exit(code)
    busy, starved = processes
    try:
        assert os.waitstatus_to_exitcode(os.waitpid(starved, 0)[1]) == 0
    finally:
        os.kill(busy, signal.SIGKILL)
        os.waitpid(busy, 0)


@pytest.mark.slow
@forks
def test_a_child_that_the_machine_holds_up_is_waited_for(monkeypatch):
    monkeypatch.setattr(producing, "_GRACE", 0.0)

    def answer(g, x):
        spin(0.3)
        return g.op("Asinh", x)

    outcome = []
    check = threading.Thread(target=lambda: outcome.append(rated(answer, replace(ASINH, time_limit=1.0))))
    check.start()
    until = time.monotonic() + 30
    while not (children := descendants(os.getpid())) and time.monotonic() < until:
        time.sleep(0.005)
    stopped(children[0].id, 4)
    check.join()
    assert outcome[0].passed, outcome
