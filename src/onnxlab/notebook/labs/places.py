"""Where in a notebook something stands, as the fragment of a link: without IPython or widgets."""

import json
from pathlib import Path


def place(path: Path, exercise: str = "", section: str = "") -> str:
    """Return the fragment of a section, or of the one with an exercise's check; empty if it is not found.

    Of a section's heading the number is enough: the headings of other editions differ.
    """
    number, point, _ = section.partition(". ")
    begin = f"## {number}{point}"
    try:
        cells = json.loads(path.read_text("utf-8"))["cells"]
        heading = ""
        for cell in cells:
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown" and source.startswith("## "):
                heading = f"#cell-id={cell['id']}"
                if section and source.startswith(begin):
                    return heading
            if exercise and cell["cell_type"] == "code" and f'check("{exercise}"' in source:
                return heading
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # a learner's file may be anything
        pass
    return ""
