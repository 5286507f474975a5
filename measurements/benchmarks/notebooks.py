"""Chapters as tests: nbval as this course runs it, nbval alone, and nbmake, on the same notebooks in one run.

nbval alone compares outputs without the rules of `strict_nbval`; nbmake runs the cells and compares nothing.
nbmake is not a part of the course's requirements: `pip install nbmake`.

    python -m measurements.benchmarks.notebooks [--chapters 01 05 11 13] [--runs 3] [--write]
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measurements.benchmarks import report

ROOT = Path(__file__).parents[2]
WAYS = {
    "this course: nbval, strict": ["--nbval", "--nbval-current-env", "-p", "tools.author.strict_nbval"],
    "nbval": ["--nbval", "--nbval-current-env"],
    "nbmake": ["--nbmake", "--nbmake-kernel=python3"],
}


def seconds(way: str, folder: Path) -> float:
    """Run the notebooks of a folder without the course's settings; return the seconds."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        *WAYS[way],
        str(folder),
    ]
    began = time.perf_counter()
    variables = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}  # of the strict plugin
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=variables)
    elapsed = time.perf_counter() - began
    # nbval alone fails on a warning with another address in it; its time counts all the same.
    if done.returncode not in ((0, 1) if way == "nbval" else (0,)):
        msg = f"{way} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        raise SystemExit(msg)
    return elapsed


def main() -> None:
    parser = report.arguments(__doc__)
    parser.add_argument("--chapters", nargs="+", default=["01", "05", "11", "13"])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    timings: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as name:
        for number in options.chapters:
            for path in (ROOT / "notebooks").glob(f"{number}_*.ipynb"):
                shutil.copy(path, name)
        for _ in range(options.runs):
            for way, times in timings.items():
                times.append(seconds(way, Path(name)))
                print(way, f"{times[-1]:.1f}", file=sys.stderr)
    own = statistics.median(timings["this course: nbval, strict"])
    rows = [
        (
            way,
            f"{statistics.median(times):.1f}",
            f"{max(times) - min(times):.1f}",
            f"{statistics.median(times) / own:.2f}",
        )
        for way, times in timings.items()
    ]
    text = report.table(["way", "seconds", "spread", "x"], rows)
    text += f"\n\nChapters {', '.join(options.chapters)}, one after the other; medians of {options.runs}."
    report.finish("notebooks", text, options, ("nbval", "nbmake", "torch"))


if __name__ == "__main__":
    main()
