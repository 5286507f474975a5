"""The graders that grading.py measures: this course's, bare code, nbgrader, otter-grader and nbclient.

Each is a function of a working folder, the lab and the notebooks, and returns the seconds that it took.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import psutil

from class_support.machines import machines

ROOT = Path(__file__).parents[2]

Way: TypeAlias = Callable[[Path, str, list[Path]], float]

_BARE = """
import json, sys, tempfile, time
from pathlib import Path
from onnxlab_class.grading.worker.task import uses_exporter
from onnxlab_class.grading.submissions import cells_of
from onnxlab_class.grading.worker import server, student
from onnxlab_class.grading.worker.task import Task
from onnxlab.kit.checking import judge, questions_seed
from onnxlab.kit.exercise import lab
from onnxlab.kit.work import Work
server.load()
if uses_exporter(sys.argv[1], []):
    server.load_exporter()
exercises = lab(sys.argv[1]).exercises
began = time.perf_counter()
for path in sys.argv[2:]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cells.json").write_text(json.dumps(cells_of(Path(path).read_bytes())))
        task = Task("0", "student", name, sys.argv[1], tuple(exercise.id for exercise in exercises), 1, None)
        student.run(task, folder)
        for exercise in exercises:
            findings = judge(exercise, Work(folder / exercise.id, questions_seed(exercise, 1)), 2)
            assert all(finding.holds for finding in findings), exercise.id
print(time.perf_counter() - began)
"""
_OTTER_TEST = """
from otter.test_files import test_case

OK_FORMAT = False
name = {name!r}
points = {points}


@test_case()
def test_it(env):
    from onnxlab.kit.checking import check
    from onnxlab.kit.exercise import exercise

    chosen = exercise({name!r})[1]
    assert check(chosen, {{answer: env[answer] for answer in chosen.answers}}, 1).points == {points}
"""


def hand_in(folder: Path, lab: str, students: int, *, up_to: str = "") -> list[Path]:
    """Write the lab's solution as the work of many students, up to the cell with an id if one is given."""
    book = json.loads((ROOT / "solutions" / f"{lab}.ipynb").read_text("utf-8"))
    ids = [cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in book["cells"]]
    book["cells"] = book["cells"][: ids.index(up_to) + 1] if up_to else book["cells"]
    text, paths = json.dumps(book), []
    (folder / "nbgrader_config.py").touch()  # it tells a course's folder from a folder of students
    for number in range(students):
        path = folder / "submitted" / f"student{number:04}" / lab / f"{lab}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(text, "utf-8")
        paths.append(path)
    return paths


def bare(folder: Path, lab: str, paths: list[Path]) -> float:
    """The cells and the judges in one process without a sandbox; its start is not counted."""
    return float(_run([sys.executable, "-c", _BARE, lab, *map(str, paths)], folder).split()[-1])


def ours(jobs: int) -> Way:
    """`onnxlab grade`, with its start and its reports."""
    return lambda folder, lab, paths: _grade(folder, paths, ["--jobs", str(jobs)])


def on_dask(folder: Path, lab: str, paths: list[Path]) -> float:
    """`onnxlab grade --dask` with a scheduler and two workers on this machine; their start is not counted."""
    with machines(folder / "cluster") as cluster:
        for _ in range(2):
            cluster.worker()
        time.sleep(5)
        return _grade(folder, paths, ["--dask", cluster.address])


def nbgrader(folder: Path, lab: str, paths: list[Path]) -> float:
    """`nbgrader autograde` for all notebooks in one command."""
    course = folder / "course"
    (course / "source" / lab).mkdir(parents=True)
    shutil.copy(ROOT / "solutions" / f"{lab}.ipynb", course / "source" / lab)
    _run([sys.executable, "-m", "nbgrader", "generate_assignment", lab], course)
    for path in paths:
        place = course / "submitted" / path.parents[1].name / lab
        place.mkdir(parents=True)
        shutil.copy(path, place)
    with _clock() as seconds:
        _run([sys.executable, "-m", "nbgrader", "autograde", lab], course)
    return seconds[0]


def otter(program: Path) -> Way:
    """`otter run` (without containers) for each notebook; its tests are the lab's own checks."""

    def grade(folder: Path, lab: str, paths: list[Path]) -> float:
        tests, out = folder / "tests", folder / "out"
        tests.mkdir()
        out.mkdir()
        points = 0
        for line in _run([sys.executable, "-c", _EXERCISES, lab], folder).splitlines():
            name, worth = line.split()
            points += int(worth)
            text = _OTTER_TEST.format(name=name, points=int(worth))
            (tests / f"{name.replace('-', '_')}.py").write_text(text, "utf-8")
        archive = folder / "autograder.zip"
        _run([str(program), "generate", "-t", str(tests), "-o", str(archive), "--no-requirements"], folder)
        with _clock() as seconds:
            for path in paths:
                _run(
                    [str(program), "run", "-a", str(archive), "-o", str(out), "--no-logo", str(path)], folder
                )
        results = json.loads((out / "results.json").read_text("utf-8"))
        assert sum(float(test["score"]) for test in results["tests"] if "score" in test) == points, results
        return seconds[0]

    return grade


def nbclient(folder: Path, lab: str, paths: list[Path]) -> float:
    """nbclient, which runs each notebook in a new kernel and gives no marks."""
    code = "import nbformat, sys\nfrom nbclient import NotebookClient\n"
    code += "for p in sys.argv[1:]: NotebookClient(nbformat.read(p, 4), kernel_name='python3').execute()"
    with _clock() as seconds:
        _run([sys.executable, "-c", code, *map(str, paths)], folder)
    return seconds[0]


class Memory:
    """Measures the memory of all descendants of this process at intervals.

    Shared memory counts once (PSS), which only root may read for other users' processes.

    Attributes:
        most: The maximum of all together, in MB; 0 if it could not be read.
        most_of_one: The maximum of a process with a certain word in its command, in MB.
    """

    def __init__(self, every: float, word: str = "") -> None:
        self.most = self.most_of_one = 0.0
        self._every, self._word = every, word
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._measure)

    def __enter__(self) -> "Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _measure(self) -> None:
        while not self._stop.wait(self._every):
            total = 0.0
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    part = process.memory_full_info().pss / 1e6
                    total += part
                    if self._word and any(self._word in word for word in process.cmdline()):
                        self.most_of_one = max(self.most_of_one, part)
            self.most = max(self.most, total)


_EXERCISES = """
import sys
from onnxlab.kit.exercise import lab
for exercise in lab(sys.argv[1]).exercises:
    print(exercise.id, exercise.points)
"""


def _grade(folder: Path, paths: list[Path], options: list[str]) -> float:
    with _clock() as seconds:
        command = [sys.executable, "-m", "onnxlab.cli", "grade", str(folder), "--out", str(folder / "out")]
        printed = _run([*command, *options], folder)
    assert f"{len(paths):,} submissions" in printed, printed
    assert "not graded" not in printed, printed
    return seconds[0]


def _run(command: list[str], folder: Path) -> str:
    """Run a program to its end and return what it printed."""
    done = subprocess.run(command, cwd=folder, env=_variables(), capture_output=True, text=True)
    if done.returncode:
        msg = f"{' '.join(command[:5])} failed:\n{done.stdout[-1000:]}\n{done.stderr[-2000:]}"
        raise SystemExit(msg)
    return done.stdout


def _variables() -> dict[str, str]:
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return os.environ | {"PATH": programs, "ORT_DISABLE_TELEMETRY": "1"}


@contextmanager
def _clock() -> Iterator[list[float]]:
    seconds: list[float] = []
    began = time.perf_counter()
    yield seconds
    seconds.append(time.perf_counter() - began)
