"""The list of each chapter's predictions, by which a learner's right ones are counted."""

import json
from pathlib import Path

from onnxlab.course.notebooks import code_cells, course_notebooks, read
from onnxlab.notebook.predict.answers import key

LIST = Path("src", "onnxlab", "assets", "predictions.json")
"""The file, below a repository's root."""


def predictions(root: Path) -> dict[str, list[str]]:
    """Return the keys of the questions of each chapter that asks any, from the chapters' saved outputs."""
    asked = {}
    for path in course_notebooks(root):
        if path.parent.name == "notebooks":
            outputs = [output for _, cell in code_cells(read(path)) for output in cell["outputs"]]
            texts = [output.get("data", {}).get("text/plain", "") for output in outputs]
            questions = [key(text) for text in texts if text.startswith("Predict: ")]
            if questions:
                asked[path.stem] = questions
    return asked


def is_current(root: Path) -> bool:
    """Tell whether the list is that of the chapters; a folder without chapters has none."""
    path, asked = root / LIST, predictions(root)
    return not (asked and path.exists()) or path.read_text("utf-8") == _text(asked)


def write_predictions(root: Path) -> bool:
    """Write the list; return whether it changed."""
    if is_current(root):
        return False
    (root / LIST).write_text(_text(predictions(root)), "utf-8")
    return True


def _text(asked: dict[str, list[str]]) -> str:
    return json.dumps(asked, indent=1) + "\n"
