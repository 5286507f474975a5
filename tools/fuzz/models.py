"""Give damaged models to the graphs, the comparison, the queries and the judges, each in its own process.

Expected is a result, or an error of the course's own class in at most three lines. A fault is anything else:
another exception, more than ten seconds, more than two gigabytes, a process that ends by a signal, or a byte
of a file outside the model's folder. Where the judges' process dies inside ONNX Runtime, that is counted
apart: a grader survives it, and a notebook judges what its own exporter made.
"""

import contextlib
import faulthandler
import importlib
import json
import os
import resource
import select
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]  # it has no types
import torch

import onnxlab
from onnxlab.errors import OnnxLabError
from onnxlab.labs.kit.checking import judge, questions_seed
from onnxlab.labs.kit.exercise import Exercise, exercise
from onnxlab.labs.kit.producing import produce_in_child
from onnxlab.labs.kit.work import Work
from onnxlab.model.diff import diff
from onnxlab.model.graph import dims, edges, op_types, outline, summary, walk
from onnxlab.notebook.graph.saved_form import model_image
from onnxlab.notebook.graph.view import GraphMessage, GraphView, graph
from tools.fuzz.mutation import mutated
from tools.fuzz.table import FAULT, Table

_SECONDS, _PATIENCE = 10.0, 90.0  # of the processor; in all, on a machine that others use, too
_MEMORY = 2 << 30
SECRET = b"nobody may read this"
"""The content of a file beside the model's folder, which nothing may show."""

_RECORDED = Path(onnxlab.__file__).parent / "assets" / "recorded"
_FUNCTIONS = """<ir_version: 10, opset_import: ["": 18, "own": 1]>
calls (float[N, 4] x) => (float[N, 4] y) { y = own.twice <times = 2> (x) }
<domain: "own", opset_import: ["": 18]> twice <times> (x) => (y) { one = own.once (x)  y = Add (one, x) }
<domain: "own", opset_import: ["": 18]> once (x) => (y) { y = Constant <value_int: int = @times> () }"""


@dataclass(frozen=True)
class _Answered:
    """An exercise, and the folder of files that a right answer made."""

    exercise: Exercise
    folder: Path

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.onnx"))


def fuzz_models(trials: int, seed: int, *, first: int = 0, every: int = 1) -> Table:
    """Try so many damaged models.

    Args:
        trials: How many.
        seed: The same seed gives the same models.
        first: The number of the first trial: a single one can be repeated.
        every: Judge with every Nth exercise only; 0 for no judge, which spares the exports.
    """
    table = Table("stage", ["drawn", "refused", "ended"])
    with tempfile.TemporaryDirectory() as name:
        answered = list(_answered(Path(name), every)) if every else []
        models = [*known_models(), *(file.read_bytes() for made in answered for file in made.files)]
        with contextlib.suppress(OnnxLabError):
            graph(models[0])  # loads Netron once, not in every child
        for number in range(first, first + trials):
            random = Random(f"{seed} {number}")
            place = Path(name) / "trial"
            data, other = mutated(random.choice(models), random), random.choice(models)
            stages = _stages(place, data, other, answered, random)
            for stage, kind, reason, example in run_apart(place, stages):
                table.add(stage, kind, reason, f"trial {number}: {example}")
            table.progress(number - first + 1, trials)
    return table


def known_models() -> list[bytes]:
    """Return the models to damage: the tests' small ones, and those that old versions of torch wrote."""
    parse: Any = importlib.import_module("onnx.parser").parse_model
    small: Any = importlib.import_module("tests.support.graph_models")
    models = [parse(_FUNCTIONS), small.chain(), small.loop(), small.string_everywhere("text")]
    models += [small.modules(blocks, scopes=scopes) for blocks in (2, 40) for scopes in (False, True)]
    return [
        *(model.SerializeToString() for model in models),
        *(p.read_bytes() for p in sorted(_RECORDED.rglob("*.onnx"))),
    ]


def _answered(folder: Path, every: int) -> Iterator[_Answered]:
    """Let right answers make their files; those of exercises that make no ONNX file are left out."""
    contracts: dict[str, Any] = importlib.import_module("tests.support.labs").contracts()
    torch.set_num_threads(1)  # the threads of a pool are not in a fork
    for name in sorted(contracts)[::every]:
        _, record = exercise(name)
        (place := folder / name).mkdir()
        answers = dict(zip(record.answers, contracts[name].right[0], strict=True))
        produce_in_child(record, answers, Work(place, questions_seed(record, 0)))
        if (submission := _Answered(record, place)).files:
            yield submission


Stage = tuple[str, Callable[[], None]]
"""What is run, by its name in the table; one named "prepare" has no row."""


def _stages(place: Path, data: bytes, other: bytes, answered: list[_Answered], random: Random) -> list[Stage]:
    path = place / "model" / "model.onnx"

    stages: list[Stage] = [
        ("prepare", lambda: damaged_folder(place, data, other)),
        ("graph", lambda: _show(graph(path))),
        ("graph, two", lambda: _show(graph(path, place / "other.onnx"))),
        ("graph, of bytes", lambda: _show(graph(other, data, highlight="Conv", values={"y": 1.0}))),
        ("groups", lambda: _show(graph(path, groups=True))),
        ("picture", lambda: _private(model_image(data, ["Relu"]))),
        ("diff", lambda: _private(str(diff(path, data)))),
        ("queries", lambda: _query(path)),
    ]
    if answered:
        submission = random.choice(answered)
        target = random.choice(submission.files)
        stages.append(("judge", lambda: _judge(submission, target, random)))
    return stages


def damaged_folder(place: Path, data: bytes, other: bytes) -> None:
    """Write a model where external weights can point to, with a file beside it; and another model outside."""
    folder = place / "model"
    (folder / "folder").mkdir(parents=True)
    os.mkfifo(folder / "fifo")
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "weights").write_bytes(bytes(64))
    (place / "outside").write_bytes(SECRET)
    (place / "other.onnx").write_bytes(other)
    (folder / "model.onnx").write_bytes(data)


def _private(shown: str | bytes) -> None:
    if SECRET in (shown.encode("utf-8", "replace") if isinstance(shown, str) else shown):
        raise AssertionError("A file outside the model's folder was read.")


def _show(shown: GraphView | GraphMessage) -> None:
    """Make every request that a notebook and its page make of a graph."""
    if isinstance(shown, GraphMessage):
        shown._repr_mimebundle_()
        raise OnnxLabError(repr(shown))
    answers: list[tuple[dict[str, Any], list[bytes]]] = []
    shown.send = lambda content, buffers=None: answers.append((content, buffers or []))
    shown._ipython_display_()
    _private(str(shown._repr_html_()) + repr(shown))
    for number, pane in enumerate(shown._panes):
        questions = [{"kind": "model", "grouped": grouped, "pane": number} for grouped in (True, False)]
        places = [f"weight-{place}" for place in range(min(20, len(pane.flat.weights)))]
        questions += [{"kind": "weight", "location": place, "pane": number} for place in places]
        for question in questions:
            shown._answer(shown, question, [])
    for _, buffers in answers:
        for data in buffers:
            _private(data)


def _query(path: Path) -> None:
    facts = summary(path)
    op_types(path), outline(path), edges(path), list(walk(path))
    for value in (*facts.inputs[:2], *facts.outputs[:2]):
        dims(path, value.name)


def _judge(submission: _Answered, target: Path, random: Random) -> None:
    before = target.read_bytes()
    try:
        target.write_bytes(mutated(before, random))
        findings = judge(
            submission.exercise, Work(submission.folder, questions_seed(submission.exercise, 0)), 0
        )
    finally:
        target.write_bytes(before)
    assert all(finding.holds in (True, False) for finding in findings)
    wrong = [finding for finding in findings if not finding.holds]
    assert all(finding.message.strip() for finding in wrong)
    if wrong and (shown := wrong[0].evidence) is not None:  # the others have the same model, as a rule
        with contextlib.suppress(OnnxLabError):  # as a page of feedback draws it, and a notebook
            model_image(shown.model, shown.highlight)
            _show(graph(shown.model, shown.expected, highlight=shown.highlight))
    if wrong:
        raise OnnxLabError(wrong[0].message)


def run_apart(place: Path, stages: list[Stage]) -> Iterator[tuple[str, str, str, str]]:
    """Run the stages in a child; yield name, outcome ("drawn", "refused" or FAULT), reason and example."""
    receiver, sender = os.pipe()
    process = os.fork()
    if not process:
        os.close(receiver)
        with contextlib.suppress(BaseException), _stack(place).open("w", encoding="utf-8") as log:
            faulthandler.register(signal.SIGUSR1, log)
            _run(stages, sender)
        os._exit(0)
    os.close(sender)
    text, current, started = b"", "", (time.monotonic(), 0.0)
    with os.fdopen(receiver, "rb", 0) as pipe:
        while True:
            if not select.select([pipe], [], [], 0.5)[0]:
                waited, computed = time.monotonic() - started[0], _computed(process) - started[1]
                if computed < _SECONDS and waited < _PATIENCE:
                    continue
                os.kill(process, signal.SIGUSR1)  # it writes its stack
                time.sleep(1)
                os.kill(process, signal.SIGKILL)
                calls = _stack(place).read_text("utf-8").splitlines()[1:4]
                example = " ".join([f"{computed:.1f} s computed;", *(call.split("/")[-1] for call in calls)])
                yield current, FAULT, f"more than {_SECONDS:g} seconds", example
                break
            if not (part := pipe.read(65536)):
                break
            *lines, text = (text + part).split(b"\n")
            for line in lines:
                current, kind, reason, example = json.loads(line)
                started = time.monotonic(), _computed(process)
                if kind and current != "prepare":
                    yield current, kind, reason, example
                    current = ""
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if code < 0 and current and code != -signal.SIGKILL:
        kind = "ended" if current == "judge" else FAULT
        yield current, kind, signal.Signals(-code).name, ""
    shutil.rmtree(place, ignore_errors=True)


def _stack(place: Path) -> Path:
    return place.with_suffix(".stack")


def _computed(process: int) -> float:
    """Seconds of the processor that a process has taken."""
    times = psutil.Process(process).cpu_times()
    return float(times.user + times.system)


def _run(stages: list[Stage], sender: int) -> None:
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - for its descriptor
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, used + _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    np.seterr(all="ignore")
    for name, stage in stages:
        _tell(sender, name, "")
        try:
            stage()
        except OnnxLabError as error:
            lines = str(error).splitlines()
            bad = len(lines) > 3 or not lines
            _tell(sender, name, FAULT if bad else "refused", f"{len(lines)} lines" if bad else "", str(error))
        except BaseException as error:
            frames = traceback.extract_tb(error.__traceback__)
            own = [frame for frame in frames if "onnxlab" in frame.filename][-1:]
            where = " ".join(f"at {Path(frame.filename).name}:{frame.lineno}" for frame in own)
            _tell(sender, name, FAULT, f"{type(error).__name__} {where}", " ".join(str(error).split())[:80])
        else:
            _tell(sender, name, "drawn")


def _tell(sender: int, name: str, kind: str, reason: str = "", example: str = "") -> None:
    os.write(sender, json.dumps([name, kind, reason, example]).encode() + b"\n")
