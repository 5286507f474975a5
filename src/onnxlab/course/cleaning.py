"""What a saved notebook keeps: no timings, no state of widgets, no output cut into pieces.

Cleaning is idempotent.
"""

import copy
import hashlib
import re
from typing import Any

from onnxlab.course.fresh import CELL_METADATA, METADATA, PROOF
from onnxlab.course.notebooks import Notebook, is_empty

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

_VALID_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def clean(notebook: Notebook) -> Notebook:
    """Return a copy of a notebook with only what belongs in a commit.

    Execution counts run from 1 to n; the metadata is `METADATA`; widget views are dropped (they show an error
    when the file is opened without the kernel that made them); pieces of one stream are joined; empty cells
    at the end are dropped; a cell keeps its id, and gets one from its text where it has none. The code of a
    cell tagged ``proof`` is folded, that of every other cell is not.
    """
    # Imported here: nbconvert needs a home folder on import, and a service of the hub may have none.
    # nbclient can join streams, too, but moves text printed after a display to before it.
    from nbconvert.preprocessors.coalescestreams import CoalesceStreamsPreprocessor

    streams = CoalesceStreamsPreprocessor()
    result = copy.deepcopy(notebook)
    result["metadata"] = type(result)(copy.deepcopy(METADATA))
    result["nbformat"], result["nbformat_minor"] = 4, 5
    cells = result["cells"]
    while cells and is_empty(cells[-1]):
        cells.pop()
    count = 0
    ids: set[str] = set()
    for cell in cells:
        metadata = {key: cell["metadata"][key] for key in CELL_METADATA if key in cell["metadata"]}
        if PROOF in metadata.get("tags", []):
            metadata["jupyter"] = {"source_hidden": True}
        cell["metadata"] = type(cell)(metadata)
        cell["id"] = _stable_id(cell, ids)
        if cell["cell_type"] != "code":
            continue
        cell["outputs"] = [cleaned for output in cell["outputs"] if (cleaned := _without_view(output))]
        streams.preprocess_cell(cell, {}, 0)
        ran = cell.get("execution_count") is not None
        count += ran
        cell["execution_count"] = count if ran else None
        for output in cell["outputs"]:
            if output["output_type"] == "execute_result":
                output["execution_count"] = cell["execution_count"]
    return result


def _stable_id(cell: dict[str, Any], ids: set[str]) -> str:
    """Return a cell's id; if it is missing, invalid or in `ids` already, one that is made from its text.

    Links to a cell stay valid after an edit, because JupyterLab keeps the ids of cells.
    """
    present = cell.get("id") or ""
    if _VALID_ID.fullmatch(present) and present not in ids:
        ids.add(present)
        return present
    text = f"{cell['cell_type']}\n{cell['source']}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    chosen, number = digest, 1
    while chosen in ids:
        number += 1
        chosen = f"{digest}-{number}"
    ids.add(chosen)
    return chosen


def _without_view(output: dict[str, Any]) -> dict[str, Any] | None:
    """Remove the widget view from an output; None if nothing is left."""
    output.pop("transient", None)
    if "data" not in output:
        return output
    was_view = output["data"].pop(WIDGET_VIEW, None) is not None
    if was_view and not output["data"]:
        return None
    return output
