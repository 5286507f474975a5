"""Symptoms that a file shows when it is loaded and run, in a process of its own."""

import re
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
from onnxlab.runtime.apart import Ended, run_apart

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
"""Said of a file that is not run again: it ended its process, or never ended."""

_UNKNOWN = re.compile(r"No Op registered for (\S+)")
_NOT_INFERRED = re.compile(r"expected to have type but instead is null|No Op registered|No schema registered")
_POOL_DIFFERS = re.compile(r"op_type:\w*Pool\b.* differ in dimension")
_HALF_CAST = re.compile(r"Type \(tensor\(float16\)\) of output arg .* expected type \(tensor\(float\)\)")
_OTHER_SIZES = "Running it at other sizes did not end in time."
_MOST_REWRITTEN = 200 << 20
"""Bytes of a file up to which the model that the runtime makes of it is written and read."""


@dataclass(frozen=True)
class Trial:
    """What a trial of a file showed.

    Attributes:
        symptoms: What was found.
        ran: With which values and at which sizes it was run; empty if it was not.
        not_run: Why it was not run; empty if it was.
    """

    symptoms: list[Symptom]
    ran: str
    not_run: str


def try_out(
    file: ModelFile, seconds: float, progress: Callable[[str], None], inputs: Path | None = None
) -> Trial:
    """Check, load and run a file in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        structure, rewritten = folder / "structure.onnx", folder / "optimised.onnx"
        structure.write_bytes(file.model.SerializeToString())
        optimised = str(rewritten) if file.size <= _MOST_REWRITTEN else ""
        given = str(inputs.absolute()) if inputs else ""
        progress("checks, loads and runs it")
        deadline = time.monotonic() + seconds

        def follow(skip: int) -> tuple[Reports, Ended]:
            arguments = [str(file.path.absolute()), str(structure), str(skip), optimised, given]
            left = max(0.0, deadline - time.monotonic())
            lines, ended = run_apart("onnxlab.diagnosis.trial", arguments, folder, left)
            reports: Reports = {}
            for line in lines:
                reports.setdefault(line["step"], []).append(line)
            return reports, ended

        reports, ended = follow(0)
        symptoms = [*_unfinished(reports, ended, seconds)]
        skip = 0
        while ended.crashed and "run" not in reports and reports.get("trying"):
            skip += len(reports["trying"])  # each of these sizes was refused, but the last: it was fatal
            reports, ended = follow(skip)
        if skip and not ended.crashed and ended.status is not None:
            symptoms += _unfinished(reports, ended, seconds)
        whole = "load" in reports and rewritten.exists()
        fused = onnx.load(rewritten, load_external_data=False) if whole else None
    loads = any(not report["error"] or report["without_optimiser"] for report in reports.get("load", []))
    for step, find in BEHAVIOUR.items():
        symptoms += [one for report in reports.get(step, []) for one in find({**report, "loads": loads})]
    if fused is not None:
        symptoms += missed_fusions(fused)
    return Trial(symptoms, _ran(reports), _not_run(reports, loads=loads))


def _not_run(reports: Reports, *, loads: bool) -> str:
    """Return why a file was not run; an empty string if it was."""
    if "load" in reports and not loads:
        return DOES_NOT_LOAD
    if any(not report["error"] for report in reports.get("given", [])):
        return ""
    for report in reports.get("understood", []):
        [(name, reason), *_] = report["reasons"].items()
        return Message(
            "Not run: no values can be drawn for the input {name}: {reason}. To run it: --inputs FILE.npz.",
            name=plain(name, 80),
            reason=reason,
        )
    if any(report["sizes"] is not None for report in reports.get("run", [])):
        return ""
    if "run" in reports:
        return "Not run: it refused all sizes and values that were tried. To run it: --inputs FILE.npz."
    return ENDED_BEFORE


def _ran(reports: Reports) -> str:
    """Return with which values and at which sizes a file was run; an empty string if it was not."""
    said: list[str] = []
    if batches := [report for report in reports.get("given", []) if not report["error"]]:
        said.append(Message("Run with the inputs given ({n}).", n=len(batches)))
    base = next((report["sizes"] for report in reports.get("run", [])), None)
    if base == {}:
        said.append(Message("Run with drawn values at its fixed sizes."))
    elif base:
        sizes = {axis: {size} for axis, size in base.items()}
        for report in reports.get("axis", []):
            sizes[report["symbol"]] |= {size for size, error in report["results"] if not error}
        shown = [f"{plain(axis, 40)} = {', '.join(map(str, sorted(s)))}" for axis, s in sizes.items()]
        said.append(Message("Run with drawn values at {sizes}.", sizes="; ".join(shown[:6])))
    return Message.compose(" ", said)


def _unfinished(reports: Reports, ended: Ended, seconds: float) -> Iterator[Symptom]:
    step = next((name for name in _STEPS if name not in reports), None)
    if step == "run" and ("given" in reports or "understood" in reports) and "end" in reports:
        step = None
    if ended.status is None:
        yield Symptom(
            "risk" if step is None else "wrong",
            _STEPS[step][0] if step else _OTHER_SIZES,
            Message("It had {seconds:g} s; a program that opens the file waits as long.", seconds=seconds),
            "Look for a Loop that does not end, or give more time with --seconds.",
            "loop",
        )
    elif ended.crashed:
        why = Message(
            "It was {ended.reason}: a program that does the same ends without an exception to catch.",
            ended=ended,
        )
        if step == "run" and "trying" in reports:
            tried = reports["trying"][-1]["sizes"]
            sizes = listing([f"{plain(axis, 60)} = {size}" for axis, size in tried.items()])
            why = Message(
                "It was {ended.reason}, with {sizes}; there is no exception to catch.",
                ended=ended,
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
        what = Message("The trial of the file ended early, with exit status {ended.status}.", ended=ended)
        yield Symptom(
            "risk",
            Message("{subject} Its last line: {ended.last_line}", subject=what, ended=ended)
            if ended.last_line
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
def checker(report: Report) -> Iterator[str | Symptom]:
    """The checker refuses the file."""
    if unknown := _UNKNOWN.search(report["error"]):
        yield Symptom(
            "note",
            Message("ONNX's checker does not know the operator {name}.", name=plain(unknown[1], 80)),
            "It is none of the standard's at this opset: a runtime's own, or a newer one.",
            "Ship the file only to runtimes that have it; ONNX Runtime tells at loading.",
            "custom",
        )
    elif report["error"]:
        yield Message("ONNX's checker refuses the file: {report}", report=plain(report["error"], 200))


@finding(
    "risk",
    "inference",
    "The types or shapes that the file declares do not fit its operators.",
    "Correct the declared type, or remove value_info, and infer the shapes again.",
)
def inference(report: Report) -> Iterator[str | Symptom]:
    """Shape inference contradicts the file."""
    silent = report["loads"] and _NOT_INFERRED.search(report["error"])  # it has no rule for an operator
    if report["error"] and not silent:
        what = Message("Shape inference fails: {report}", report=plain(report["error"], 200))
        if report["loads"] and _POOL_DIFFERS.search(report["error"]):
            why = (
                "With ceil_mode=1 onnx counts a last window that begins in the padding; PyTorch and ONNX "
                "Runtime leave it out."
            )
            then = "If the pool has ceil_mode=1, leave the declared shape as it is; if not, correct it."
            yield Symptom("risk", what, why, then, "inference")
        else:
            yield what


@finding(
    "wrong",
    "load",
    "The file does not load, so it cannot run.",
    "Find the named node in the graph and the line of the model that made it.",
)
def load(report: Report) -> Iterator[str | Symptom]:
    """The installed runtime refuses the file."""
    if not report["error"]:
        return
    what = Message("ONNX Runtime refuses to load it: {report}", report=plain(report["error"], 200))
    if report["without_optimiser"]:
        yield Symptom(
            "risk",
            what,
            "With the optimiser off it loads: ONNX Runtime's optimiser makes the fault, not the file.",
            "Load it with graph_optimization_level = ORT_DISABLE_ALL, or try ORT_ENABLE_BASIC, or another "
            "release; report it to ONNX Runtime.",
            "optimiser",
        )
        return
    if "locale" in report["error"]:
        why = (
            "StringNormalizer asks for that locale; this machine has not installed it. The file is not wrong."
        )
        then = "Install the locale (Debian: locale-gen en_US.UTF-8), and run the doctor again."
        yield Symptom("risk", what, why, then, "load")
        return
    if _HALF_CAST.search(report["error"]):
        why = "A converter to float16 changed the declared type, and not the Cast that makes the value."
        then = "Convert again with op_block_list=['Cast'], or set that Cast's `to` to FLOAT16."
        yield Symptom("wrong", what, why, then, "half")
        return
    known = explain(report["error"], 1)
    yield Symptom("wrong", what, known[0].cause, known[0].fix, known[0].place) if known else what


@finding(
    "risk",
    "sizes",
    "It was tried with values drawn by what each input is, at several sizes.",
    "Run it with the inputs it was exported with: --inputs FILE.npz; if that works, its sizes or values are "
    "restricted.",
)
def first_run(report: Report) -> Iterator[str]:
    """The file loads, and runs at no size that was tried."""
    if report["sizes"] is None:
        yield Message("It loads, and did not run: {report}", report=plain(report["error"], 200))


@finding(
    "wrong",
    "sizes",
    "These are the inputs that it is meant for.",
    "Compare their types and shapes with what the file declares: print(session.get_inputs()).",
)
def given(report: Report) -> Iterator[str]:
    """The file refuses the inputs that were given."""
    if report["error"]:
        yield Message("It refuses the inputs given: {report}", report=plain(report["error"], 200))


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
    if report["state"] and refused and all(size in refused for size, _ in report["results"]):
        what = Message("The axis {name!r} has a name, and one size: {base}.", name=name, base=base)
        why = "It is the size of a state, which a weight of the file fixes."
        yield Symptom("note", what, why, "Read the size in the model's configuration.", "sizes")
        return
    bad = next((size for size in refused if size > base or report["batch"]), None)
    if larger and all(size in refused for size in larger):
        yield Message(
            "The axis {name!r} is declared dynamic, and only {base} runs: {first} fails, {refused}",
            name=name,
            base=base,
            first=larger[0],
            refused=refused[larger[0]],
        )
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
def rows(report: Report) -> Iterator[str | Symptom]:
    """Outputs of an element that depend on the rest of its batch."""
    for name, (moved, most) in report["moved"].items():
        what = Message(
            "For the first element of a batch, the output {name} changes with its other elements, "
            "by up to {moved:.2g} of {most:.2g}.",
            name=plain(name, 80),
            moved=moved,
            most=most,
        )
        if not report["dynamic"]:
            yield what
            continue
        why = Message("{operator} takes its scale from the whole batch.", operator=report["dynamic"][0])
        then = "Run it with a batch of one, or quantise with fixed scales: quantize_static."
        yield Symptom("risk", what, why, then, "batch")


@finding(
    "risk",
    "half",
    "The inputs were finite.",
    "Look at what that node reads: the logarithm or root of a negative number, a division by zero, an "
    "overflow.",
)
def finite(report: Report) -> Iterator[str]:
    """Outputs that are not finite."""
    if report["broken"] and not report["fed"]:
        names = listing(report["broken"])
        if report["first"]:
            node = plain(report["first"], 120)
            yield Message("inf or NaN in the output {names}: {node} makes it first.", names=names, node=node)
        else:
            yield Message("inf or NaN in the output {names}.", names=names)


@finding(
    "risk",
    "optimiser",
    "The same inputs gave the others by more than a hundredth of the largest value.",
    "Compare both with PyTorch (--against): load it at the level that agrees.",
)
def optimiser(report: Report) -> Iterator[str]:
    """Outputs that the runtime's optimiser changes."""
    if report["differing"]:
        names = listing(report["differing"])
        yield Message("ONNX Runtime's optimiser changes the output {names}.", names=names)


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
    "given": given,
    "run": first_run,
    "axis": axes,
    "shapes": shapes,
    "again": again,
    "rows": rows,
    "finite": finite,
    "optimiser": optimiser,
    "half": half,
}
"""What is looked for in the reports of a step."""
