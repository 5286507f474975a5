"""Running a learner's code: what it prints, raises, registers and how long it takes stays in here."""

import contextlib
import functools
import io
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from onnxlab.exporters.export import Exporter, export, without_tqdm_thread
from onnxlab.exporters.symbolics import restored_rules
from onnxlab.exporters.torchlib import remembered_torchlib
from onnxlab.labs.kit.blame import first_line, learners, own_error, own_line, raised_by_stub
from onnxlab.labs.kit.case import Case, case_of
from onnxlab.labs.kit.exercise import Answers, Exercise
from onnxlab.labs.kit.outcome import Status, Wrong
from onnxlab.labs.kit.time_limit import TimeLimitReached, time_limit
from onnxlab.labs.kit.work import Work

__all__ = ["PATIENCE", "Production", "load_exporter", "produce"]

PATIENCE = 2.0
"""How many times its limit an exercise may take on the clock, where others use the processor as well."""


@dataclass(frozen=True)
class Production:
    """How it went.

    Attributes:
        status: Why there is nothing to judge; None if there is.
        message: What happened.
        where: The learner's own line.
        wrong: Set where an answer was of the wrong kind.
        printed: How many characters were printed.
        seconds: How long it took.
        case: What was tried at the end, where an error was raised.
    """

    status: Status | None
    message: str = ""
    where: str = ""
    wrong: Wrong | None = None
    printed: int = 0
    seconds: float = 0.0
    case: Case | None = None


class _Counter(io.TextIOBase):
    """Takes whatever is printed and counts it. A flood costs no memory and no screen."""

    count = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.count += len(text)
        return len(text)


def produce(exercise: Exercise, answers: Answers, work: Work) -> Production:
    """Call a learner's functions and keep what they make.

    Args:
        exercise: The exercise.
        answers: The learner's functions by name.
        work: The folder to write into.

    Returns:
        What happened. Whatever the functions raise is in it; only a wish to stop (an interrupt) comes out.
    """
    with learners(answers.values()):
        return _produced(exercise, answers, work)


def load_exporter(exercise: Exercise) -> None:
    """Import what an exercise's exports need, before its time is counted. Where it is there, nothing is done.

    The first torch.export of a process imports some 2,000 modules, several seconds' worth. A limit that ends
    in the middle of them would leave them half imported, and the next export would fail of that.
    """
    if exercise.torch_export:
        _use_torch_export()


@functools.cache
def _use_torch_export() -> None:
    # An export imports more than any list of modules names, and none of it starts a thread.
    batch = {"dynamic_shapes": ({0: "batch"},)}
    with without_tqdm_thread(), remembered_torchlib():
        export(torch.nn.Linear(2, 1), torch.ones(3, 2), Exporter.TORCH_EXPORT, run=False, **batch)


def _produced(exercise: Exercise, answers: Answers, work: Work) -> Production:
    load_exporter(exercise)
    printed = _Counter()
    translations = remembered_torchlib() if exercise.torch_export else contextlib.nullcontext()
    started = time.perf_counter()

    def ended(
        status: Status | None,
        message: str = "",
        where: str = "",
        wrong: Wrong | None = None,
        case: Case | None = None,
    ) -> Production:
        return Production(status, message, where, wrong, printed.count, time.perf_counter() - started, case)

    try:
        # The limit is the innermost: it must not interrupt what puts things back.
        limit = time_limit(exercise.time_limit, PATIENCE)
        with _apart(work.questions()), _into(printed), translations, limit:
            exercise.produce(answers, work, work.questions())
    except TimeLimitReached as error:
        message = f"Not ready after {exercise.time_limit:g} seconds, and left."
        return ended(Status.TIMED_OUT, message, own_line(error))
    except Wrong as wrong:
        where = own_line(wrong.__cause__) if wrong.__cause__ else ""
        return ended(Status.INCORRECT, wrong.message, where, wrong, case_of(wrong))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit as well: an answer must not end the notebook
        if raised_by_stub(error):
            return ended(Status.NOT_ATTEMPTED)
        case = case_of(error)
        message = first_line(own_error(error))
        if case is not None and case.name:
            message = f"{message.rstrip('.')}. This happened for {case.name}."
        return ended(Status.ERROR, message, own_line(error), case=case)
    return ended(None)


@contextlib.contextmanager
def _apart(random: np.random.Generator) -> Iterator[None]:
    """Put back what an answer may change for everybody: rules, random numbers, modes of torch."""
    numbers, dtype, grad = np.random.get_state(), torch.get_default_dtype(), torch.is_grad_enabled()
    with restored_rules(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(random.integers(2**31)))
        try:
            yield
        finally:
            np.random.set_state(numbers)
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(grad)


@contextlib.contextmanager
def _into(printed: _Counter) -> Iterator[None]:
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        warnings.catch_warnings(action="ignore"),  # a check is no place to read them
    ):
        yield
