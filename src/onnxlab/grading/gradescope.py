"""One submission's result as Gradescope's autograder reads it: `results.json`.

The format is described at https://gradescope-autograders.readthedocs.io/en/latest/specs/. Every exercise is a
test case. Texts are sent as plain text, which Gradescope escapes.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnxlab.errors import UnknownExercise
from onnxlab.grading.catalogue import exercise
from onnxlab.grading.ledger import Graded
from onnxlab.grading.plain_text import plain
from onnxlab.grading.whole_files import write_whole
from onnxlab.labs.outcome import Status

__all__ = ["gradescope_results", "result_text", "write_gradescope"]

_MARKS = {True: "\u2713", False: "\u2717", None: "\u2013"}


def gradescope_results(rows: Sequence[Graded], note: str = "") -> dict[str, Any]:
    """Return the content of results.json.

    Args:
        rows: The rows of one submission: one student's, of one lab or several.
        note: What the student should read first: that nothing was found to grade, for instance.

    A submission over which the grader failed has no result: if results.json is missing, Gradescope tells the
    student that the autograder failed, and the submission can be run again.
    """
    notes = dict.fromkeys([note, *(row.submission_note for row in rows)])
    output = "\n".join(plain(each, lines=True) for each in notes if each)
    seconds = {(row.lab, row.digest): row.seconds for row in rows}
    return {
        "score": sum(row.points for row in rows),
        "execution_time": round(sum(seconds.values())),
        "output": output,
        "output_format": "text",
        "test_output_format": "text",
        "stdout_visibility": "hidden",
        "visibility": "visible",
        "tests": [_test(row) for row in rows],
    }


def write_gradescope(path: Path, rows: Sequence[Graded], note: str = "") -> None:
    """Write results.json."""
    write_whole(path, json.dumps(gradescope_results(rows, note), indent=1) + "\n")


def _test(row: Graded) -> dict[str, Any]:
    return {
        "name": f"{_title(row.exercise)} ({row.exercise})",
        "score": row.points,
        "max_score": row.possible,
        "status": "passed" if row.status == Status.PASSED else "failed",
        "output": result_text(row),
        "tags": [row.lab],
        "visibility": "visible",
    }


def result_text(row: Graded) -> str:
    """Return what a student reads about an exercise, as plain text: a line for each thing said."""
    outcome = row.outcome
    findings = [each for each in outcome.get("findings") or [] if isinstance(each, dict)]
    lines = [row.status, outcome.get("message")]
    if outcome.get("where"):
        lines.append(f"In your code, {outcome['where']}")
    lines += [f"{_MARKS.get(each.get('holds'), '')} {each.get('title', '')}" for each in findings]
    failed = next((each for each in findings if each.get("holds") is False), None)
    if failed:
        lines.append(failed.get("message"))
        difference = failed.get("difference")
        if isinstance(difference, dict):
            lines += [f"  for          {difference.get('given', '')}"]
            lines += [f"  right is     {difference.get('expected', '')}"]
            lines += [f"  yours gives  {difference.get('got', '')}"]
        if failed.get("look_at"):
            lines.append(f"Look at: {failed['look_at']}")
    return "\n".join(plain(line) for line in lines if line)


def _title(name: str) -> str:
    try:
        return exercise(name)[1].title
    except UnknownExercise:
        return "an exercise that there is no more"
