"""The graded copy of a submission that formgrader shows and nbgrader's feedback is made from.

It is built from the released lab and the sources of the student's cells. Nothing in it can run code in the
browser of whoever opens it: no outputs, attachments or metadata of the student's, no HTML or links in their
prose. Each of nbgrader's cells is in it once, also if the student deleted, doubled or renamed it.

nbgrader's Autograde cannot be used: it refuses a submission whose cells are missing, doubled or renamed, or
whose file is no notebook, and leaves 0 points for it. nbconvert's SanitizeHTML cannot either: it lets links
to javascript:, MathJax's commands and attachments through, and turns `a < b` in prose into `a &lt; b`.
"""

import copy
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from onnxlab.course.notebooks import Notebook
from onnxlab.files import remove_unfinished, write_atomically
from onnxlab.kit.outcome import Evidence, Status
from onnxlab.plain_text import plain
from onnxlab_class.grading.reports import Picture, exercise_section
from onnxlab_class.grading.results import Graded
from onnxlab_class.grading.submissions import NotebookUnreadable, Submission, SubmittedCell, all_cells, read

# A learner has all labs in one folder, where nbgrader has one for each: the course's links follow that.
_WITHIN = re.compile(r"\]\((lab\d\d_\w+)\.ipynb\)")
_ACROSS = re.compile(r"\]\(\.\./(lab\d\d_\w+)/\1\.ipynb\)")
_MISSING = "# This cell was missing from the submission."
_KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
# Active parts of prose: a tag, a link or a reference, a command of MathJax.
_ACTIVE = re.compile(r"<(?=[A-Za-z/!?])|\](?=[(:\[])|\\(?=[A-Za-z])")
_ZERO_WIDTH_SPACE = "\u200b"
_BESIDE = ("timestamp.txt", "submission_secret.txt")  # nbgrader needs them to release feedback
# For the result below a check cell; nbgrader's page around it is always light.
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


@dataclass(frozen=True)
class ReleasedLab:
    """A lab as nbgrader released it: without solutions and hidden tests.

    Attributes:
        name: The notebook's name in its assignment.
        cells: Its cells with a `grade_id`, by this id, in order.
        prose: The sources of its Markdown cells: in a submission they need not be made inert.
    """

    name: str
    cells: Mapping[str, Any]
    prose: frozenset[str]

    @classmethod
    def of(cls, name: str, notebook: Notebook) -> "ReleasedLab":
        """Read a released notebook."""
        cells = {}
        for cell in notebook["cells"]:
            grading = cell["metadata"].get("nbgrader", {})
            if any(grading.get(kind) for kind in ("grade", "solution", "locked", "task")):
                cells[grading["grade_id"]] = cell
        texts = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
        across = [_WITHIN.sub(r"](../\1/\1.ipynb)", text) for text in texts]
        within = [_ACROSS.sub(r"](\1.ipynb)", text) for text in texts]
        return cls(name, cells, frozenset([*texts, *across, *within]))


def check_cell(exercise: str) -> str:
    """Return nbgrader's name for the cell that checks an exercise.

    Example:
        >>> check_cell("asinh-symbolic")
        'check-asinh-symbolic'
    """
    return f"check-{exercise}"


def write_copy(
    folder: Path,
    submission: Submission,
    rows: Sequence[Graded],
    lab: ReleasedLab,
    picture: Picture,
    evidence: Callable[[str], Evidence | None],
) -> bool:
    """Write the graded copy of a submission, and the files that nbgrader needs beside it.

    Args:
        folder: Its place in `autograded/`.
        submission: The submission.
        rows: Its results.
        lab: The lab as it was released.
        picture: Draws a model.
        evidence: Reads the recorded graphs of a result.

    Returns:
        False, with nothing written, if the file has changed since it was graded.

    Raises:
        CannotWrite: If a file cannot be written.
    """
    try:
        data = read(submission.path)
        if hashlib.sha256(data).hexdigest() != submission.digest:
            return False
        cells = all_cells(data)
    except NotebookUnreadable:
        cells = []  # the rows say why
    sections = ((row, exercise_section(row, picture, evidence)) for row in rows)
    results = {check_cell(row.exercise): _result(row, section) for row, section in sections}
    text = _graded_copy(cells, lab, results, rows[0].submission_note)
    remove_unfinished(folder)  # nbgrader would pass it on
    _put(folder / f"{lab.name}.ipynb", text.encode("utf-8", "backslashreplace"))
    for name in _BESIDE:
        try:
            _put(folder / name, read(submission.path.with_name(name)), mode=0o600)
        except NotebookUnreadable:  # not there, or no ordinary file
            (folder / name).unlink(missing_ok=True)
    return True


def _graded_copy(
    submitted: Sequence[SubmittedCell], lab: ReleasedLab, results: Mapping[str, Any], note: str
) -> str:
    """Return a notebook file with the student's cells and the results below them."""
    last = {cell.grade_id: cell for cell in submitted if cell.grade_id in lab.cells}
    order: list[tuple[str, SubmittedCell | None]] = [
        (cell.grade_id if last.get(cell.grade_id) is cell else "", cell) for cell in submitted
    ]
    _put_back(order, list(lab.cells))
    cells = [nbformat.v4.new_markdown_cell(f"    {line}") for line in note.splitlines() if line]
    for name, cell in order:
        if name:
            cells.append(_released_cell(lab.cells[name], cell, results.get(name)))
        elif cell is not None and cell.kind == "code":
            cells.append(nbformat.v4.new_code_cell(cell.source))
        elif cell is not None:  # prose; raw cells, which would not be shown, too
            source = cell.source if cell.source in lab.prose else inert(cell.source)
            cells.append(nbformat.v4.new_markdown_cell(source))
    for number, cell in enumerate(cells, 1):
        cell["id"] = f"cell-{number}"  # a random one would change the file at every run
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=_KERNEL)
    text: str = nbformat.writes(notebook, version=4)
    return text + "\n"


def inert(prose: str) -> str:
    r"""Return untrusted Markdown without active HTML, links or macros; it looks the same.

    Example:
        >>> inert("a < b <b onclick=x> [here](javascript:x)").replace("\u200b", "~")
        'a < b <~b onclick=x> [here]~(javascript:x)'
    """
    return _ACTIVE.sub(lambda match: match[0] + _ZERO_WIDTH_SPACE, prose)


def _put_back(order: list[tuple[str, SubmittedCell | None]], names: Sequence[str]) -> None:
    """Insert missing cells, each after the one that it follows in the released lab."""
    position = 0
    for name in names:
        index = next((at for at, (present, _) in enumerate(order) if present == name), None)
        if index is None:
            order.insert(position, (name, None))
            index = position
        position = index + 1


def _released_cell(released: Any, cell: SubmittedCell | None, result: Any) -> Any:  # noqa: ANN401
    """Return a released cell with the student's source in it and the result as its output."""
    grading, code = released["metadata"]["nbgrader"], released["cell_type"] == "code"
    source = released["source"]
    if not grading["locked"]:
        source = _MISSING if cell is None else cell.source
        source = source if code else inert(source)
    metadata = {"nbgrader": copy.deepcopy(grading)}
    if not code:
        return nbformat.v4.new_markdown_cell(source, metadata=metadata)
    outputs = [nbformat.v4.new_output("display_data", result)] if result else []
    return nbformat.v4.new_code_cell(source, metadata=metadata, outputs=outputs)


def comment(row: Graded) -> str | None:
    """Return the comment on an answer; None if there is nothing to say, as for one that passed.

    The instructor sees it in a text field, the student as Markdown. A text that may quote a student is
    therefore an indented block, which Markdown shows unchanged.
    """
    if row.status == Status.PASSED:
        return None
    if row.status == Status.NOT_ATTEMPTED:
        return "No response."  # as nbgrader says it
    outcome = row.outcome
    lines = [outcome.get("message"), f"In your code, {outcome['where']}" if outcome.get("where") else ""]
    findings = [finding for finding in outcome.get("findings") or [] if isinstance(finding, dict)]
    failed = next((finding for finding in findings if finding.get("holds") is False), None)
    if failed:
        lines += [f"does not hold: {failed.get('title', '')}", failed.get("message")]
        difference = failed.get("difference")
        if isinstance(difference, dict):
            labels = (("for", "given"), ("right is", "expected"), ("yours gives", "got"))
            lines += [f"  {word}: {difference.get(key, '')}" for word, key in labels]
    block = "\n".join(f"    {plain(line)}" for line in lines if line)
    return f"{row.status.capitalize()}.\n\n{block}".rstrip()


def _result(row: Graded, section: str) -> dict[str, str]:
    """Return the output of a check cell: the result as text and as HTML."""
    points = f"{row.exercise}: {row.points} of {row.possible} points"
    # tex2jax_ignore: MathJax would turn some texts of a student into links.
    html = f'<style>\n{_STYLE}\n</style>\n<div class="onnxlab tex2jax_ignore">{section}</div>'
    return {"text/plain": f"{points}\n{comment(row) or 'Passed.'}", "text/html": html}


def _put(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write a file unless it has this content already, as most of a class's have."""
    if not (path.is_file() and path.read_bytes() == data):
        write_atomically(path, data, mode=mode)
