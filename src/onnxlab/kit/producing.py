"""Running a learner's code: its prints, exceptions, registered rules and time limit are dealt with here.

On Linux it runs in a forked process, so that a crash in native code does not end the notebook.
"""

import _thread
import builtins
import ctypes
import faulthandler
import functools
import gc
import importlib
import io
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from onnxlab.exporters.export import Exporter, export, remembered_torchlib, without_tqdm_thread
from onnxlab.exporters.symbolics import restored_rules
from onnxlab.kit.exercise import Answers, Exercise, Produce
from onnxlab.kit.exporting import first_line, is_learners, learners_code, own_error, own_line, raised_by_stub
from onnxlab.kit.outcome import Case, Status, Wrong, case_of
from onnxlab.kit.work import Work
from onnxlab.message import Message

resource: Any
try:
    import resource
except ImportError:  # Windows
    resource = None

PATIENCE = 2.0
"""How many times its limit an exercise may take on the clock, where other programs use the processor too."""


@dataclass(frozen=True)
class Production:
    """The outcome of calling a learner's functions, before anything is judged; the rest is as in `Outcome`.

    Attributes:
        status: Why there is nothing to judge; None if there is.
        wrong: Set where an answer was of the wrong kind.
    """

    status: Status | None
    message: str = ""
    where: str = ""
    wrong: Wrong | None = None
    printed: int = 0
    tail: str = ""
    seconds: float = 0.0
    case: Case | None = None


_TAIL = 2000  # characters of what was printed


class _Counter(io.TextIOBase):
    """A stream that counts the characters written to it and keeps the last ones."""

    count = 0
    tail = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.count += len(text)
        self.tail = (self.tail + text[-_TAIL:])[-_TAIL:]
        return len(text)


def produce(exercise: Exercise, answers: Answers, work: Work) -> Production:
    """Call a learner's functions and write what they return into the folder.

    Returns:
        The production, with whatever the functions raised. Only a KeyboardInterrupt is raised again.
    """
    load_exporter(exercise)
    printed = _Counter()
    started = time.perf_counter()
    with learners_code(answers.values()):
        production = _production(exercise, answers, work, printed)
    seconds = time.perf_counter() - started
    return replace(production, printed=printed.count, tail=printed.tail, seconds=seconds)


def load_produce(exercise: Exercise) -> Produce:
    """Return what calls an exercise's answers; its module is loaded if it is not yet."""
    if exercise.produce is not None:
        return exercise.produce
    produce: Produce = importlib.import_module(f"onnxlab.labs.{exercise.module}").produce
    return produce


def load_exporter(exercise: Exercise) -> None:
    """Import what an exercise's exports need, once in a process, before the time is counted.

    The first torch.export of a process imports some 2,000 modules in several seconds. A time limit reached in
    the middle would leave some of them half imported, and every later export would fail.
    """
    if exercise.torch_export:
        _use_torch_export()


@functools.cache
def _use_torch_export() -> None:
    # An export imports more than any list of modules names, and none of it starts a thread.
    batch = {"dynamic_shapes": ({0: "batch"},)}
    with without_tqdm_thread(), remembered_torchlib():
        for _ in range(2):  # the first brings operators, after which the translations are collected once more
            export(torch.nn.Linear(2, 1), torch.ones(3, 2), Exporter.TORCH_EXPORT, run=False, **batch)


def _production(exercise: Exercise, answers: Answers, work: Work, printed: _Counter) -> Production:
    translations = remembered_torchlib() if exercise.torch_export else nullcontext()
    asking = load_produce(exercise)
    try:
        # The limit is the innermost: it must not interrupt the code that restores the state.
        limit = time_limit(exercise.time_limit, PATIENCE)
        with (
            _restored_state(work.questions()),
            redirect_stdout(printed),
            redirect_stderr(printed),
            _prints_to(printed),
            warnings.catch_warnings(action="ignore"),  # a check is no place to read them
            translations,
            limit,
        ):
            asking(answers, work, work.questions())
    except TimeLimitReached as error:
        message: str = Message(
            "Not ready after {exercise.time_limit:g} seconds, and left.", exercise=exercise
        )
        return Production(Status.TIMED_OUT, message, own_line(error))
    except Wrong as wrong:
        where = own_line(wrong.__cause__) if wrong.__cause__ else ""
        return Production(Status.INCORRECT, wrong.message, where, wrong, case=case_of(wrong))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit as well: an answer must not end the notebook
        if raised_by_stub(error):
            return Production(Status.NOT_ATTEMPTED)
        case = case_of(error)
        message = first_line(own_error(error))
        if case is not None and case.name:
            message = Message(
                "{sentence}. This happened for {case.name}.", sentence=message.rstrip("."), case=case
            )
            if case.look_at:
                message = Message("{said} Look at: {case.look_at}", said=message, case=case)
        return Production(Status.ERROR, message, own_line(error), case=case)
    return Production(None)


@contextmanager
def _restored_state(random: np.random.Generator) -> Iterator[None]:
    """Restore what an answer may change globally: exporter rules, random numbers, modes of torch."""
    numpy_state, dtype, grad = np.random.get_state(), torch.get_default_dtype(), torch.is_grad_enabled()
    with restored_rules(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(random.integers(2**31)))
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(grad)


@contextmanager
def _prints_to(printed: _Counter) -> Iterator[None]:
    """Keep what the learner's code prints while it is exported: an export is silent and drops it."""
    before = builtins.print

    def heard(*values: object, file: Any = None, **options: Any) -> None:  # noqa: ANN401 - as print
        learners = file is None and is_learners(sys._getframe(1))
        before(*values, file=printed if learners else file, **options)

    builtins.print = heard
    try:
        yield
    finally:
        builtins.print = before


_GRACE = 5.0  # seconds beyond the time limit; the child keeps the limit by itself unless native code hangs
_PR_SET_PDEATHSIG = 1  # from linux/prctl.h


def produce_in_child(exercise: Exercise, answers: Answers, work: Work) -> Production:
    """Run `produce` in a forked process, where the system forks safely: on Linux.

    The answers live in a notebook's memory and cannot be sent to a fresh process. On macOS, frameworks that
    torch uses do not survive a fork, and Windows has none: there, and where no process can be started,
    `produce` runs in this process, and a crash in native code ends it.

    Returns:
        The production; a crash is an error whose message names the signal.
    """
    if sys.platform != "linux":
        return produce(exercise, answers, work)
    load_exporter(exercise)  # here, and not again in every child
    load_produce(exercise)
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=_run_child, args=(sender, receiver, exercise, answers, work))
    with receiver:
        try:
            with warnings.catch_warnings(action="ignore"):  # Python 3.12 warns of threads; see _run_child
                child.start()
        except OSError:  # a limit on processes, as in a sandbox
            return produce(exercise, answers, work)
        finally:
            sender.close()
        try:
            return _child_production(exercise, child, receiver)
        finally:
            if child.is_alive():
                child.kill()
            child.join()
            child.close()


def _child_production(
    exercise: Exercise, child: multiprocessing.process.BaseProcess, receiver: Connection
) -> Production:
    started = time.perf_counter()
    if not _answers(receiver, child.pid or 0, PATIENCE * exercise.time_limit + _GRACE):
        message = Message(
            "Not ready after {task.time_limit:g} seconds, inside native code, and ended.", task=exercise
        )
        return Production(Status.TIMED_OUT, message, seconds=time.perf_counter() - started)
    try:
        data = receiver.recv_bytes()
    except EOFError:  # it ended without sending anything
        child.join(_GRACE)
        return Production(Status.ERROR, _exit_message(child.exitcode), seconds=time.perf_counter() - started)
    production = pickle.loads(data)
    if isinstance(production, Production):
        return production
    raise KeyboardInterrupt  # the answer raised it, or somebody interrupted the child


def _answers(receiver: Connection, child: int, seconds: float) -> bool:
    """Whether a child sends something in some seconds, in which it computed or waited of its own accord."""
    cpu = 0.0
    while seconds > 0:
        started = time.monotonic()
        if receiver.poll(_INTERVAL):
            return True
        passed = min(time.monotonic() - started, 2 * _INTERVAL)  # else this process stood still, too
        try:
            before, cpu = cpu, time.clock_gettime(~child << 3 | 2)  # its clock, as in clock_getcpuclockid(3)
            state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:  # it has just ended, or a sandbox hides /proc
            state = ""
        # Ready to run (R), or stopped (T): then only what it computed counts.
        seconds -= min(passed, cpu - before) if state in ("R", "T") else passed
    return receiver.poll(0)


def _exit_message(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else "unknown"
        what = Message(
            "The export ended its process with signal {status} ({name}): native code of torch crashed.",
            status=-code,
            name=name,
        )
        why = (
            "The exporter got a graph it cannot handle; most often a node has one input too many or too few."
        )
        return Message("{subject} {reason} This notebook goes on.", subject=what, reason=why)
    return Message("Your code ended the process that it was checked in (exit code {status}).", status=code)


def _run_child(
    sender: Connection, receiver: Connection, exercise: Exercise, answers: Answers, work: Work
) -> None:
    receiver.close()
    os.setsid()  # an interrupt of the notebook is for the notebook, which then ends this process
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # a killed notebook leaves nothing behind
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.disable()  # its report of a crash would be printed below the notebook's cell
    gc.freeze()  # else each collection goes over all of the notebook's objects: a third of an export's time
    with open(os.devnull, "wb") as devnull:  # noqa: PTH123 - for its descriptor
        os.dup2(devnull.fileno(), 1)
        os.dup2(devnull.fileno(), 2)
    # The threads of torch's pool do not exist in a fork; code that waits for one would wait for ever.
    torch.set_num_threads(1)
    try:
        production: Production | None = produce(exercise, answers, work)
    except KeyboardInterrupt:
        production = None
    sender.send_bytes(pickle.dumps(production))
    os._exit(0)  # without the notebook's exit handlers


_INTERVAL = 0.2  # seconds between two alarms; also until the exception is raised again if code swallows it
_TOLERANCE = 0.001  # seconds by which the timer's clock and Python's may differ


class TimeLimitReached(BaseException):
    """Raised in the running code when its time limit is reached.

    Not an `Exception`: a learner's `except Exception` must not swallow it.
    """


@contextmanager
def time_limit(seconds: float, patience: float = 1.0) -> Iterator[None]:
    """End a block after some seconds, by an exception.

    In the main thread, as in a notebook, and where the system has timers, it is raised between any two steps
    of Python, again and again until the block ends. Without timers it comes once, as an interrupt. Neither
    can end native code that never returns. Limits can be nested.

    Args:
        seconds: How long the block may take.
        patience: How many times as long it may take on the clock, while other programs have the processor or
            the block waits. Where the system has no timers, it always may.

    Raises:
        TimeLimitReached: If it takes longer.

    Example:
        >>> try:
        ...     with time_limit(0.05):
        ...         while True:
        ...             pass
        ... except TimeLimitReached:
        ...     print("over")
        over
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # another thread cannot be interrupted; a grader limits whole processes
    elif hasattr(signal, "setitimer"):
        with _timer(seconds, patience):
            yield
    else:
        with _interrupt(patience * seconds):
            yield


class _Clock:
    """Counts the seconds for which the calling thread is itself to blame.

    A second counts if the thread computed, or if it waited of its own accord. It does not count while the
    thread was ready to run and the system ran others, or while the whole process stood still.

    Attributes:
        seconds: The seconds that count.
        busy: Those of them in which it computed.
    """

    def __init__(self) -> None:
        self.seconds = self.busy = 0.0
        self._now, self._cpu, self._waits = time.monotonic(), time.thread_time(), _voluntary_waits()

    def count(self) -> None:
        """Count the time since the last call, which should be `_INTERVAL` ago."""
        now, cpu, waits = time.monotonic(), time.thread_time(), _voluntary_waits()
        busy = cpu - self._cpu
        # More than an interval went by without this call: native code, or a process that stood still.
        passed = min(now - self._now, 2 * _INTERVAL + busy)
        self.busy += busy
        self.seconds += busy if waits == self._waits and waits is not None else max(busy, passed)
        self._now, self._cpu, self._waits = now, cpu, waits


def _voluntary_waits() -> int | None:
    """Return how often this thread has left the processor by itself; None where the system does not count."""
    if resource is None or not hasattr(resource, "RUSAGE_THREAD"):
        return None
    return int(resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw)


@contextmanager
def _timer(seconds: float, patience: float) -> Iterator[None]:
    started, clock = time.monotonic(), _Clock()
    remaining, interval = signal.getitimer(signal.ITIMER_REAL)  # of a limit around this one; 0: none

    def on_alarm(number: int, frame: FrameType | None) -> None:
        elapsed = time.monotonic() - started + _TOLERANCE
        if remaining and elapsed >= remaining and callable(previous):
            previous(number, frame)  # the outer limit raises its own exception
        clock.count()
        if max(clock.seconds / patience, clock.busy) + _TOLERANCE >= seconds:
            raise TimeLimitReached

    previous = signal.signal(signal.SIGALRM, on_alarm)
    # A process has one such timer: an earlier one is replaced here, and started again at the end.
    first = min(seconds, remaining or seconds, _INTERVAL)
    signal.setitimer(signal.ITIMER_REAL, first, _INTERVAL)
    try:
        yield
    finally:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        finally:  # an alarm may interrupt that call; none arrives after this one
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
            if remaining:
                rest = max(remaining - (time.monotonic() - started), _TOLERANCE)
                signal.setitimer(signal.ITIMER_REAL, rest, interval)


@contextmanager
def _interrupt(seconds: float) -> Iterator[None]:
    reached = threading.Event()

    def interrupt() -> None:
        reached.set()
        _thread.interrupt_main()

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except KeyboardInterrupt:
        if reached.is_set():
            raise TimeLimitReached from None
        raise
    finally:
        timer.cancel()
