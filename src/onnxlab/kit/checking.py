"""One check of one exercise: call the learner's functions, then judge the files that they leave."""

import importlib
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import torch

from onnxlab.errors import UnknownExercise
from onnxlab.kit.exercise import Answers, Exercise, Judge, Judges
from onnxlab.kit.judging import expecting
from onnxlab.kit.outcome import USABLE, Case, Finding, Outcome, Status, Wrong, case_of
from onnxlab.kit.producing import Production, produce_in_child
from onnxlab.kit.work import Work
from onnxlab.message import Message


def check(exercise: Exercise, answers: Answers, seed: int = 0) -> Outcome:
    """Check an exercise: call the answers, in a child process where possible, and judge what they leave.

    The questions and the test inputs are drawn from the seed.

    Raises:
        UnknownExercise: If one of `exercise.answers` is missing.

    Example:
        >>> from onnxlab.kit.exercise import exercise
        >>> _, record = exercise("asinh-symbolic")
        >>> outcome = check(record, {"asinh_symbolic": lambda g, x: g.op("Asinh", x)})
        >>> outcome.status.value, outcome.points
        ('passed', 2)
    """
    if missing := [name for name in exercise.answers if name not in answers]:
        msg = Message(
            "{exercise.id} needs {answers}; {missing} was not given.",
            exercise=exercise,
            answers=", ".join(exercise.answers),
            missing=", ".join(missing),
        )
        raise UnknownExercise(msg)
    with tempfile.TemporaryDirectory(prefix="onnxlab-") as folder:
        work = Work(Path(folder), questions_seed(exercise, seed))
        production = refused(exercise, answers) or produce_in_child(exercise, answers, work)
        if production.status is not None:
            return _unjudged(exercise, production)
        started = time.perf_counter()
        findings = judge(exercise, work, seed)
    status = Status.PASSED if all(finding.holds for finding in findings) else Status.INCORRECT
    points = exercise.points if status is Status.PASSED else 0
    seconds = production.seconds + time.perf_counter() - started
    return Outcome(
        exercise.id,
        status,
        points,
        exercise.points,
        findings,
        printed=production.printed,
        tail=production.tail,
        seconds=seconds,
    )


def questions_seed(exercise: Exercise, seed: int) -> list[int]:
    """Return the seed of the questions. The learner's process may know nothing else about a run."""
    return [seed, zlib.crc32(exercise.id.encode()), 0]


def judge(exercise: Exercise, work: Work, seed: int) -> tuple[Finding, ...]:
    """Judge the files in the folder, with test inputs drawn from a seed. No learner's code is run."""
    key, judges = zlib.crc32(exercise.id.encode()), load_judges(exercise)
    with _one_thread():
        return tuple(
            _finding(title, part, judges, work, np.random.default_rng([seed, key, number]))
            for number, (title, part) in enumerate(zip(exercise.parts, judges.parts, strict=True), 1)
        )


def load_judges(exercise: Exercise) -> Judges:
    """Return an exercise's judges; their module is loaded only now, when the answer has been asked."""
    if exercise.judges is not None:
        return exercise.judges
    judges: Judges = importlib.import_module(f"onnxlab.judges.{exercise.module}").JUDGES
    return judges


def _unjudged(exercise: Exercise, production: Production) -> Outcome:
    """Return the outcome of a production that left nothing to judge."""
    assert production.status is not None
    outcome = Outcome(
        exercise.id,
        production.status,
        0,
        exercise.points,
        message=production.message,
        where=production.where,
        printed=production.printed,
        tail=production.tail,
        seconds=production.seconds,
        case=production.case,
    )
    if production.wrong is None:
        return outcome
    # The answer itself was refused; nothing is known of the parts. The case is taken from the production,
    # because the exception can lose its cause, which may hold the case, on the way from the child process.
    refusal = replace(_refuted(USABLE, production.wrong), case=production.case)
    unknown = (Finding(title, None) for title in exercise.parts)
    return replace(outcome, findings=(refusal, *unknown), message="", case=None)


def refused(exercise: Exercise, answers: Answers) -> Production | None:
    """Return a production that says which answer is no function or class; None if all are."""
    for name in exercise.answers:
        if not callable(answers[name]):
            what = (
                Message("None")
                if answers[name] is None
                else Message("of type {name}", name=type(answers[name]).__name__)
            )
            wrong = Wrong(
                "{name} is {subject}; a function or class was expected.",
                "Give its name, without a call.",
                name=name,
                subject=what,
            )
            return Production(Status.INCORRECT, wrong=wrong)
    return None


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch use one thread. The references are small: more threads would only keep cores busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _finding(title: str, part: Judge, judges: Judges, work: Work, random: np.random.Generator) -> Finding:
    try:
        with expecting(partial(judges.expected, work)) if judges.expected else nullcontext():
            part(work, random)
    except Wrong as wrong:
        return _refuted(title, wrong)
    return Finding(title, True)


def _refuted(title: str, wrong: Wrong) -> Finding:
    case = case_of(wrong)
    if case is None and wrong.evidence is not None:
        case = Case("", {"model": onnx.load_model_from_string(wrong.evidence.model)})
    return Finding(title, False, wrong.message, wrong.look_at, wrong.difference, wrong.evidence, case)
