"""Lists the predictions of each chapter, so that a learner's right ones can be counted.

    python -m tools.prediction_list [--write]

The questions are those in the chapters' saved outputs. Without --write it says whether the list is current.
"""

import json
import sys
from pathlib import Path

from onnxlab.course.notebooks import code_cells, course_notebooks, read
from onnxlab.notebook.predict.answers import key

ROOT = Path(__file__).parents[1]
LIST = ROOT / "src" / "onnxlab" / "assets" / "predictions.json"


def predictions(root: Path = ROOT) -> dict[str, list[str]]:
    """Return the keys of the questions of each chapter that asks any."""
    asked = {}
    for path in course_notebooks(root):
        if path.parent.name == "notebooks":
            outputs = [output for _, cell in code_cells(read(path)) for output in cell["outputs"]]
            texts = [output.get("data", {}).get("text/plain", "") for output in outputs]
            questions = [key(text) for text in texts if text.startswith("Predict: ")]
            if questions:
                asked[path.stem] = questions
    return asked


def main(arguments: list[str]) -> int:
    """Write the list, or say whether it is up to date; return the exit code."""
    text = json.dumps(predictions(), indent=1) + "\n"
    if "--write" in arguments:
        LIST.write_text(text, "utf-8")
        return 0
    if LIST.exists() and LIST.read_text("utf-8") == text:
        return 0
    print(f"{LIST.relative_to(ROOT)} is out of date. Run: python -m tools.prediction_list --write")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
