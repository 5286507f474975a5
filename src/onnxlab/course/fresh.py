"""A notebook as it is before its first run: no output, no execution count.

Nothing but the standard library is imported: `course.py` waits for this at every start.
"""

import json
from typing import Any

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
"""All the metadata that a committed notebook has."""

CELL_METADATA = ("tags", "nbgrader", "deletable", "editable")
"""The metadata of a cell: tags for tools, and the fields that nbgrader reads."""

PROOF = "proof"
"""The tag of a cell that proves what the cells above it teach. It runs like any other; its code is folded."""


def fresh(data: bytes) -> bytes:
    r"""Return a notebook without all that running it, or opening it in an editor, leaves in it.

    So two files are the same here if nobody has changed a text of them. Empty cells at the end are dropped:
    JupyterLab adds one when the last cell is run. What is not a notebook is returned as it is.

    >>> ran = b'{"cells": [{"cell_type": "code", "source": ["x"], "execution_count": 3}]}'
    >>> b'"execution_count": null' in fresh(ran)
    True
    >>> fresh(b"no notebook")
    b'no notebook'
    """
    try:
        notebook = json.loads(data)
        notebook["metadata"] = METADATA
        cells: list[dict[str, Any]] = notebook["cells"]
        while cells and not "".join(cells[-1]["source"]).strip():
            cells.pop()
        for cell in cells:
            metadata = cell.get("metadata", {})
            cell["metadata"] = {key: metadata[key] for key in CELL_METADATA if key in metadata}
            if PROOF in metadata.get("tags", ()):
                cell["metadata"]["jupyter"] = {"source_hidden": True}
            cell["source"] = "".join(cell["source"]).splitlines(keepends=True)
            if cell["cell_type"] == "code":
                cell["outputs"], cell["execution_count"] = [], None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return data
    return (json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
