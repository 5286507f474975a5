"""All reports of a run, written from its ledger."""

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from onnxlab.grading.feedback import Picture, write_feedback
from onnxlab.grading.gradescope import write_gradescope
from onnxlab.grading.ledger import Ledger
from onnxlab.grading.names import safe_name
from onnxlab.grading.results import write_grades
from onnxlab.grading.summary import Standing, standings, write_summary

__all__ = ["write_reports"]


def write_reports(
    ledger: Ledger, picture: Picture, *, ignored: Iterable[tuple[Path, str]] = (), gradescope: bool = False
) -> list[Standing]:
    """Write the grades, the pages for students and the summary into the ledger's folder.

    Args:
        ledger: The rows.
        picture: Draws a model.
        ignored: The files that were not taken, for the instructor.
        gradescope: Whether to write Gradescope's file for each student as well.

    Returns:
        How the class stands with each exercise.

    Raises:
        CannotWrite: If there is no room. The ledger stays as it is.
    """
    folder, failures = ledger.folder, ledger.failures
    write_grades(folder / "grades.csv", ledger.rows(), failures)
    write_feedback(folder, ledger.rows(), picture, failures=failures, ignored=ignored)
    found = standings(ledger.rows())
    write_summary(folder / "summary.html", found)
    if gradescope:
        for student, rows in groupby(ledger.rows(), key=lambda row: row.student):
            write_gradescope(folder / "gradescope" / f"{safe_name(student)}.json", list(rows))
    return found
