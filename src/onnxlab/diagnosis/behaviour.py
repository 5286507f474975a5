"""Symptoms that a file shows when it is loaded and run, in a process of its own."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import onnx

from onnxlab.diagnosis.messages import explain
from onnxlab.diagnosis.model_file import ModelFile
from onnxlab.diagnosis.symptom import Symptom, listing
from onnxlab.model.graph import operator
from onnxlab.plain_text import plain

Reports: TypeAlias = Mapping[str, list[dict[str, Any]]]
"""What the trial reported, by step."""

_STEPS = {
    "checker": ("ONNX's checker did not end in time.", "ONNX's checker ended the process."),
    "inference": ("Shape inference did not end in time.", "Shape inference ended the process."),
    "load": ("Loading it did not end in time.", "Loading it ended the process."),
    "run": ("Running it did not end in time.", "Running it ended the process."),
}
_OTHER_SIZES = "Running it at other sizes did not end in time."
_MOST_REWRITTEN = 200 << 20
"""Bytes of a file up to which the model that the runtime makes of it is written and read."""


def try_out(file: ModelFile, seconds: float, progress: Callable[[str], None]) -> list[Symptom]:
    """Check, load and run a file in a process of its own.

    Args:
        file: The file.
        seconds: How long that may take.
        progress: Called with what begins.
    """
    with tempfile.TemporaryDirectory() as folder:
        structure, rewritten = Path(folder, "structure.onnx"), Path(folder, "optimised.onnx")
        structure.write_bytes(file.model.SerializeToString())
        optimised = [str(rewritten)] if file.size <= _MOST_REWRITTEN else []
        command = [sys.executable, "-m", "onnxlab.diagnosis.trial", str(file.path), str(structure)]
        progress("checks, loads and runs it")
        deadline = time.monotonic() + seconds
        reports, ended = _follow([*command, "0", *optimised], seconds)
        symptoms = [*_unfinished(reports, ended, seconds)]
        skip = 0
        while ended is not None and ended < 0 and "run" not in reports and reports.get("trying"):
            skip += len(reports["trying"])  # each of these sizes but the last was refused, the last was fatal
            left = max(0.0, deadline - time.monotonic())
            reports, ended = _follow([*command, str(skip), *optimised], left)
        fused = onnx.load(rewritten, load_external_data=False) if rewritten.exists() else None
    for symptom in BEHAVIOUR:
        symptoms += symptom(reports)
    if fused is not None:
        symptoms += missed_fusions(fused)
    return symptoms


def _follow(command: list[str], seconds: float) -> tuple[dict[str, list[dict[str, Any]]], int | None]:
    """Run the trial; return its reports, and how it ended: None if the time was up."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
        try:
            ended: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            ended = None
        output.seek(0)
        reports: dict[str, list[dict[str, Any]]] = {}
        for line in output:
            if line.startswith('{"step"') and line.endswith("\n"):
                report = json.loads(line)
                reports.setdefault(report["step"], []).append(report)
    return reports, ended


def _unfinished(reports: Reports, ended: int | None, seconds: float) -> Iterator[Symptom]:
    step = next((name for name in _STEPS if name not in reports), None)
    if ended is None:
        yield Symptom(
            "risk" if step is None else "wrong",
            _STEPS[step][0] if step else _OTHER_SIZES,
            f"It had {seconds:g} seconds; a program that opens the file waits as long.",
            "Look for a Loop that does not end, or give more time with --seconds.",
            "loop",
        )
    elif ended < 0:
        why = f"It was signal {-ended}: a program that does the same ends without an exception to catch."
        if step == "run" and "trying" in reports:
            tried = reports["trying"][-1]["sizes"]
            sizes = listing([f"{plain(axis, 60)} = {size}" for axis, size in tried.items()])
            why = f"It was signal {-ended}, with {sizes}; there is no exception to catch."
        yield Symptom(
            "wrong",
            _STEPS[step or "run"][1],
            why,
            "Check the sizes of the inputs before each run, and run it in a process of its own.",
            "foreign",
        )


def checker(reports: Reports) -> Iterator[Symptom]:
    """The checker refuses the file."""
    for report in reports.get("checker", []):
        if report["error"]:
            why = "The file breaks the standard: a runtime may refuse it, or compute something else."
            yield Symptom(
                "wrong",
                f"ONNX's checker refuses the file: {plain(report['error'], 200)}",
                why,
                "Export again, or repair the named node and run onnx.checker.check_model.",
                "mistakes",
            )


def inference(reports: Reports) -> Iterator[Symptom]:
    """Shape inference contradicts the file."""
    if any(report["error"] for report in reports.get("checker", [])):
        return
    for report in reports.get("inference", []):
        if report["error"]:
            why = "The types or shapes that the file declares do not fit its operators."
            yield Symptom(
                "risk",
                f"Shape inference fails: {plain(report['error'], 200)}",
                why,
                "Correct the declared type, or remove value_info, and infer the shapes again.",
                "inference",
            )


def load(reports: Reports) -> Iterator[Symptom]:
    """The installed runtime refuses the file."""
    for report in reports.get("load", []):
        if not report["error"]:
            continue
        what = f"ONNX Runtime refuses to load it: {plain(report['error'], 200)}"
        known = explain(report["error"], 1)
        if known:
            yield Symptom("wrong", what, known[0].cause, known[0].cure, (known[0].chapter, known[0].section))
            continue
        then = "Find the named node in the graph and the line of the model that made it."
        yield Symptom("wrong", what, "The file does not load, so it cannot run.", then, "load")


def first_run(reports: Reports) -> Iterator[Symptom]:
    """The file loads, and runs at no size that was tried."""
    for report in reports.get("run", []):
        if report["sizes"] is None and not report["whole"]:
            why = "It was tried with normally distributed values at several sizes."
            then = (
                "Run it with the inputs it was exported with; if that works, its sizes or values are "
                "restricted."
            )
            yield Symptom(
                "risk",
                f"It loads, and did not run: {plain(report['error'], 200)}",
                why,
                then,
                "sizes",
            )


def axes(reports: Reports) -> Iterator[Symptom]:
    """Dynamic axes that accept one size, or some."""
    for report in reports.get("axis", []):
        refused = {size: error for size, error in report["results"] if error}
        larger = [size for size, _ in report["results"] if size > report["base"]]
        name, base = plain(report["symbol"], 60), report["base"]
        if larger and all(size in refused for size in larger):
            what = (
                f"The axis {name!r} is declared dynamic, and only {base} runs: {larger[0]} fails, "
                f"{plain(refused[larger[0]], 160)}"
            )
            then = (
                "Look in forward for a Python number made of a size (int(x.shape[0]), .item(), view): "
                "it was frozen."
            )
            yield Symptom("wrong", what, "The label promises what the graph does not do.", then, "sizes")
        elif any(size in refused for size in larger) or (report["batch"] and 1 in refused):
            runs = listing([str(size) for size in sorted({base, *larger} - set(refused))])
            bad = next(size for size in refused if size > base or report["batch"])
            what = f"The axis {name!r} runs at {runs} and fails at {bad}: {plain(refused[bad], 160)}"
            then = (
                "State the sizes that are allowed, and pad the input to one of them, or export without "
                "the condition."
            )
            yield Symptom(
                "risk",
                what,
                "A condition between sizes is in the graph, and not in the file's declaration.",
                then,
                "conditions",
            )


def shapes(reports: Reports) -> Iterator[Symptom]:
    """Outputs with another shape than the file declares."""
    for report in reports.get("shapes", []):
        for name, said, made in report["shapes"]:
            wrong = len(said) != len(made) or any(
                isinstance(a, int) and a != b for a, b in zip(said, made, strict=True)
            )
            if said and wrong:
                what = (
                    f"The output {plain(name, 60)!r} is declared as {plain(said, 80)} and has the shape "
                    f"{made}."
                )
                then = "Make that axis dynamic, or find what was frozen at the example's size."
                yield Symptom(
                    "wrong",
                    what,
                    "Who reads the declaration reserves the wrong memory.",
                    then,
                    "right sizes",
                )


def again(reports: Reports) -> Iterator[Symptom]:
    """Outputs that differ between two runs of the same input."""
    for report in reports.get("again", []):
        if report["differing"]:
            names = listing([plain(name, 60) for name in report["differing"]])
            why = "Something random, or a state, is in the graph."
            yield Symptom(
                "wrong",
                f"Two runs with the same input differ in {names}.",
                why,
                "Export in eval mode; pass a seed or noise as an input.",
                "training",
            )


def rows(reports: Reports) -> Iterator[Symptom]:
    """Outputs of an element that depend on the rest of its batch."""
    for report in reports.get("rows", []):
        if report["differing"]:
            names = listing([plain(name, 60) for name in report["differing"]])
            why = "Statistics of the batch, or a frozen size, are in the graph."
            then = "Export in eval mode; if the batch is not axis 0, or it is wanted, there is nothing to do."
            yield Symptom(
                "risk",
                f"For the first element of a batch, the output {names} changes with its other elements.",
                why,
                then,
                "right sizes",
            )


def finite(reports: Reports) -> Iterator[Symptom]:
    """Outputs, or inner values in half precision, that are not finite."""
    for report in reports.get("finite", []):
        if report["broken"]:
            names = listing([plain(name, 60) for name in report["broken"]])
            why = "The inputs were finite, of a normal distribution."
            yield Symptom(
                "risk",
                f"inf or NaN in the output {names}.",
                why,
                "Find the first inner value that is not finite; look for Exp, Log, Div, Pow.",
                "half",
            )
    for report in reports.get("half", []):
        if report["broken"]:
            names = listing([plain(name, 60) for name in report["broken"]])
            why = "float16 ends at 65,504; a later node may hide it, until a larger input comes."
            yield Symptom(
                "risk",
                f"inf or NaN inside, in float16: {names}.",
                why,
                "Keep the nodes around it in float32: node_block_list, or an export of the half model.",
                "half",
            )


def missed_fusions(model: onnx.ModelProto) -> Iterator[Symptom]:
    """Patterns that the runtime's optimiser usually fuses, and left in the model that it made of the file."""
    makers = {name: node for node in model.graph.node for name in node.output}
    missed: dict[str, list[str]] = {}
    for node in model.graph.node:
        made_by = [operator(makers[name]) for name in node.input if name in makers]
        label = plain(node.name or node.output[0], 60)
        if node.op_type == "BatchNormalization" and made_by[:1] == ["Conv"]:
            missed.setdefault("BatchNormalization after Conv", []).append(label)
        if node.op_type == "Transpose" and "Transpose" in made_by:
            missed.setdefault("Transpose after Transpose", []).append(label)
        if node.op_type == "Erf":
            missed.setdefault("Erf, of a Gelu", []).append(label)
        if node.op_type in ("Conv", "MatMul", "Gemm") and made_by[:2] == ["DequantizeLinear"] * 2:
            missed.setdefault(f"{node.op_type} in float32 between quantised values", []).append(label)
    for pattern, labels in missed.items():
        yield Symptom(
            "note",
            f"Not fused: {pattern} ({len(labels)}): {listing(labels)}.",
            "The optimiser fuses this pattern where its weights are constants and nothing else "
            "reads what is inside.",
            "Look at what else reads the value, and whether the weights are initializers.",
            "quantised" if "quantised" in pattern else "fusion",
        )


BEHAVIOUR: tuple[Callable[[Reports], Iterator[Symptom]], ...] = (
    checker,
    inference,
    load,
    first_run,
    axes,
    shapes,
    again,
    rows,
    finite,
)
"""What is looked for in the reports."""
