"""What is kept of a notebook after it ran, so that a commit shows only what its author changed.

A run leaves much that differs every time or says nothing to a reader: timings, the state of widgets, output
cut into pieces, random cell ids. Cleaning twice gives the same as cleaning once.
"""

import copy
import hashlib
import re
from typing import Any

from onnxlab.authoring.notebooks import Notebook, is_empty

__all__ = ["METADATA", "WIDGET_VIEW", "clean"]

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
"""All the metadata that a committed notebook has."""

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

# What a cell may carry: tags for the tools, and the fields that nbgrader reads.
_CELL_METADATA = ("tags", "nbgrader", "deletable", "editable")

_RANDOM_ID = re.compile(r"[0-9a-f]{8}(-\d+)?|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VALID_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OVERWRITTEN = re.compile(r"^.*\r(?=[^\n])", re.MULTILINE)


def clean(notebook: Notebook) -> Notebook:
    """Return a copy of a notebook with only what belongs in a commit.

    Execution counts run from 1 to n; the metadata is `METADATA`; widget views are dropped (they show an error
    when the file is opened without the kernel that made them); pieces of one stream are joined; empty cells
    at the end are dropped; ids follow from the cells' text unless a person gave them.
    """
    result = copy.deepcopy(notebook)
    result["metadata"] = type(result)(copy.deepcopy(METADATA))
    result["nbformat"], result["nbformat_minor"] = 4, 5
    cells = result["cells"]
    while cells and is_empty(cells[-1]):
        cells.pop()
    count = 0
    taken: set[str] = set()
    for cell in cells:
        kept = {key: cell["metadata"][key] for key in _CELL_METADATA if key in cell["metadata"]}
        cell["metadata"] = type(cell)(kept)
        cell["id"] = _stable_id(cell, taken)
        if cell["cell_type"] != "code":
            continue
        cell["outputs"] = _joined([rest for output in cell["outputs"] if (rest := _without_view(output))])
        ran = cell.get("execution_count") is not None
        count += ran
        cell["execution_count"] = count if ran else None
        for output in cell["outputs"]:
            if output["output_type"] == "execute_result":
                output["execution_count"] = cell["execution_count"]
    return result


def _stable_id(cell: dict[str, Any], taken: set[str]) -> str:
    """Keep an id that a person chose; replace a random one by one that follows from the cell's text.

    Tools give a cell a new random id whenever they make the file anew. An id from the text stays the same,
    and does not change when a cell is put in above it.
    """
    given = cell.get("id") or ""
    if _VALID_ID.fullmatch(given) and not _RANDOM_ID.fullmatch(given) and given not in taken:
        taken.add(given)
        return given
    text = f"{cell['cell_type']}\n{cell['source']}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    chosen, number = digest, 1
    while chosen in taken:
        number += 1
        chosen = f"{digest}-{number}"
    taken.add(chosen)
    return chosen


def _without_view(output: dict[str, Any]) -> dict[str, Any] | None:
    """Take the widget view out of an output; None if nothing is left."""
    output.pop("transient", None)
    if "data" not in output:
        return output
    was_view = output["data"].pop(WIDGET_VIEW, None) is not None
    if was_view and not output["data"]:
        return None
    return output


def _joined(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join neighbouring pieces of one stream, and drop what a progress line overwrote."""
    joined: list[dict[str, Any]] = []
    for output in outputs:
        is_stream = output["output_type"] == "stream"
        last = joined[-1] if joined else None
        if is_stream and last and last["output_type"] == "stream" and last["name"] == output["name"]:
            last["text"] += output["text"]
        else:
            joined.append(output)
    for output in joined:
        if output["output_type"] == "stream":
            output["text"] = _OVERWRITTEN.sub("", output["text"])
    return joined
