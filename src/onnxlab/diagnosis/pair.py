"""Two model files side by side: what differs in their graphs, outputs, and the sizes they accept."""

import json
import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from onnxlab.message import Message
from onnxlab.model.diff import Change, GraphDiff, diff
from onnxlab.plain_text import plain, pluralise
from onnxlab.runtime.apart import Ended, NoProvider, run_apart
from onnxlab.runtime.values import read_values

Report = dict[str, Any]

_SHOWN = 4  # names, sizes and suspects in a sentence; --json has all


@dataclass(frozen=True)
class Pair:
    """The comparison of two files.

    Attributes:
        structure: What differs in their graphs, as text.
        outputs: A row for each output of both: its name, its type and shape, the largest absolute difference,
            that relative to the largest value, and what is wrong.
        findings: What was found, a sentence each: the outputs, the sizes, the first divergence.
        tried: What was run, and what was not.
        outputs_agree: Whether outputs were compared and agree everywhere.
        sizes_agree: Whether both files accept the same sizes of those that were tried.
        reports: All steps of the trial, as plain data.
    """

    structure: str
    outputs: tuple[tuple[str, ...], ...]
    findings: tuple[str, ...]
    tried: str
    outputs_agree: bool
    sizes_agree: bool
    reports: tuple[Report, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether the outputs agree, and the sizes that the files accept."""
        return self.outputs_agree and self.sizes_agree

    @property
    def suspects(self) -> list[str]:
        """The paths, in the second file, of the nodes from which the files diverge."""
        origin = next((report for report in self.reports if report["step"] == "origin"), {})
        return [node["path"] for region in origin.get("suspects", []) for node in region["nodes"][-1:]]

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        names = ("name", "shapes", "difference", "relative", "problem")
        steps: dict[str, list[Report]] = {}
        for report in self.reports:
            content = {key: value for key, value in report.items() if key != "step"}
            steps.setdefault(report["step"], []).append(content)
        plain_data: dict[str, Any] = _finite(
            {
                "equal": self.equal,
                "outputs_agree": self.outputs_agree,
                "sizes_agree": self.sizes_agree,
                "verdict": self.findings[0] if self.findings else "",
                "findings": list(self.findings),
                "tried": self.tried,
                "structure": self.structure.splitlines(),
                "outputs": [dict(zip(names, row, strict=True)) for row in self.outputs],
                "tolerance": next(iter(steps.get("tolerance", [])), None),
                "runs": steps.get("run", []),
                "refused": steps.get("refused", []),
                "divergence": next(iter(steps.get("origin", [])), None),
            }
        )
        return plain_data


def _finite(value: Any) -> Any:  # noqa: ANN401 - what JSON can hold
    """Return data with numbers that JSON does not have, infinity and NaN, as texts."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def compare_files(
    first: Path,
    second: Path,
    *,
    inputs: Path | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    provider: str = "CPUExecutionProvider",
    seconds: float = 60.0,
) -> Pair:
    """Compare two files; both are run with the same values, in a process of its own.

    Args:
        first: A file; the other is measured by it.
        second: Another.
        inputs: An .npz file, or a folder of .npy files, with values for the inputs; drawn if it is left out.
        atol: The difference that is allowed; by default that of the narrowest type in the files.
        rtol: The difference that is allowed relative to an output's largest value, if that is more.
        provider: The execution provider that runs them.
        seconds: How long loading and running may take.

    Raises:
        ModelNotReadable: If one of them is not an ONNX model.
        NoValues: If there are no values in `inputs`.
        NoProvider: If the provider does not run here.
    """
    structure = structure_text(diff(first, second))
    if inputs:
        read_values(inputs)  # says what is wrong with them before anything runs
    options = {
        "models": [str(first.resolve()), str(second.resolve())],
        "inputs": str(inputs.resolve()) if inputs else "",
        "rtol": rtol,
        "atol": atol,
        "provider": provider,
    }
    with tempfile.TemporaryDirectory() as folder:
        module = "onnxlab.diagnosis.pair_trial"
        reports, ended = run_apart(module, [json.dumps(options)], Path(folder), seconds)
    for report in reports:
        if report["step"] == "no provider":
            raise NoProvider(*report["lines"])
    names = (plain(first.name, 60), plain(second.name, 60))
    if names[0] == names[1]:
        names = (Message("the first file"), Message("the second file"))
    return pair_of(structure, reports, names, _unfinished(reports, ended, seconds, names))


def structure_text(difference: GraphDiff) -> str:
    """Return what differs in two graphs as text; nodes whose weights only have another type are one line."""
    retyped: Counter[tuple[str, ...]] = Counter()
    changed = []
    for node in difference.changed:
        types = [_types(change) for change in node.changes]
        if all(types):
            retyped.update(set(types))
        else:
            changed.append(node)
    lines = [
        Message(
            "~ {nodes}: weights {before} -> {after}",
            nodes=pluralise(count, "node"),
            before=types[0],
            after=types[1],
        )
        for types, count in retyped.items()
    ]
    rest = replace(difference, changed=tuple(changed))
    text = str(rest) if rest or not lines else ""
    return Message.compose("\n", [*([text] if text else []), *lines])


def _types(change: Change) -> tuple[str, ...]:
    """Return the types of a weight that has the same shape in both models, or nothing."""
    before, after = ((text or "").partition("[") for text in (change.before, change.after))
    return (before[0], after[0]) if change.kind == "weight" and before[1:] == after[1:] != ("", "") else ()


def _unfinished(reports: Sequence[Report], ended: Ended, seconds: float, names: Sequence[str]) -> str:
    """Return why the trial did not end, in a sentence; empty if it did."""
    if reports and reports[-1]["step"] == "end":
        return ""
    last: Report = reports[-1] if reports else {"step": "starting"}
    doing = {
        "loading": Message("loading {name}", name=names[last.get("file", 0)]),
        "trying": Message(
            "running {name} with {sizes}",
            name=names[last.get("file", 0)],
            sizes=_sizes(last.get("sizes", {})),
        ),
        "looking": Message("looking for the first divergence"),
    }.get(last["step"], Message("starting"))
    if ended.status is None:
        return Message(
            "It did not end within {seconds:g} s, {doing}: give more with --seconds.",
            seconds=seconds,
            doing=doing,
        )
    why = ended.last_line if ended.status == 1 else ended.reason
    return Message("The process that ran them ended, {doing}: {why}", doing=doing, why=why)


def pair_of(structure: str, reports: Sequence[Report], names: tuple[str, str], unfinished: str = "") -> Pair:
    """Return the comparison that the reports of a trial make."""
    runs = [report for report in reports if report["step"] == "run"]
    rows = _worst_rows(runs)
    compared = [row for row in rows if row["compared"]]
    agree = bool(compared) and not any(row["problem"] for row in compared) and not unfinished
    one_sided = _one_sided(reports, runs)
    findings = [
        *([unfinished] if unfinished else []),
        *_load_or_nothing(reports, names),
        *_outputs(reports, rows),
        *(_flat(reports) if agree else ()),
        *(_size_findings(one_sided, names) if runs else ()),
        *_origin(reports, names),
        *_order(reports),
    ]
    return Pair(
        structure,
        tuple(map(_row, rows)),
        tuple(findings),
        _tried(reports),
        agree,
        not one_sided,
        tuple(reports),
    )


def _worst_rows(runs: Sequence[Report]) -> list[Report]:
    """Return the row of each output at the sizes where it differs most."""
    worst: dict[str, Report] = {}
    for run in runs:
        for row in run["rows"]:
            if row["name"] not in worst or _badness(row) > _badness(worst[row["name"]]):
                worst[row["name"]] = {**row, "sizes": run["sizes"]}
    return list(worst.values())


def _badness(row: Report) -> tuple[bool, float, float]:
    return bool(row["problem"]), row["relative"] or 0.0, row["difference"] or 0.0


def _row(row: Report) -> tuple[str, ...]:
    numbers = ["" if row[key] is None else f"{row[key]:.2g}" for key in ("difference", "relative")]
    finite = row["difference"] is not None and math.isfinite(row["difference"])
    verdict = "right" if row["compared"] else Message("not compared: {why}", why=row["problem"] or "empty")
    if row["problem"] and row["compared"]:
        verdict = "wrong" if finite and " elements, most at " in row["problem"] else row["problem"]
    return plain(row["name"], 60), plain(row["shapes"], 60), *(numbers if finite else ["", ""]), verdict


def _load_or_nothing(reports: Sequence[Report], names: tuple[str, str]) -> Iterator[str]:
    for report in reports:
        if report["step"] == "load":
            reason = plain(report["error"], 300).rstrip(".") + "."
            yield Message(
                "{name} does not load: {reason} Nothing was compared.",
                name=names[report["file"]],
                reason=reason,
            )
        elif report["step"] == "nothing":
            yield Message("Nothing was compared: {why}.", why=report["why"])
        elif report["step"] == "random":
            yield "The first file makes other outputs when it runs again: random nodes, or training mode."
            return


def _outputs(reports: Sequence[Report], rows: Sequence[Report]) -> Iterator[str]:
    if not rows:
        return
    tolerance = next(report for report in reports if report["step"] == "tolerance")
    wrong = [row for row in rows if row["problem"] and row["compared"]]
    allowed = Message(
        "allowed for {type}: {rtol:g} of the largest value, or {atol:g}", **{**tolerance, "step": ""}
    )
    if not wrong:
        yield Message("Their outputs agree ({allowed}).", allowed=allowed)
        return
    listed = [
        Message("{name} at {sizes}", name=plain(row["name"], 60), sizes=_sizes(row["sizes"]))
        if row["sizes"]
        else plain(row["name"], 60)
        for row in wrong[:_SHOWN]
    ]
    where = Message.compose(", ", listed)
    yield Message("Their outputs differ. Most: {where} ({allowed}).", where=where, allowed=allowed)


def _flat(reports: Sequence[Report]) -> Iterator[str]:
    """Name the outputs of which an agreement proves little, because a constant would agree, too."""
    for report in (report for report in reports if report["step"] == "flat"):
        for name, (low, high) in [*report["ranges"].items()][:_SHOWN]:
            yield Message(
                "That proves little for {name}: all its values lie between {low:.2g} and {high:.2g}, closer "
                "together than the tolerance. Give inputs for which they vary (--inputs FILE.npz), or a "
                "smaller tolerance (--atol, --rtol).",
                name=plain(name, 60),
                low=low,
                high=high,
            )


def _one_sided(reports: Sequence[Report], runs: Sequence[Report]) -> list[tuple[int, Report]]:
    """Return what only one file refuses, with that file's number and the sizes that matter."""
    base = runs[0]["sizes"] if runs else {}
    one_sided = []
    for report in (report for report in reports if report["step"] == "refused"):
        if bool(report["refused"][0]) != bool(report["refused"][1]):
            sizes = {name: size for name, size in report["sizes"].items() if size != base.get(name)}
            one_sided.append(
                (0 if report["refused"][0] else 1, {**report, "sizes": sizes or report["sizes"]})
            )
    return one_sided


def _size_findings(one_sided: Sequence[tuple[int, Report]], names: tuple[str, str]) -> Iterator[str]:
    for number, name in enumerate(names):
        own = [report for file, report in one_sided if file == number]
        if own:
            sizes = "; ".join(_sizes(report["sizes"]) for report in own[:2])
            more = Message(" and {number} more", number=len(own) - 2) if len(own) > 2 else ""
            yield Message(
                "{name} accepts fewer sizes: it refuses {sizes}{more}, which the other runs. {reason}",
                name=name,
                sizes=sizes,
                more=more,
                reason=plain(own[0]["refused"][number], 160),
            )


def _origin(reports: Sequence[Report], names: tuple[str, str]) -> Iterator[str]:
    origin = next((report for report in reports if report["step"] == "origin"), None)
    if origin is None:
        return
    if origin["error"]:
        yield Message("The first divergence was not looked for: {reason}.", reason=origin["error"])
        return
    if origin["suspects"]:
        first, *others = origin["suspects"]
        yield Message(
            "They diverge first at {region} of {name}: it adds {added:.2g} of its value{repaired}.",
            region=_region(first),
            name=names[1],
            added=first["added"],
            repaired=_repaired(origin, first["repaired"]),
        )
        if others:
            listed = Message.compose("; ", [_region(region) for region in others[:_SHOWN]])
            yield Message(
                "Also: {listed}. With all {count} replaced, the outputs' error is {error:.2g}.",
                listed=listed,
                count=len(others) + 1,
                error=origin["repaired"],
            )
    elif origin["unmatched"]:
        shapes = origin["unmatched"]["shapes"]
        yield Message(
            "Shapes differ first at {node}: {first}, {second}.",
            node=plain(origin["unmatched"]["node"], 80),
            first=shapes[0],
            second=shapes[1],
        )
    elif origin["most"]:
        listed = Message.compose("; ", [_region(region) for region in origin["most"]])
        yield Message("No node stands out: the error adds up. These add most: {listed}.", listed=listed)
    else:
        yield "With the runtime's optimiser off, all their values agree: the optimiser makes the difference."
    if 2 * origin["matched"] < origin["values"]:
        yield Message(
            "Only {matched} of {values} values have a counterpart: any node between two can be the cause.",
            matched=origin["matched"],
            values=origin["values"],
        )


def _order(reports: Sequence[Report]) -> Iterator[str]:
    for report in reports:
        if report["step"] == "order":
            ours, theirs = (plain(", ".join(names), 200) for names in report["names"])
            yield Message(
                "Their {what} are in another order: {ours}; {theirs}. By place a caller gets others.",
                what=Message(report["what"]),
                ours=ours,
                theirs=theirs,
            )


def _region(region: Report) -> str:
    nodes = region["nodes"]
    last = f"{nodes[-1]['op']} {plain(nodes[-1]['name'], 60)}" if nodes else plain(region["value"], 60)
    if len(nodes) < 2:
        return last
    if len(nodes) == 2:
        before = f"{nodes[0]['op']} {plain(nodes[0]['name'], 60)}"
        return Message("{last} (or {node} before it)", last=last, node=before)
    return Message("{last} (or one of the {count} nodes before it)", last=last, count=len(nodes) - 1)


def _repaired(origin: Report, repaired: float | None) -> str:
    if repaired is None:
        return ""
    return Message(
        "; with the first file's value there, the outputs' error falls from {before:.2g} to {after:.2g}",
        before=origin["output_error"],
        after=repaired,
    )


def _sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{plain(name, 30)} = {size}" for name, size in sizes.items()) or Message(
        "its fixed sizes"
    )


def _tried(reports: Sequence[Report]) -> str:
    """Return what was run at which sizes, and what was not tried, in a line."""
    runs = [report["sizes"] for report in reports if report["step"] == "run"]
    if not runs:
        return Message("Run: nothing. Not tried: your own values (--inputs FILE.npz).")
    if any(report["step"] == "given" for report in reports):
        count = pluralise(len(runs), "set")
        return Message(
            "Run: {count} of values from --inputs. Not tried: other values and sizes.", count=count
        )
    values = {name: sorted({run[name] for run in runs}) for name in runs[0]}
    listed = ", ".join(f"{plain(name, 30)} = {', '.join(map(str, sizes))}" for name, sizes in values.items())
    return Message(
        "Run: {count} with drawn values, at {sizes}. Not tried: your own values (--inputs FILE.npz).",
        count=pluralise(len(runs), "comparison"),
        sizes=listed or Message("the fixed sizes"),
    )
