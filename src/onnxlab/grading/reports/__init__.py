"""All reports of a run, written from its ledger."""

from collections.abc import Iterable
from pathlib import Path

from onnxlab.grading.grades import write_grades
from onnxlab.grading.reports.feedback import Picture, write_feedback
from onnxlab.grading.reports.summary import Standing, standings, write_summary
from onnxlab.grading.results import Ledger

__all__ = ["write_reports"]


def write_reports(
    ledger: Ledger, picture: Picture, *, ignored: Iterable[tuple[Path, str]] = ()
) -> list[Standing]:
    """Write the grades, the pages for students and the summary into the ledger's folder.

    Args:
        ledger: The rows.
        picture: Draws a model.
        ignored: The files that were not taken, for the instructor.

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
    return found
