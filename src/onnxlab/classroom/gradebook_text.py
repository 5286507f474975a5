"""A result as nbgrader shows it: a comment for the gradebook, a section below the cell that checks."""

from onnxlab.classroom.gradebook_notebook import Shown
from onnxlab.grading.gradescope import result_text
from onnxlab.grading.ledger import Graded
from onnxlab.grading.plain_text import plain
from onnxlab.labs.outcome import Status

__all__ = ["comment", "shown"]

# The page that this is put into is nbgrader's, and light.
_STYLE = """
.onnxlab { --passed: #1a7f37; --incorrect: #cf222e; --error: #a04000; --late: #7a4fb5; --open: #6e7781;
  font: 14px/1.5 sans-serif; overflow-wrap: anywhere }
.onnxlab section { border-left: 4px solid var(--tone); padding: .2em 1em; margin: .4em 0 }
.onnxlab h3 { font-size: 1.05em; margin: 0 0 .3em }
.onnxlab p { margin: .3em 0 }
.onnxlab .points { color: #59636e; font-weight: normal; font-size: .9em }
.onnxlab .status { color: var(--tone); font-weight: 600 }
.onnxlab ul.parts { list-style: none; margin: .4em 0; padding: 0 }
.onnxlab ul.parts li::before { content: attr(data-mark) " "; font-weight: 600 }
.onnxlab pre, .onnxlab dd { font-family: monospace; white-space: pre-wrap; margin: 0 }
.onnxlab dl { display: grid; grid-template-columns: max-content 1fr; gap: .1em 1em; margin: .4em 0 }
.onnxlab dt, .onnxlab .aside, .onnxlab figcaption { color: #59636e; font-weight: normal }
.onnxlab .graphs { display: flex; flex-wrap: wrap; gap: 1em }
.onnxlab figure { flex: 1 1 18em; min-width: 0; margin: .5em 0; overflow-x: auto }
.onnxlab img { max-width: 100%; height: auto; border: 0 !important }
""".strip()


def comment(row: Graded) -> str | None:
    """Return the comment on an answer; None if there is nothing to say, as for one that passed.

    It stands in a text field for the instructor, and is Markdown for the student. What may quote a student
    is therefore an indented block, which Markdown shows as it is.
    """
    if row.status == Status.PASSED:
        return None
    if row.status == Status.NOT_ATTEMPTED:
        return "No response."  # as nbgrader says it
    outcome = row.outcome
    lines = [outcome.get("message"), f"In your code, {outcome['where']}" if outcome.get("where") else ""]
    findings = [each for each in outcome.get("findings") or [] if isinstance(each, dict)]
    failed = next((each for each in findings if each.get("holds") is False), None)
    if failed:
        lines += [f"does not hold: {failed.get('title', '')}", failed.get("message")]
        difference = failed.get("difference")
        if isinstance(difference, dict):
            told = (("for", "given"), ("right is", "expected"), ("yours gives", "got"))
            lines += [f"  {word}: {difference.get(key, '')}" for word, key in told]
    block = "\n".join(f"    {plain(line)}" for line in lines if line)
    return f"{row.status.capitalize()}.\n\n{block}".rstrip()


def shown(row: Graded, section: str) -> Shown:
    """Return what stands below the cell that checks an exercise.

    Args:
        row: The result.
        section: The same as HTML, from `onnxlab.grading.feedback.exercise_section`.
    """
    points = f"{row.exercise}: {row.points} of {row.possible} points"
    # A student's text in it is no formula: MathJax would make links of some.
    html = f'<style>\n{_STYLE}\n</style>\n<div class="onnxlab tex2jax_ignore">{section}</div>'
    return Shown(f"{points}\n{result_text(row)}", html)
