"""Run the course with other versions of its packages, and list the outputs and tests that differ.

    python -m measurements.remeasure --with torch==2.15.0
    python -m measurements.remeasure --with torch==2.15.0 --environment /tmp/torch215 --only 07 tests/measurements

An environment of its own gets the course and requirements/test.txt with the named packages replaced. There
every chapter and solution runs and each saved output is compared with the new one; so do the tests that hold
facts about versions. The exit code is 1 if anything differs. This file is also the pytest plugin that writes
down what was recorded and what came out.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from starter.console import Stop
from starter.environment import ROOT, Environment, child_variables

TESTS = ("tests/patients", "tests/exporters", "tests/measurements", "tests/model", "tests/runtime")
"""The tests that hold facts about versions."""
CONTRACTS = "tests/labs/test_contract.py"
PACKAGES = ("torch", "onnx", "onnxruntime", "onnxscript", "onnx-ir")
WIDTH = 60  # columns of a text in the table
PLUGIN = "measurements.remeasure"


@dataclass(frozen=True)
class Fact:
    """One cell or test that came out differently.

    Attributes:
        name: The cell's id, or the test's name.
        recorded: What the notebook has saved, or what the test expects.
        now: What came out.
        fails: Whether it ended with an exception, so that a claim does not hold; else only its output reads
            differently.
    """

    name: str
    recorded: str
    now: str
    fails: bool = True


@dataclass(frozen=True)
class Part:
    """One notebook or folder of tests, as it ran.

    Attributes:
        name: Its path below the repository.
        ran: How many cells or tests ran.
        skipped: How many did not.
        seconds: How long it took.
        differ: Those that came out differently.
    """

    name: str
    ran: int
    skipped: int
    seconds: float
    differ: list[Fact]


def first_difference(recorded: dict[str, list[str]], now: dict[str, list[str]]) -> tuple[str, str]:
    r"""Return the first pair of lines that differ, or of kinds of output.

    Args:
        recorded: For each kind of output ("stdout", "text/html") the texts that were saved.
        now: The same of what came out.

    >>> first_difference({"stdout": ["one\ntwo"]}, {"stdout": ["one\n2"]})
    ('two', '2')
    >>> first_difference({"text/html": ["<td>right</td>"]}, {"text/html": ["<td>wrong</td>"]})
    ('right', 'wrong')
    >>> first_difference({"stdout": ["one"]}, {})
    ('one', '')
    """
    for kind in [*recorded, *(kind for kind in now if kind not in recorded)]:
        before, after = "\n".join(recorded.get(kind, ())), "\n".join(now.get(kind, ()))
        if before != after:
            if kind == "text/html":
                words = [re.sub(r"<[^>]*>", "\n", text) for text in (before, after)]
                before, after = words if words[0] != words[1] else (before, after)
            lines = [[line.strip() for line in text.splitlines() if line.strip()] for text in (before, after)]
            together = min(map(len, lines))
            differ = (at for at in range(together) if lines[0][at] != lines[1][at])
            at = next(differ, together)
            return tuple(text[at] if at < len(text) else "" for text in lines)  # type: ignore[return-value]  # two
    return "", ""


def texts(item: pytest.Item, outputs: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    """Return what nbval compares of a cell's outputs, by kind, with the replacements of wordings.cfg."""
    kinds = defaultdict(list)
    skipped, sanitize = item.parent.skip_compare, item.sanitize  # type: ignore[union-attr, attr-defined]  # nbval's
    for output in outputs:
        fields = {output["name"]: output["text"]} if output["output_type"] == "stream" else dict(output)
        for kind, value in (fields | fields.pop("data", {})).items():
            if kind not in skipped:
                text = value if isinstance(value, str) else json.dumps(value, indent=1, sort_keys=True)
                kinds[kind].append(sanitize(text))
    return kinds


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put a cell's id, what was recorded and what came out into pytest's XML."""
    name, recorded, now, fails = item.name, "passes", "", True
    if call.excinfo is not None:
        now = _first_line(call.excinfo.exconly())
    if type(item).__name__ == "IPyNbCell":  # by name, as nbval need not be there
        cell, new = item.cell, item.test_outputs or []  # type: ignore[attr-defined]  # nbval's
        name, now = cell.get("id") or item.name, now.removeprefix("nbval.plugin.NbCellError: ")
        if errors := [output for output in new if output["output_type"] == "error"]:
            recorded, now = (
                "runs",
                _first_line(f"{errors[-1]['ename']}: {errors[-1]['evalue'] or _line(errors[-1])}"),
            )
        elif "outputs differ" in now:
            fails, recorded, now = False, *first_difference(texts(item, cell["outputs"]), texts(item, new))
    if call.when == "call":
        item.user_properties += [("name", name), ("recorded", recorded), ("now", now), ("fails", fails)]
    return (yield)


def prepare(environment: Environment, replaced: Sequence[str]) -> None:
    """Make an environment with the tests' packages, some of them in other versions, unless it is there.

    Args:
        environment: Where.
        replaced: Requirements as pip reads them ("torch==2.15.0"), each in place of a pin.

    Raises:
        Stop: The environment or its packages cannot be installed.
    """
    stamp, expected = environment.folder / "remeasure.txt", "\n".join(["the tested packages", *replaced])
    if environment.works():
        held = (
            stamp.read_text(encoding="utf-8") if stamp.exists() else "something that this tool has not made"
        )
        if held == expected:
            return
        if held:
            what = f"{environment.folder} holds {', '.join(held.splitlines())}."
            raise Stop(what, "It would be emptied.", "Name another folder, or delete this one.")
    environment.make()
    stamp.touch()  # empty: an install that is cut off begins anew
    names = {re.split(r"[^\w.-]", requirement)[0].lower() for requirement in replaced}
    pins = (ROOT / "requirements/test.txt").read_text(encoding="utf-8").splitlines()
    pins_file = environment.folder / "pins.txt"
    pins_file.write_text("\n".join(p for p in pins if p.split("==")[0] not in names) + "\n", encoding="utf-8")
    # The pins are complete: nothing is resolved, and versions beyond pyproject.toml's range can be tried.
    # What the replaced packages ask for comes in the second step.
    for arguments in (["--no-deps", "-r", str(pins_file)], *([[*replaced]] if replaced else [])):
        command = [str(environment.python), "-m", "pip", "install", "--quiet", "--no-input", *arguments]
        variables = child_variables(environment)
        done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
        if done.returncode:
            what, why = "The packages could not be installed.", " ".join(done.stderr.split())[-300:]
            raise Stop(what, f"pip said: {why}", "Is there such a version?")
    stamp.write_text(expected, encoding="utf-8")


def measure(python: Path, place: Path, variables: dict[str, str] | None = None) -> Part:
    """Run one notebook or folder of tests and return what differed."""
    began = time.monotonic()
    name = place.relative_to(ROOT).as_posix() if place.is_relative_to(ROOT) else place.name
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [str(python), "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider"]
        command += ["-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}"]  # wherever the notebook lies
        command += ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=600"]
        command += ["--nbval-kernel-startup-timeout=600", f"--junit-xml={report}"]
        if place.suffix == ".ipynb" and place.is_relative_to(ROOT):
            command.append("--all")  # also with the optional packages
        done = subprocess.run(
            [*command, str(place)], cwd=ROOT, env=variables, capture_output=True, text=True, errors="replace"
        )
        # Without a report, the process died in native code.
        cases = list(ElementTree.parse(report).getroot().iter("testcase")) if report.exists() else []
    differ, skipped = [], 0
    for case in cases:
        properties = {str(prop.get("name")): prop.get("value", "") for prop in case.iter("property")}
        fault = next((case.find(tag) for tag in ("failure", "error") if case.find(tag) is not None), None)
        if fault is not None:
            properties = {
                "name": case.get("name", ""),
                "now": _first_line(fault.get("message", "")),
            } | properties
            fails = properties.get("fails") != "False"
            differ.append(
                Fact(properties["name"], properties.get("recorded", "passes"), properties["now"], fails)
            )
        skipped += case.find("skipped") is not None
    if not cases:
        last_line = _first_line(done.stderr) or "nothing ran"
        differ.append(Fact("(all)", "runs", f"pytest ended with code {done.returncode}: {last_line}"))
    return Part(name, len(cases) - skipped, skipped, time.monotonic() - began, differ)


def table(part: Part) -> str:
    """Return a line for each cell or test that differs, where the two texts part; a failure has a `!`."""
    lines = []
    for fact in part.differ:
        pairs = enumerate(zip(fact.recorded, fact.now, strict=False))
        at = next((at for at, (old, new) in pairs if old != new), 0)
        start = max(0, at - 20) if max(len(fact.recorded), len(fact.now)) > WIDTH else 0
        before, after = (_cut(text, start) for text in (fact.recorded, fact.now))
        lines.append(f"{'!' if fact.fails else ' '} {fact.name[:40]:<10} {before:<{WIDTH}} | {after}")
    return "\n".join(lines)


def main() -> int:
    """Make the environment, measure, print the table; return 1 if anything differs."""
    parser = argparse.ArgumentParser(
        prog="python -m measurements.remeasure",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--with",
        dest="replaced",
        nargs="+",
        default=[],
        metavar="PACKAGE==VERSION",
        help="in place of the pins",
    )
    add("--environment", type=Path, help="a folder that is kept, and used again with the same --with")
    add("--labs", action="store_true", help="the labs' contracts, too: every wrong answer is judged")
    add("--only", nargs="+", default=[""], metavar="TEXT", help="what has one of these in its path")
    add("--json", type=Path, metavar="FILE", help="write the results there as well")
    options = parser.parse_args()
    notebooks = [*sorted(ROOT.glob("notebooks/*.ipynb")), *sorted(ROOT.glob("solutions/*.ipynb"))]
    places = [*notebooks, *(ROOT / name for name in (*TESTS, *([CONTRACTS] if options.labs else [])))]
    places = [p for p in places if any(part in p.relative_to(ROOT).as_posix() for part in options.only)]
    if not places:
        parser.error("--only: no chapter, solution or tests have that in their path")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="onnxlab-remeasure-") as temporary:
        folder = (options.environment or Path(temporary, "environment")).absolute()
        python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        environment = Environment(folder, python)
        try:
            print("The environment ...", flush=True)
            prepare(environment, options.replaced)
            variables = child_variables(environment)
            code = f"from importlib.metadata import version; print(*map(version, {PACKAGES}))"
            numbers = subprocess.check_output([python, "-c", code], text=True).split()
            versions = dict(zip(PACKAGES, numbers, strict=True))
            print(", ".join(f"{name} {number}" for name, number in versions.items()))
            parts: list[Part] = []
            for number, place in enumerate(places, start=1):
                parts.append(part := measure(python, place, variables))
                counts = f"{part.ran:>4} ran, {len(part.differ):>3} differ, {part.seconds:>4.0f} s"
                print(f"[{number:>2}/{len(places)}] {part.name:<38} {counts}", flush=True)
                if part.differ:
                    print(table(part), flush=True)
                if options.json:  # after each part: a run that is cut off leaves what it has
                    results = {"versions": versions, "parts": [asdict(part) for part in parts]}
                    options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        except Stop as stop:
            print(stop)
            return 2
    ran, differ = sum(part.ran for part in parts), [fact for part in parts for fact in part.differ]
    failed, seconds = sum(fact.fails for fact in differ), time.monotonic() - began
    print(f"\n{len(differ)} of {ran} cells and tests differ, {failed} of them fail (!). {seconds:.0f} s.")
    return int(bool(differ))


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else ""


def _line(error: dict[str, Any]) -> str:
    """Return the cell's line that an error without a message comes from."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(error["traceback"]))
    return next(iter(re.findall(r"^-+> \d+ +(.*)", plain, re.MULTILINE)), "")


def _cut(text: str, start: int) -> str:
    text = (f"...{text[start:]}" if start else text) or "(nothing)"
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."


if __name__ == "__main__":
    sys.exit(main())
