"""The rules for committed notebooks: `check` lists violations. It reads the saved file and runs nothing."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from onnxlab.course.cleaning import WIDGET_VIEW
from onnxlab.course.notebooks import Kind, Notebook, code_cells, is_empty, read

LONGEST_CELL = 20
"""Lines a code cell may have."""

# Paths of somebody's machine, by their first folder: names of ONNX nodes begin with a slash, too.
_MACHINE_PATH = re.compile(
    r"(?<![\w.:/-])/(?:home|Users|root|tmp|var|opt|usr|mnt|srv|work|workspace|private|content)/[\w.~-]+"
    r"|\b[A-Za-z]:\\+(?:Users|Windows|Program Files|temp)\b"
    r"|site-packages[/\\]"
)
_LOCAL_URL = re.compile(r"\b(?:https?://)?(?:localhost|127\.0\.0\.1|0\.0\.0\.0)\b(?::\d+)?|\bfile://")
_DATA_URI = re.compile(r"data:[\w/+.;=-]+;base64,[A-Za-z0-9+/=\s]*")
_SHOWS = {"print", "display", "graph", "table"}
_UNCOMPARED = ("NBVAL_SKIP", "NBVAL_IGNORE_OUTPUT", "nbval-skip", "nbval-ignore-output")


@dataclass(frozen=True)
class Violation:
    """A place where a notebook breaks a rule.

    Attributes:
        notebook: The file.
        cell: Position of the cell, counted from 1 over all cells; None for the whole notebook.
        rule: Short name of the rule.
        detail: What breaks it.
    """

    notebook: Path
    cell: int | None
    rule: str
    detail: str


_Finding = tuple[int | None, str, str]
_Rule = Callable[[Notebook, Kind], Iterator[_Finding]]


def check(path: Path) -> list[Violation]:
    """Return the violations in the notebook at a path, in the order of its cells.

    Raises:
        NotebookUnreadable: The file is missing or is not a notebook.
    """
    notebook = read(path)
    kind = Kind.of(path)
    findings = [finding for rule in _RULES for finding in rule(notebook, kind)]
    findings.sort(key=lambda finding: finding[0] or 0)
    return [Violation(path, cell, rule, detail) for cell, rule, detail in findings]


def _counts(notebook: Notebook, kind: Kind) -> Iterator[_Finding]:
    expected = 0
    for position, cell in code_cells(notebook):
        count = cell["execution_count"]
        if not kind.has_outputs:
            if count is not None or cell["outputs"]:
                yield position, "not empty", "a lab is handed out without outputs and counts"
        elif not is_empty(cell):
            expected += 1
            if count != expected:
                yield position, "count", f"execution count is {count}, expected {expected}"


def _outputs(notebook: Notebook, kind: Kind) -> Iterator[_Finding]:
    for position, cell in code_cells(notebook):
        if kind.has_outputs and not cell["outputs"] and _must_show(cell["source"]):
            yield position, "no output", "the cell shows something, but the file has no output for it"
        for output in cell["outputs"]:
            if output["output_type"] == "error":
                yield position, "error", f"{output['ename']}: {output['evalue'][:60]}"
            elif output["output_type"] == "stream" and output["name"] == "stderr":
                yield position, "stderr", output["text"].strip()[:60]
            elif WIDGET_VIEW in output.get("data", {}):
                yield position, "widget view", "shows an error when the file is opened without its kernel"


def _metadata(notebook: Notebook, kind: Kind) -> Iterator[_Finding]:
    metadata = notebook["metadata"]
    if "widgets" in metadata:
        yield None, "widget state", "the state of widgets is saved in the notebook"
    if metadata.get("kernelspec", {}).get("name") != "python3":
        yield None, "kernel", "the kernelspec is not python3"
    extra = sorted(set(metadata) - {"widgets", "kernelspec", "language_info"})
    if extra:
        yield None, "metadata", f"not part of a clean notebook: {', '.join(extra)}"
    for position, cell in code_cells(notebook):
        if "execution" in cell["metadata"]:
            yield position, "timing", "the time of a run is saved in the cell"


def _length(notebook: Notebook, kind: Kind) -> Iterator[_Finding]:
    for position, cell in code_cells(notebook):
        lines = len(cell["source"].strip().splitlines())
        # A graded cell is a learner's answer or a hidden test: as long as it has to be.
        if lines > LONGEST_CELL and "nbgrader" not in cell["metadata"]:
            yield position, "long cell", f"{lines} lines, at most {LONGEST_CELL}"


def _machine(notebook: Notebook, kind: Kind) -> Iterator[_Finding]:
    for position, cell in enumerate(notebook["cells"], start=1):
        texts = [cell["source"]]
        for output in cell.get("outputs", []):
            texts += [str(output.get("text", "")), str(output.get("evalue", ""))]
            texts += [
                str(data) for mime, data in output.get("data", {}).items() if not mime.startswith("image/")
            ]
        text = _DATA_URI.sub("", "\n".join(texts))
        for rule, pattern in (("machine path", _MACHINE_PATH), ("local address", _LOCAL_URL)):
            if match := pattern.search(text):
                yield position, rule, match.group()[:60]


def _compared(notebook: Notebook, kind: Kind) -> Iterator[_Finding]:
    for position, cell in code_cells(notebook):
        tags = cell["metadata"].get("tags", [])
        markers = [marker for marker in _UNCOMPARED if marker in tags or f"# {marker}" in cell["source"]]
        if markers:
            yield position, "not compared", f"{markers[0]}: nothing notices when the output goes stale"


def _ends(notebook: Notebook, kind: Kind) -> Iterator[_Finding]:
    cells = notebook["cells"]
    if not cells:
        yield None, "empty", "the notebook has no cells"
    elif is_empty(cells[-1]):
        yield len(cells), "empty cell", "the last cell is empty"


def _prose(notebook: Notebook, kind: Kind) -> Iterator[_Finding]:
    prose = "\n\n".join(cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    prose = re.sub(r"^```.*?^```", "", prose, flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^# +\S.*$", prose, flags=re.MULTILINE)
    if len(titles) != 1:
        yield None, "title", f"{len(titles)} first-level headings, expected one"
    if kind is not Kind.CHAPTER:
        return
    if "you will" not in prose.lower():
        yield None, "opening", "no 'You will ...' that says what the reader gains"
    for heading in ("Summary", "Next"):
        if not re.search(rf"^(?:#+ *|\*\*){heading}\b", prose, flags=re.MULTILINE):
            yield None, "closing", f"no '{heading}' at the end"


_RULES: tuple[_Rule, ...] = (_metadata, _prose, _counts, _outputs, _length, _machine, _compared, _ends)


def _must_show(source: str) -> bool:
    """Tell whether a cell certainly has output: it prints or displays something outside any function."""
    try:
        body = ast.parse(re.sub(r"^\s*[%!].*$", "", source, flags=re.MULTILINE)).body
    except SyntaxError:
        return False
    calls = (node.value for node in body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
    return any(isinstance(call.func, ast.Name) and call.func.id in _SHOWS for call in calls)
