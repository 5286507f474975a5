"""Seconds per submission: this grader, and what else there is, on the same notebooks in one run.

The notebooks are a lab's solution, as many students handed it in. Bare code (the cells and the checks in one
warm process, nothing confined) is the floor. What takes seconds per notebook is measured on a part of them.

    python benchmarks/grading.py [--students 100] [--slow 10] [--lab lab07]
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
BARE = """
import json, os, sys, tempfile, time
from pathlib import Path
from onnxlab.grading import student_task, warm
from onnxlab.grading.submission_cells import cells_of
from onnxlab.grading.tasks import Task
from onnxlab.labs.checking import judge, questions_seed
from onnxlab.labs.exercise import lab
from onnxlab.labs.work import Work
warm._load()
exercises = lab(sys.argv[1]).exercises
began = time.perf_counter()
for path in sys.argv[2:]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cells.json").write_text(json.dumps(cells_of(Path(path).read_bytes())))
        task = Task("0", "student", name, sys.argv[1], tuple(each.id for each in exercises), 1, None)
        student_task.run(task, folder)
        for each in exercises:
            found = judge(each, Work(folder / each.id, questions_seed(each, 1)), 2)
            assert all(one.holds for one in found), each.id
print(time.perf_counter() - began)
"""


def hand_in(folder: Path, lab: str, students: int) -> list[Path]:
    """Write the lab's solution as many students' work."""
    paths = []
    for number in range(students):
        place = folder / "submitted" / f"student{number:04}" / lab
        place.mkdir(parents=True)
        paths.append(Path(shutil.copy(ROOT / "solutions" / f"{lab}.ipynb", place)))
    return paths


def run(command: list[str], folder: Path) -> str:
    """Run a program to its end and return what it printed."""
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": programs, "ORT_DISABLE_TELEMETRY": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        msg = f"{' '.join(command[:5])} failed:\n{done.stderr[-2000:]}"
        raise SystemExit(msg)
    return done.stdout


def bare(folder: Path, lab: str, paths: list[Path]) -> float:
    """One warm process, nothing confined; the warm-up is not counted."""
    return float(run([sys.executable, "-c", BARE, lab, *map(str, paths)], folder).split()[-1])


def ours(jobs: int) -> Callable[[Path, str, list[Path]], float]:
    """`onnxlab grade`, its start and its reports included."""

    def grade(folder: Path, lab: str, paths: list[Path]) -> float:
        with tempfile.TemporaryDirectory() as out, clock() as seconds:
            command = [
                sys.executable,
                "-m",
                "onnxlab.cli",
                "grade",
                str(folder),
                "--out",
                out,
                "--jobs",
                str(jobs),
            ]
            printed = run(command, folder)
        assert f"{len(paths):,} submissions" in printed, printed
        return seconds[0]

    return grade


def nbgrader(folder: Path, lab: str, paths: list[Path]) -> float:
    """`nbgrader autograde` for all of them in one command."""
    course = folder / "course"
    (course / "source" / lab).mkdir(parents=True)
    shutil.copy(ROOT / "solutions" / f"{lab}.ipynb", course / "source" / lab)
    run([sys.executable, "-m", "nbgrader", "generate_assignment", lab], course)
    for path in paths:
        place = course / "submitted" / path.parents[1].name / lab
        place.mkdir(parents=True)
        shutil.copy(path, place)
    with clock() as seconds:
        run([sys.executable, "-m", "nbgrader", "autograde", lab], course)
    return seconds[0]


def nbclient(folder: Path, lab: str, paths: list[Path]) -> float:
    """Each notebook in a fresh kernel, by nbclient; nothing is marked."""
    code = "import nbformat, sys\nfrom nbclient import NotebookClient\n"
    code += "for p in sys.argv[1:]: NotebookClient(nbformat.read(p, 4), kernel_name='python3').execute()"
    with clock() as seconds:
        run([sys.executable, "-c", code, *map(str, paths)], folder)
    return seconds[0]


@contextmanager
def clock() -> Iterator[list[float]]:
    """Measure a block."""
    taken: list[float] = []
    began = time.perf_counter()
    yield taken
    taken.append(time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--students", type=int, default=100)
    parser.add_argument("--slow", type=int, default=10)
    parser.add_argument("--lab", default="lab07_pooling_indices")
    asked = parser.parse_args()
    ways = [
        ("bare code, warm", asked.students, bare),
        ("onnxlab grade --jobs 1", asked.students, ours(1)),
        ("onnxlab grade --jobs 2", asked.students, ours(2)),
        ("nbgrader autograde", asked.slow, nbgrader),
        ("nbclient, not marked", asked.slow, nbclient),
    ]
    floor = None
    print(f"{'way':<26}{'submissions':>12}{'s each':>9}{'x bare':>9}")
    for name, count, way in ways:
        with tempfile.TemporaryDirectory() as folder:
            each = way(Path(folder), asked.lab, hand_in(Path(folder), asked.lab, count)) / count
        floor = floor or each
        print(f"{name:<26}{count:>12}{each:>9.3f}{each / floor:>9.1f}", flush=True)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"largest process: {most:.0f} MB; {asked.lab}; start and reports included")


if __name__ == "__main__":
    main()
