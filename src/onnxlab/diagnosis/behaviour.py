"""Symptoms that a file shows when it is loaded and run, in a process of its own."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import onnx

from onnxlab.diagnosis.messages import explain
from onnxlab.diagnosis.model_file import ModelFile
from onnxlab.diagnosis.symptom import Symptom, finding, label, listing
from onnxlab.message import Message
from onnxlab.model.graph import operator
from onnxlab.plain_text import plain

Report: TypeAlias = Mapping[str, Any]
"""What the trial reported of a step."""

Reports: TypeAlias = dict[str, list[Report]]
"""Its reports, by step."""

_STEPS = {
    "checker": ("ONNX's checker did not end in time.", "ONNX's checker ended the process."),
    "inference": ("Shape inference did not end in time.", "Shape inference ended the process."),
    "load": ("Loading it did not end in time.", "Loading it ended the process."),
    "run": ("Running it did not end in time.", "Running it ended the process."),
}
DOES_NOT_LOAD = "Not run, and not compared with PyTorch: it does not load."
ENDED_BEFORE = "Not run, and not compared with PyTorch: the trial ended before."
"""Said of a file that this process must not run either: it could end it, or never end."""

_OTHER_SIZES = "Running it at other sizes did not end in time."
_MOST_REWRITTEN = 200 << 20
"""Bytes of a file up to which the model that the runtime makes of it is written and read."""


@dataclass(frozen=True)
class _Trial:
    """How a trial went.

    Attributes:
        reports: What it reported.
        ended: Its exit status; negative for a signal, None if the time was up.
        last_line: What it wrote last to stderr.
    """

    reports: Reports
    ended: int | None
    last_line: str

    @property
    def crashed(self) -> bool:
        """Whether something ended the process that no Python code can catch; on Windows, a large status."""
        return self.ended is not None and not 0 <= self.ended < 256

    @property
    def reason(self) -> str:
        """What ended it."""
        assert self.ended is not None
        return f"signal {-self.ended}" if self.ended < 0 else f"status {self.ended:#x}"


def try_out(file: ModelFile, seconds: float, progress: Callable[[str], None]) -> tuple[list[Symptom], str]:
    """Check, load and run a file in a process of its own.

    Args:
        file: The file.
        seconds: How long that may take.
        progress: Called with what begins.

    Returns:
        What was found, and why the file was not run; an empty string if it was.
    """
    with tempfile.TemporaryDirectory() as folder:
        structure, rewritten = Path(folder, "structure.onnx"), Path(folder, "optimised.onnx")
        structure.write_bytes(file.model.SerializeToString())
        optimised = [str(rewritten)] if file.size <= _MOST_REWRITTEN else []
        arguments = [str(file.path.absolute()), str(structure)]
        progress("checks, loads and runs it")
        deadline = time.monotonic() + seconds
        trial = _follow([*arguments, "0", *optimised], Path(folder), seconds)
        symptoms = [*_unfinished(trial, seconds)]
        skip = 0
        while trial.crashed and "run" not in trial.reports and trial.reports.get("trying"):
            skip += len(
                trial.reports["trying"]
            )  # each of these sizes was refused, but the last: it was fatal
            left = max(0.0, deadline - time.monotonic())
            trial = _follow([*arguments, str(skip), *optimised], Path(folder), left)
        if skip and not trial.crashed and trial.ended is not None:
            symptoms += _unfinished(trial, seconds)
        whole = "load" in trial.reports and rewritten.exists()
        fused = onnx.load(rewritten, load_external_data=False) if whole else None
    for step, find in BEHAVIOUR.items():
        symptoms += [symptom for report in trial.reports.get(step, []) for symptom in find(report)]
    if fused is not None:
        symptoms += missed_fusions(fused)
    return symptoms, _not_run(trial.reports)


def _not_run(reports: Reports) -> str:
    """Return why a file was not run; an empty string if it was."""
    if any(report["error"] for report in reports.get("load", [])):
        return DOES_NOT_LOAD
    for report in reports.get("understood", []):
        return Message(
            "Not run: no values can be drawn for the input {listing}.", listing=listing(report["names"])
        )
    if any(report["sizes"] is not None for report in reports.get("run", [])):
        return ""
    if "run" in reports:
        return "Not run: it refused all sizes and values that were tried."
    return ENDED_BEFORE


def _follow(arguments: list[str], folder: Path, seconds: float) -> _Trial:
    """Run a trial in an empty folder; `-P` keeps even that off the path."""
    command = [sys.executable, "-P", "-m", "onnxlab.diagnosis.trial", *arguments]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
        )
        try:
            ended: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            ended = None
        output.seek(0)
        reports: Reports = {}
        for line in output:
            if line.startswith('{"step"') and line.endswith("\n"):
                report = json.loads(line)
                reports.setdefault(report["step"], []).append(report)
        errors.seek(max(0, errors.seek(0, 2) - 4096))
        lines = [line for line in errors.read().decode(errors="replace").splitlines() if line.strip()]
    return _Trial(reports, ended, plain(lines[-1].strip(), 200) if lines else "")


def _unfinished(trial: _Trial, seconds: float) -> Iterator[Symptom]:
    reports = trial.reports
    step = next((name for name in _STEPS if name not in reports), None)
    if trial.ended is None:
        yield Symptom(
            "risk" if step is None else "wrong",
            _STEPS[step][0] if step else _OTHER_SIZES,
            Message(
                "It had {seconds:g} seconds; a program that opens the file waits as long.", seconds=seconds
            ),
            "Look for a Loop that does not end, or give more time with --seconds.",
            "loop",
        )
    elif trial.crashed:
        why = Message(
            "It was {trial.reason}: a program that does the same ends without an exception to catch.",
            trial=trial,
        )
        if step == "run" and "trying" in reports:
            tried = reports["trying"][-1]["sizes"]
            sizes = listing([f"{plain(axis, 60)} = {size}" for axis, size in tried.items()])
            why = Message(
                "It was {trial.reason}, with {sizes}; there is no exception to catch.",
                trial=trial,
                sizes=sizes,
            )
        yield Symptom(
            "wrong",
            _STEPS[step or "run"][1],
            why,
            "Check the sizes of the inputs before each run, and run it in a process of its own.",
            "foreign",
        )
    elif "end" not in reports:
        what = Message("The trial of the file ended early, with exit status {trial.ended}.", trial=trial)
        yield Symptom(
            "risk",
            Message("{subject} Its last line: {trial.last_line}", subject=what, trial=trial)
            if trial.last_line
            else what,
            "What it had not tried by then is not known: the file may fail there.",
            "Try the same file in a fresh environment; if it ends there as well, report it with the file.",
            "foreign",
        )


@finding(
    "wrong",
    "mistakes",
    "The file breaks the standard: a runtime may refuse it, or compute something else.",
    "Export again, or repair the named node and run onnx.checker.check_model.",
)
def checker(report: Report) -> Iterator[str]:
    """The checker refuses the file."""
    if report["error"]:
        what = Message("ONNX's checker refuses the file: {report}", report=plain(report["error"], 200))
        yield what


@finding(
    "risk",
    "inference",
    "The types or shapes that the file declares do not fit its operators.",
    "Correct the declared type, or remove value_info, and infer the shapes again.",
)
def inference(report: Report) -> Iterator[str]:
    """Shape inference contradicts the file."""
    if report["error"]:
        what = Message("Shape inference fails: {report}", report=plain(report["error"], 200))
        yield what


@finding(
    "wrong",
    "load",
    "The file does not load, so it cannot run.",
    "Find the named node in the graph and the line of the model that made it.",
)
def load(report: Report) -> Iterator[str | Symptom]:
    """The installed runtime refuses the file."""
    if report["error"]:
        what = Message("ONNX Runtime refuses to load it: {report}", report=plain(report["error"], 200))
        known = explain(report["error"], 1)
        yield Symptom("wrong", what, known[0].cause, known[0].cure, known[0].place) if known else what


@finding(
    "risk",
    "sizes",
    "It was tried with normally distributed values at several sizes.",
    "Run it with the inputs it was exported with; if that works, its sizes or values are restricted.",
)
def first_run(report: Report) -> Iterator[str]:
    """The file loads, and runs at no size that was tried."""
    if report["sizes"] is None and not report["whole"]:
        what = Message("It loads, and did not run: {report}", report=plain(report["error"], 200))
        yield what


@finding(
    "wrong",
    "sizes",
    "The label promises what the graph does not do.",
    "Look in forward for a Python number made of a size (int(x.shape[0]), .item(), view): it was frozen.",
)
def axes(report: Report) -> Iterator[str | Symptom]:
    """Dynamic axes that accept one size, or some."""
    refused = {size: plain(error, 160) for size, error in report["results"] if error}
    name, base = plain(report["symbol"], 60), report["base"]
    larger = [size for size, _ in report["results"] if size > base]
    bad = next((size for size in refused if size > base or report["batch"]), None)
    if larger and all(size in refused for size in larger):
        first = larger[0]
        what = Message(
            "The axis {name!r} is declared dynamic, and only {base} runs: {first} fails, {refused}",
            name=name,
            base=base,
            first=first,
            refused=refused[first],
        )
        yield what
    elif bad is not None:
        runs = listing(sorted({base, *larger} - set(refused)))
        what = Message(
            "The axis {name!r} runs at {runs} and fails at {bad}: {refused}",
            name=name,
            runs=runs,
            bad=bad,
            refused=refused[bad],
        )
        why = "A condition between sizes is in the graph, and not in the file's declaration."
        then = (
            "State the sizes that are allowed, and pad the input to one of them, or export without "
            "the condition."
        )
        yield Symptom("risk", what, why, then, "conditions")


@finding(
    "wrong",
    "right sizes",
    "Who reads the declaration reserves the wrong memory.",
    "Make that axis dynamic, or find what was frozen at the example's size.",
)
def shapes(report: Report) -> Iterator[str]:
    """Outputs with another shape than the file declares."""
    for name, said, made in report["shapes"]:
        if said and (
            len(said) != len(made)
            or any(isinstance(a, int) and a != b for a, b in zip(said, made, strict=True))
        ):
            shown = plain(said, 80)
            yield Message(
                "The output {name!r} is declared as {shown} and has the shape {made}.",
                name=plain(name, 60),
                shown=shown,
                made=made,
            )


@finding(
    "wrong",
    "training",
    "Something random, or a state, is in the graph.",
    "Export in eval mode; pass a seed or noise as an input.",
)
def again(report: Report) -> Iterator[str]:
    """Outputs that differ between two runs of the same input."""
    if report["differing"]:
        yield Message(
            "Two runs with the same input differ in {listing}.", listing=listing(report["differing"])
        )


@finding(
    "risk",
    "right sizes",
    "Statistics of the batch, or a frozen size, are in the graph.",
    "Export in eval mode; if the batch is not axis 0, or it is wanted, there is nothing to do.",
)
def rows(report: Report) -> Iterator[str]:
    """Outputs of an element that depend on the rest of its batch."""
    if report["differing"]:
        names = listing(report["differing"])
        yield Message(
            "For the first element of a batch, the output {names} changes with its other elements.",
            names=names,
        )


@finding(
    "risk",
    "half",
    "The inputs were finite, of a normal distribution.",
    "Find the first inner value that is not finite; look for Exp, Log, Div, Pow.",
)
def finite(report: Report) -> Iterator[str]:
    """Outputs that are not finite."""
    if report["broken"]:
        yield Message("inf or NaN in the output {listing}.", listing=listing(report["broken"]))


@finding(
    "risk",
    "half",
    "float16 ends at 65,504; a later node may hide it, until a larger input comes.",
    "Keep the nodes around it in float32: node_block_list, or an export of the half model.",
)
def half(report: Report) -> Iterator[str]:
    """Inner values in half precision that are not finite."""
    if report["broken"]:
        yield Message("inf or NaN inside, in float16: {listing}.", listing=listing(report["broken"]))


def missed_fusions(model: onnx.ModelProto) -> Iterator[Symptom]:
    """Patterns that the runtime's optimiser usually fuses, and left in the model that it made of the file."""
    why = (
        "The optimiser fuses this pattern where its weights are constants and nothing else reads what is "
        "inside."
    )
    then = "Look at what else reads the value, and whether the weights are initializers."
    makers = {name: operator(node) for node in model.graph.node for name in node.output}
    missed: dict[str, list[str]] = {}
    for node in model.graph.node:
        made_by = [makers[name] for name in node.input if name in makers]
        if node.op_type == "BatchNormalization" and made_by[:1] == ["Conv"]:
            missed.setdefault(_after(node, "Conv"), []).append(label(node))
        if node.op_type == "Transpose" and "Transpose" in made_by:
            missed.setdefault(_after(node, "Transpose"), []).append(label(node))
        if node.op_type == "Erf":
            missed.setdefault(Message("Erf, of a Gelu"), []).append(label(node))
        if node.op_type in ("Conv", "MatMul", "Gemm") and made_by[:2] == ["DequantizeLinear"] * 2:
            loose = Message("{name} in float32 between quantised values", name=node.op_type)
            missed.setdefault(loose, []).append(label(node))
    for pattern, labels in missed.items():
        what = Message(
            "Not fused: {pattern} ({n}): {listing}.", pattern=pattern, n=len(labels), listing=listing(labels)
        )
        yield Symptom("note", what, why, then, "quantised" if "quantised" in pattern else "fusion")


def _after(node: onnx.NodeProto, name: str) -> str:
    return Message("{operator} after {name}", operator=node.op_type, name=name)


BEHAVIOUR = {
    "checker": checker,
    "inference": inference,
    "load": load,
    "run": first_run,
    "axis": axes,
    "shapes": shapes,
    "again": again,
    "rows": rows,
    "finite": finite,
    "half": half,
}
"""What is looked for in the reports of a step."""
