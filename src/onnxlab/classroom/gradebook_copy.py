"""The files of a graded submission in `autograded/`, and when it was handed in."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onnxlab.classroom.gradebook_master import KnownLab, check_cell
from onnxlab.classroom.gradebook_notebook import graded_copy
from onnxlab.classroom.gradebook_text import shown
from onnxlab.grading.feedback import Picture, exercise_section
from onnxlab.grading.intake import Submission, read
from onnxlab.grading.ledger import Graded
from onnxlab.grading.submission_cells import NotebookUnreadable, whole_cells
from onnxlab.grading.whole_files import remove_torn, write_whole
from onnxlab.labs.outcome import Evidence

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["handed_in_at", "write_copy"]

_BESIDE = ("timestamp.txt", "submission_secret.txt")  # what nbgrader needs to know and to release feedback


def write_copy(
    folder: Path,
    submission: Submission,
    rows: Sequence[Graded],
    master: KnownLab,
    picture: Picture,
    kept: Callable[[str], Evidence | None],
) -> bool:
    """Write the graded copy of a submission, and what nbgrader wants beside it.

    Args:
        folder: Its place in `autograded/`.
        submission: The submission.
        rows: Its results.
        master: The lab as nbgrader knows it.
        picture: Draws a model.
        kept: Reads the graphs of a file's name.

    Returns:
        False if the file is not the one that was graded any more; nothing is written then.

    Raises:
        CannotWrite: If a file cannot be written.
    """
    try:
        data = read(submission.path)
        if hashlib.sha256(data).hexdigest() != submission.digest:
            return False
        cells = whole_cells(data)
    except NotebookUnreadable:
        cells = []  # the rows say why
    results = {check_cell(row.exercise): shown(row, exercise_section(row, picture, kept)) for row in rows}
    text = graded_copy(cells, master.content, results, rows[0].submission_note)
    remove_torn(folder)  # nbgrader would pass it on
    _put(folder / f"{master.notebook}.ipynb", text.encode("utf-8", "backslashreplace"))
    for name in _BESIDE:
        try:
            _put(folder / name, read(submission.path.with_name(name)), private=True)
        except NotebookUnreadable:  # not there, or no ordinary file
            (folder / name).unlink(missing_ok=True)
    return True


def handed_in_at(folder: Path) -> "datetime | None":
    """Return when a submission was handed in, as nbgrader noted it; None if it did not, or nobody can tell.

    Args:
        folder: Its place in `submitted/`.
    """
    from nbgrader.utils import parse_utc

    try:
        text = read(folder / "timestamp.txt").decode().strip()
        found: datetime | None = parse_utc(text) if text else None
    except (NotebookUnreadable, ValueError, OverflowError, TypeError):
        return None
    return found


def _put(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write a file, if it is not what is there: most of a class is not new."""
    if not (path.is_file() and path.read_bytes() == data):
        write_whole(path, data, private=private)
