"""From an answer to its verdict: here, with Kaggle's learntools, and with the commands of rustlings.

For the first two, a kernel that has run the exercise's first cell runs the answer and the cell that checks it. For
rustlings, the answer is saved and its commands follow, from its src/exercise.rs: build, test, clippy, run. All in
turn, so that the machine's load meets them alike; CPU time is that of all processes.

learntools and rustlings are clones of their repositories, and learntools needs an environment of its own:

    python -m venv /tmp/learn
    /tmp/learn/bin/pip install setuptools ipykernel pandas
    /tmp/learn/bin/pip install --no-build-isolation --no-deps ./learntools
    python -m measurements.benchmarks.peers --learntools /tmp/learn/bin/python --rustlings FOLDER [--write]
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
from jupyter_client.manager import KernelManager

from measurements.benchmarks import report
from onnxlab.kit.exercise import exercise
from tests.support.labs import solutions

OURS = ("asinh-symbolic", "batch-safe", "uint8-shift-translation")
IMPORTS = "from learntools.core import binder\nbinder.bind(globals())\nfrom learntools.python.ex2 import *"
ROUNDED = "def round_to_two_places(num):\n    return round(num, 2)\nq1.check()"
RUST = "vecs1"

Verdict = Callable[[], tuple[float, float]]
"""Checks an answer; returns the seconds and the CPU time."""


@contextmanager
def kernel(python: str, first: str, answer: str) -> Iterator[Verdict]:
    """Start a kernel that has run its first cell; yield what checks the answer in it."""
    manager = KernelManager()
    assert manager.kernel_spec is not None
    manager.kernel_spec.argv[0] = python
    with tempfile.TemporaryDirectory() as folder:
        manager.start_kernel(env={**os.environ, "ONNXLAB_STATE": f"{folder}/progress.json"})
        client = manager.blocking_client()
        client.start_channels()
        process = psutil.Process(manager.provisioner.pid)  # type: ignore[union-attr]  # of a local process

        def run(cell: str) -> str:
            shown: list[str] = []
            client.execute_interactive(
                cell, timeout=300, output_hook=lambda message: shown.append(str(message))
            )
            return "".join(shown)

        def verdict() -> tuple[float, float]:
            before, began = sum(process.cpu_times()[:4]), time.perf_counter()
            shown = run(answer)
            seconds = time.perf_counter() - began
            assert ": passed" in shown or "Correct" in shown, shown[-2000:]
            return seconds, sum(process.cpu_times()[:4]) - before

        try:
            client.wait_for_ready(timeout=120)
            run(first)
            yield verdict
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def rustlings(folder: Path) -> Verdict:
    """Return what saves the solution of an exercise anew and runs what rustlings then runs."""
    answer = next((folder / "solutions").rglob(f"{RUST}.rs"))
    cargo = ["--bin", f"{RUST}_sol", "--manifest-path", "dev/Cargo.toml", "--target-dir", "target"]
    commands = [["cargo", name, "-q", *cargo] for name in ("build", "test", "clippy")]
    commands[2] += ["--profile", "test"]

    def verdict() -> tuple[float, float]:
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        answer.write_bytes(answer.read_bytes())
        for command in (*commands, [f"target/debug/{RUST}_sol"]):
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
        seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return verdict


def main() -> None:
    parser = report.arguments(__doc__)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--learntools", metavar="PYTHON", required=True)
    parser.add_argument("--rustlings", type=Path, metavar="FOLDER", required=True)
    options = parser.parse_args()
    with ExitStack() as kernels:
        ways: dict[str, Verdict] = {}
        for name in OURS:
            lab, record = exercise(name)
            first, cells = solutions(lab.name)
            answer = f"{cells[name]}\ncheck({name!r}, {', '.join(record.answers)})"
            ways[f"onnxlab: {name}"] = kernels.enter_context(kernel(sys.executable, first, answer))
        ways["learntools: python, exercise 2, q1"] = kernels.enter_context(
            kernel(options.learntools, IMPORTS, ROUNDED)
        )
        ways[f"rustlings' commands: {RUST}"] = rustlings(options.rustlings)
        first_times = {name: verdict()[0] for name, verdict in ways.items()}
        timings: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(options.runs):
            for name, verdict in ways.items():
                timings[name].append(verdict())
    rows = []
    for name, results in timings.items():
        seconds, cpu = zip(*results, strict=True)
        spread = max(seconds) - min(seconds)
        numbers = (first_times[name], statistics.median(seconds), spread, statistics.median(cpu))
        rows.append([name, *(f"{number:.2f}" for number in numbers)])
    text = report.table(["exercise", "first check, s", "seconds", "spread", "CPU time"], rows)
    report.finish(
        "peers", f"{text}\n\nMedians of {options.runs}, after the first.", options, ("torch", "ipykernel")
    )


if __name__ == "__main__":
    main()
