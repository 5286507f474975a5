"""The folder that `course.py` opens: a learner's own copy of the course, kept across updates.

`python -m onnxlab.course.workbook COURSE FOLDER` brings it up to date. The module imports little: `course.py`
waits for it.
"""

import sys
from pathlib import Path

from onnxlab.course.learner_folder import HANDED_OUT, bring_up_to_date, course_files
from onnxlab.errors import OnnxLabError
from onnxlab.files import remove_unfinished
from onnxlab.notebook.language import requested_language, speak, tr

NAME = "workbook"
"""The folder's name in a clone of the course."""


def workbook(course: Path) -> Path | None:
    """Return the learner's folder in a clone of the course; None if there is none."""
    folder = course / NAME
    return folder if (folder / HANDED_OUT).is_file() else None


def main(arguments: list[str]) -> int:
    """Bring a learner's folder up to date; print what happened to it, and return the exit code."""
    speak(requested_language())
    course, folder = map(Path, arguments)
    is_new = not (folder / HANDED_OUT).exists()
    try:
        for below in folder.rglob("*/"):  # after a power cut
            remove_unfinished(below)
        changes = bring_up_to_date(folder, course_files(course))
    except (OnnxLabError, OSError) as error:
        print(tr(str(error)), file=sys.stderr)
        return 1
    if is_new:
        print(tr(f"Your notebooks are in {folder}."))
    elif changes.added or changes.updated:
        new, renewed = len(changes.added), len(changes.updated)
        print(tr(f"Your notebooks: {renewed} renewed, {new} added. Your work is kept."))
    for line in changes.lines():
        print(tr(line))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
