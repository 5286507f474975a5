"""Seconds of a `check` in the notebook, exercise by exercise, and what takes them.

One process for all, as in a kernel: each exercise's solution is checked some times. `answer` is the learner's
part, in a process of its own: nearly all of it is the export. The judge's part is split into loading models
into ONNX Runtime, running them, and the rest (torch, the drawing of inputs, the comparison).

    python -m measurements.benchmarks.checks [--runs 5] [--write]
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types

from measurements.benchmarks import report
from onnxlab.kit import checking
from onnxlab.kit.exercise import exercise
from onnxlab.kit.outcome import Status
from tests.support.labs import contracts

SPENT = {"answer": 0.0, "load": 0.0, "run": 0.0}


def timed(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with a clock, which adds its seconds to SPENT."""

    def measured(*args: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return function(*args, **options)
        finally:
            SPENT[kind] += time.perf_counter() - began

    return measured


def main() -> None:
    parser = report.arguments(__doc__)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    checking.produce_in_child = timed("answer", checking.produce_in_child)
    ort.InferenceSession.__init__ = timed("load", ort.InferenceSession.__init__)
    ort.InferenceSession.run = timed("run", ort.InferenceSession.run)
    rows, totals, first = [], [], 0.0
    for name, contract in contracts().items():
        _, record = exercise(name)
        answers = dict(zip(record.answers, contract.right[0], strict=True))
        timings = []
        for _ in range(options.runs):
            SPENT.update(answer=0.0, load=0.0, run=0.0)
            began = time.perf_counter()
            outcome = checking.check(record, answers)
            total = time.perf_counter() - began
            first = first or total
            assert outcome.status is Status.PASSED, name
            timings.append((total, *SPENT.values(), total - sum(SPENT.values())))
        middle = [statistics.median(column) for column in zip(*timings, strict=True)]
        spread = max(timing[0] for timing in timings) - min(timing[0] for timing in timings)
        rows.append([name, *(f"{value:.2f}" for value in [middle[0], spread, *middle[1:]])])
        totals.append(middle[0])
        print(*rows[-1], sep="\t", file=sys.stderr)
    head = ["exercise", "seconds", "spread", "answer", "load", "run", "rest of the judge"]
    text = report.table(head, rows)
    text += (
        f"\n\nMedians of {options.runs}. Over all exercises: median {statistics.median(totals):.2f} s, "
        f"longest {max(totals):.2f} s; the first check of the process {first:.2f} s."
    )
    report.finish("checks", text, options, ("torch", "onnxruntime"))


if __name__ == "__main__":
    main()
