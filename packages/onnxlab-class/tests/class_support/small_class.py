"""A class that hands in lab 7, for tests that can use any lab.

Lab 7 does not use the `torch.export` exporter: a fork server is ready in half the time, and a submission
takes a third of a second.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import nbformat

from onnxlab.kit.exercise import exercise, lab
from onnxlab_class.grading.results import Ledger

ROOT = Path(__file__).parents[4]
LAB = "lab07_pooling_indices"
FULL = lab(LAB).points
REST = FULL - exercise("max-unpool-symbolic")[1].points
RIGHT = 'return g.op("MaxUnpool", values, global_index, shape, kernel_shape_i=[2, 2], strides_i=[2, 2])'
WRONG = RIGHT.replace("global_index", "index")


@functools.cache
def _solution() -> tuple[str, ...]:
    """The code cells of the solution, without those that only display something."""
    book = nbformat.read(ROOT / "solutions" / f"{LAB}.ipynb", 4)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    cells = tuple(cell.source for cell in code if "nbgrader" in cell.metadata or cell is code[0])
    assert sum(RIGHT in cell for cell in cells) == 1, "the solution has another line"
    return cells


@dataclass(frozen=True)
class Learner:
    """One submission.

    Attributes:
        name: What it does; the student's name in the tests.
        points: What it must get.
        body: The last line of max_unpool_symbolic.
        before: A cell before everything.
        after: A cell after everything.
        raw: The bytes of the file, if it is not a notebook of these cells.
        quick: Whether it ends without reaching a limit.
    """

    name: str
    points: int = FULL
    body: str = RIGHT
    before: str = ""
    after: str = ""
    raw: bytes | None = None
    quick: bool = True

    def notebook(self) -> bytes:
        """Its file."""
        if self.raw is not None:
            return self.raw
        answers = (cell.replace(RIGHT, self.body) for cell in _solution())
        cells = [nbformat.v4.new_code_cell(cell) for cell in (self.before, *answers, self.after) if cell]
        return nbformat.writes(nbformat.v4.new_notebook(cells=cells)).encode()


CLASS = (
    Learner("right"),
    Learner("one wrong", REST, body=WRONG),
    Learner("one not attempted", REST, body="raise NotImplementedError()"),
    Learner("an error in one answer", REST, body="return g.oops(values)"),
    Learner("another right"),
)


def hand_in(folder: Path, learners: Iterable[Learner]) -> Path:
    """Write submissions as a folder of students."""
    for learner in learners:
        place = folder / learner.name
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{LAB}.ipynb").write_bytes(learner.notebook())
    return folder


def marks(ledger: Ledger) -> dict[str, int]:
    """The points of each student."""
    points: dict[str, int] = {}
    for row in ledger.rows():
        points[row.student] = points.get(row.student, 0) + row.points
    return points
