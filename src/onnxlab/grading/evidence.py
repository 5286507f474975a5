"""The graphs that feedback shows, kept in files beside the ledger: rows stay small."""

import base64
import binascii
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnxlab.grading.names import safe_name
from onnxlab.grading.whole_files import write_whole
from onnxlab.labs.outcome import Evidence

__all__ = ["FOLDER", "keep", "kept"]

FOLDER = "evidence"
"""Where they are in an output folder."""


def keep(folder: Path, student: str, digest: str, exercise: str, data: Mapping[str, Any]) -> str:
    """Write the graphs for one exercise of a submission.

    Args:
        folder: The output folder.
        student: The student.
        digest: The submission's content.
        exercise: The exercise's id.
        data: The models in base64, as a judge writes them: "model", "expected" or None, "highlight".

    Returns:
        The file's name; a submission that is graded again after a failure gets the same one.
    """
    name = f"{safe_name(student)}.{digest[:16]}.{safe_name(exercise)}.json"
    write_whole(folder / FOLDER / name, json.dumps(dict(data)))
    return name


def kept(folder: Path, name: str) -> Evidence | None:
    """Read graphs again; None if they are gone or damaged: nobody's points depend on them."""
    if Path(name).name != name:
        return None
    try:
        data = json.loads((folder / FOLDER / name).read_text("utf-8"))
        expected = data.get("expected")
        return Evidence(
            base64.b64decode(data["model"], validate=True),
            None if expected is None else base64.b64decode(expected, validate=True),
            tuple(map(str, data.get("highlight") or ())),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, binascii.Error):
        return None
