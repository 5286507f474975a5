"""Seconds per submission of this grader and of others, on the same notebooks in one run.

The notebooks are copies of a lab's solution. Bare code (the cells and the checks in one process without a
sandbox) is the lower limit. Graders that take seconds per notebook are measured on a part of them.

    python -m measurements.benchmarks.grading                                 # the table, three minutes
    python -m measurements.benchmarks.grading --scale --otter OTTER --write   # all of it, ten minutes

Measure on an idle machine, and as root: only root may read the shared memory of all processes.
otter-grader needs packages that the course does not, so it gets an environment of its own with the course in
it; OTTER is then /tmp/otter/bin/otter:

    python -m venv /tmp/otter
    /tmp/otter/bin/pip install -r requirements.txt "otter-grader[grading]"
"""

import tempfile
import time
from pathlib import Path

from measurements.benchmarks import graders, report
from measurements.benchmarks.graders import Memory, Way

_SMALL_LAB, _SMALL = "lab07_pooling_indices", "check-to-global-indices"
_FAST = 20  # submissions of the run that measures the memory of a fast grader, as that takes time itself


def measured(way: Way, lab: str, count: int, *, up_to: str = "", every: float = 0.0) -> tuple[float, Memory]:
    """Run a grader on some submissions; return the seconds for each and, if `every` is given, the memory."""
    memory = Memory(every, "onnxlab.cli")
    with tempfile.TemporaryDirectory() as name:
        paths = graders.hand_in(Path(name), lab, count, up_to=up_to)
        with memory if every else tempfile.TemporaryFile():
            seconds = way(Path(name), lab, paths)
    return seconds / count, memory


def compare(lab: str, students: int, slow: int, otter: Path | None) -> list[str]:
    """Measure every grader on one lab; return a table."""
    ways: list[tuple[str, int, Way]] = [
        ("bare code, warm, nothing confined", students, graders.bare),
        ("`onnxlab grade --jobs 1`", students, graders.ours(1)),
        ("`onnxlab grade --jobs 2`", students, graders.ours(2)),
        ("`onnxlab grade --dask`, 2 workers", students, graders.on_dask),
        ("`nbgrader autograde`", slow, graders.nbgrader),
        ("`nbclient`, not marked", slow, graders.nbclient),
    ]
    if otter is not None:
        ways.insert(-1, ("`otter run`", max(1, slow // 2), graders.otter(otter)))
    rows = []
    for name, count, way in ways:
        fast = count == students
        seconds, memory = measured(way, lab, count, every=0.0 if fast else 0.5)
        if fast:
            _, memory = measured(way, lab, min(count, _FAST), every=0.1)
        rows.append((name, count, seconds, memory.most))
        print(f"  {name}: {seconds:.3f} s", flush=True)
    floor = rows[0][2]
    peer = next(seconds for name, _, seconds, _ in rows if "nbgrader" in name)
    lines = [
        f"{lab}, start and reports included:",
        "",
        "| way | submissions | seconds each | x bare | nbgrader takes | memory, MB |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, count, seconds, most in rows:
        times = "" if "nbgrader" in name else f"{peer / seconds:.1f} x"
        lines.append(f"| {name} | {count} | {seconds:.3f} | {seconds / floor:.1f} | {times} | {most:,.0f} |")
    one_job, two_jobs = (most for name, _, _, most in rows if "--jobs" in name)
    lines += [
        "",
        f"A second job takes {two_jobs - one_job:.0f} MB more. Memory: all processes, what they share once.",
    ]
    return lines


def scale(sizes: list[int]) -> list[str]:
    """Grade classes of growing size; return a table."""
    lines = [
        f"The first exercise of {_SMALL_LAB} (the other one is missing in these notebooks), two jobs:",
        "",
        "| submissions | seconds | seconds each | memory of the supervisor, MB |",
        "|---:|---:|---:|---:|",
    ]
    for size in sizes:
        seconds, memory = measured(graders.ours(2), _SMALL_LAB, size, up_to=_SMALL, every=2.0)
        lines.append(f"| {size:,} | {seconds * size:.0f} | {seconds:.4f} | {memory.most_of_one:.0f} |")
        print(f"  {size}: {seconds:.4f} s each, {memory.most_of_one:.0f} MB", flush=True)
    return lines


def main() -> None:
    parser = report.arguments(__doc__)
    parser.add_argument("--students", type=int, default=100)
    parser.add_argument("--slow", type=int, default=10, help="submissions for what takes seconds for each")
    parser.add_argument("--lab", default="lab07_pooling_indices")
    parser.add_argument("--otter", type=Path, metavar="PROGRAM", help="otter of another environment")
    parser.add_argument("--scale", action="store_true", help="also classes of 500, 1,500 and 5,000")
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1500, 5000])
    options = parser.parse_args()
    began = time.monotonic()
    lines = compare(options.lab, options.students, options.slow, options.otter)
    if options.scale:
        lines += ["", *scale(options.sizes)]
    lines += ["", f"All of this took {(time.monotonic() - began) / 60:.0f} minutes."]
    report.finish("grading", "\n".join(lines), options, ("torch", "onnxruntime", "nbgrader"))


if __name__ == "__main__":
    main()
