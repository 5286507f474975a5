"""Give every judge folders of answers in which files are damaged: models, JSON and arrays.

The files are those of a right answer, changed as no learner's code and no honest exporter would. Expected is
a finding for each part, with a message where it does not hold. A fault is any exception. Where the judge's
process is ended from within ONNX Runtime or computes for more than a minute, that is counted apart: the
grader survives it, and gives no points.
"""

import importlib
import json
import os
import resource
import signal
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import torch

from onnxlab.labs.kit.checking import questions_seed
from onnxlab.labs.kit.exercise import Exercise, exercise
from onnxlab.labs.kit.producing import produce_in_child
from onnxlab.labs.kit.work import Work
from tools.fuzz.folders import Folder, damaged, judged
from tools.fuzz.table import FAULT, Table

_SECONDS = 60  # of CPU time, for one folder
_MEMORY = 4 << 30


def fuzz_answers(trials: int, seed: int, *, first: int = 0, every: int = 1) -> Table:
    """Try so many damaged folders, the same number for each judge.

    Args:
        trials: How many in all; at least one for each judge.
        seed: The same seed gives the same folders.
        first: The number of the first trial of each judge.
        every: Every Nth exercise only.
    """
    table = Table("exercise", ["passed", "refused", "ended"])
    answers = _right_answers()
    names = sorted(answers)[::every]
    each = max(1, trials // len(names))
    numbers = range(first, first + each)
    everything = [content for folder in answers.values() for content in folder.values()]
    for done, name in enumerate(names):
        _, record = exercise(name)
        for number, kind, reason in _apart(record, answers[name], everything, seed, numbers):
            table.add(name, kind, reason, f"trial {number}")
        table.progress((done + 1) * each, trials)
    return table


def _right_answers() -> dict[str, Folder]:
    """Return the files of a right answer to each exercise, by its id."""
    contracts: dict[str, Any] = importlib.import_module("tests.support.labs").contracts()
    torch.set_num_threads(1)  # the threads of a pool are not in a fork
    answers: dict[str, Folder] = {}
    for name, contract in sorted(contracts.items()):
        _, record = exercise(name)
        functions = dict(zip(record.answers, contract.right[0], strict=True))
        with tempfile.TemporaryDirectory() as folder:
            production = produce_in_child(record, functions, Work(Path(folder), questions_seed(record, 0)))
            assert production.status is None, f"{name}: {production.message}"
            answers[name] = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
    return answers


def _apart(
    record: Exercise, answer: Folder, everything: list[bytes], seed: int, trials: range
) -> Iterator[tuple[int, str, str]]:
    """Judge damaged folders in a child; yield the trial, the outcome and the reason of a fault."""
    while trials:
        receiver, sender = os.pipe()
        process = os.fork()
        if not process:
            try:
                _judge_all(record, answer, everything, seed, trials, sender)
            finally:
                os._exit(0)
        os.close(sender)
        text = b""
        with os.fdopen(receiver, "rb", 0) as pipe:
            while part := pipe.read(65536):
                text += part
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        outcomes = [json.loads(line) for line in text.splitlines()]
        yield from zip(trials, *zip(*outcomes, strict=True), strict=False) if outcomes else ()
        trials = trials[len(outcomes) :]
        if trials:
            yield trials[0], "ended", signal.Signals(-code).name if code < 0 else ""
            trials = trials[1:]


def _judge_all(
    record: Exercise, answer: Folder, everything: list[bytes], seed: int, trials: range, sender: int
) -> None:
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - for its descriptor
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    with tempfile.TemporaryDirectory() as folder:
        for number in trials:
            random = Random(f"{seed} {record.id} {number}")
            used = resource.getrusage(resource.RUSAGE_SELF)
            limit = int(used.ru_utime + used.ru_stime) + _SECONDS
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            try:
                outcome = judged(record, damaged(answer, everything, random), Path(folder, "answer")), ""
            except Exception as error:
                frames = [
                    frame
                    for frame in traceback.extract_tb(error.__traceback__)
                    if "onnxlab" in frame.filename
                ]
                where = " ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-2:])
                outcome = FAULT, f"{type(error).__name__} at {where}: {' '.join(str(error).split())[:80]}"
            os.write(sender, json.dumps(outcome).encode() + b"\n")
