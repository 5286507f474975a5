"""Seconds of the commands that read only what the labs state: `onnxlab progress` and `onnxlab hint`.

Each is run some times as a learner runs it, as a process of its own. The limit is 0.3 s of CPU time: a busy
machine lets a command wait, and the clock would measure the other processes.

    python -m measurements.benchmarks.commands [--runs 9] [--write]
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measurements.benchmarks import report

LIMIT = 0.3
COMMANDS = ("progress", "hint asinh-symbolic", "--help")


def seconds(command: str, state: str) -> tuple[float, float]:
    """Run a command; return its seconds by the clock, and of CPU time."""
    program, environment = Path(sys.executable).with_name("onnxlab"), {**os.environ, "ONNXLAB_STATE": state}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([program, *command.split()], check=True, stdout=subprocess.DEVNULL, env=environment)
    clock, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = report.arguments(__doc__)
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    rows = []
    for command in COMMANDS:
        with tempfile.TemporaryDirectory() as state:
            clock, cpu = map(
                statistics.median,
                zip(*(seconds(command, f"{state}/progress.json") for _ in range(options.runs)), strict=True),
            )
        rows.append([f"onnxlab {command}", f"{clock:.2f}", f"{cpu:.2f}"])
        if cpu > LIMIT:
            print(f"onnxlab {command} takes {cpu:.2f} s of CPU time; {LIMIT} is the limit.", file=sys.stderr)
    text = report.table(["command", "seconds", "CPU time"], rows)
    report.finish("commands", f"{text}\n\nMedians of {options.runs}.", options)


if __name__ == "__main__":
    main()
