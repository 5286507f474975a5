"""A class that hands in lab 7, for tests that can use any lab.

Lab 7 does not use the `torch.export` exporter: a fork server is ready in half the time, and a submission
takes a third of a second.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import nbformat

from class_support.adversaries import ROOT, Adversary, notebook_of
from onnxlab.kit.exercise import exercise, lab
from onnxlab_class.grading.results import Ledger

__all__ = ["CLASS", "FULL", "LAB", "REST", "RIGHT", "WRONG", "Learner", "hand_in", "marks"]

LAB = "lab07_pooling_indices"
FULL = lab(LAB).points
REST = FULL - exercise("max-unpool-symbolic")[1].points
RIGHT = 'return g.op("MaxUnpool", values, global_index, shape, kernel_shape_i=[2, 2], strides_i=[2, 2])'
WRONG = RIGHT.replace("global_index", "index")


@dataclass(frozen=True)
class Learner(Adversary):
    """A submission of lab 7; its body is that of max_unpool_symbolic."""

    points: int = FULL
    body: str = RIGHT


CLASS = (
    Learner("right"),
    Learner("one wrong", REST, body=WRONG),
    Learner("one not attempted", REST, body="raise NotImplementedError()"),
    Learner("an error in one answer", REST, body="return g.oops(values)"),
    Learner("another right"),
)


def hand_in(folder: Path, students: Iterable[Adversary]) -> Path:
    """Write submissions as a folder of students."""
    for student in students:
        lab, data = (
            (LAB, _notebook(student))
            if isinstance(student, Learner)
            else ("lab04_asinh", notebook_of(student))
        )
        place = folder / student.name
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{lab}.ipynb").write_bytes(data)
    return folder


def marks(ledger: Ledger) -> dict[str, int]:
    """The points of each student."""
    points: dict[str, int] = {}
    for row in ledger.rows():
        points[row.student] = points.get(row.student, 0) + row.points
    return points


def _notebook(student: Learner) -> bytes:
    if student.raw is not None:
        return student.raw
    book = nbformat.read(ROOT / "solutions" / f"{LAB}.ipynb", 4)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    cells = [cell.source for cell in code if "nbgrader" in cell.metadata or cell is code[0]]
    assert sum(RIGHT in cell for cell in cells) == 1, "the solution has another line"
    cells = [student.before, *(source.replace(RIGHT, student.body) for source in cells), student.after]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells if cell])
    return nbformat.writes(notebook).encode()
