"""Seconds per submission: this grader, and what else there is, on the same notebooks in one run.

The notebooks are a lab's solution, as many students handed it in. Bare code (the cells and the checks in one
warm process, nothing confined) is the floor. What takes seconds per notebook is measured on a part of them.

    python -m benchmarks.grading                                 # the table, three minutes
    python -m benchmarks.grading --scale --otter OTTER --write   # all of it, ten minutes

Measure on a machine that does nothing else, and as root: only root may read what memory all processes share.
otter-grader needs packages that the course does not, so it gets an environment of its own with the course in
it; OTTER is then /tmp/otter/bin/otter:

    python -m venv /tmp/otter
    /tmp/otter/bin/pip install -r requirements.txt "otter-grader[grading]"
"""

import tempfile
import time
from pathlib import Path

from benchmarks import graders, report
from benchmarks.graders import Memory, Way

_SMALL_LAB, _SMALL = "lab07_pooling_indices", "check-to-global-indices"
_FAST = 20  # submissions on which the memory of a fast way is looked at, which takes time itself


def measured(way: Way, lab: str, count: int, *, up_to: str = "", every: float = 0.0) -> tuple[float, Memory]:
    """Run a way on some submissions; return seconds for each and, if it was looked at, the memory."""
    memory = Memory(every, "onnxlab.cli")
    with tempfile.TemporaryDirectory() as name:
        paths = graders.hand_in(Path(name), lab, count, up_to=up_to)
        with memory if every else tempfile.TemporaryFile():
            seconds = way(Path(name), lab, paths)
    return seconds / count, memory


def compare(lab: str, students: int, slow: int, otter: Path | None) -> list[str]:
    """Measure every way on one lab; return a table."""
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
    found = []
    for name, count, way in ways:
        fast = count == students
        each, memory = measured(way, lab, count, every=0.0 if fast else 0.5)
        if fast:
            _, memory = measured(way, lab, min(count, _FAST), every=0.1)
        found.append((name, count, each, memory.most))
        print(f"  {name}: {each:.3f} s", flush=True)
    floor = found[0][2]
    peer = next(each for name, _, each, _ in found if "nbgrader" in name)
    lines = [
        f"{lab}, start and reports included:",
        "",
        "| way | submissions | seconds each | x bare | nbgrader takes | memory, MB |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, count, each, most in found:
        times = "" if "nbgrader" in name else f"{peer / each:.1f} x"
        lines.append(f"| {name} | {count} | {each:.3f} | {each / floor:.1f} | {times} | {most:,.0f} |")
    one, two = (most for name, _, _, most in found if "--jobs" in name)
    lines += ["", f"A second job takes {two - one:.0f} MB more. Memory: all processes, what they share once."]
    return lines


def scale(sizes: list[int]) -> list[str]:
    """Grade larger and larger classes; return a table."""
    lines = [
        f"The first exercise of {_SMALL_LAB} (the other one is missing in these notebooks), two jobs:",
        "",
        "| submissions | seconds | seconds each | memory of the supervisor, MB |",
        "|---:|---:|---:|---:|",
    ]
    for size in sizes:
        each, memory = measured(graders.ours(2), _SMALL_LAB, size, up_to=_SMALL, every=2.0)
        lines.append(f"| {size:,} | {each * size:.0f} | {each:.4f} | {memory.most_of_one:.0f} |")
        print(f"  {size}: {each:.4f} s each, {memory.most_of_one:.0f} MB", flush=True)
    return lines


def main() -> None:
    parser = report.arguments(__doc__)
    parser.add_argument("--students", type=int, default=100)
    parser.add_argument("--slow", type=int, default=10, help="submissions for what takes seconds for each")
    parser.add_argument("--lab", default="lab07_pooling_indices")
    parser.add_argument("--otter", type=Path, metavar="PROGRAM", help="otter of another environment")
    parser.add_argument("--scale", action="store_true", help="also classes of 500, 1,500 and 5,000")
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1500, 5000])
    asked = parser.parse_args()
    began = time.monotonic()
    lines = compare(asked.lab, asked.students, asked.slow, asked.otter)
    if asked.scale:
        lines += ["", *scale(asked.sizes)]
    lines += ["", f"All of this took {(time.monotonic() - began) / 60:.0f} minutes."]
    report.finish("grading", "\n".join(lines), asked, ("torch", "onnxruntime", "nbgrader"))


if __name__ == "__main__":
    main()
