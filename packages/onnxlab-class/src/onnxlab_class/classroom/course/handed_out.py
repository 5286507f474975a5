"""The labs as they were handed out: a lab with no other code in it was not handed in."""

import json
from collections.abc import Iterator
from pathlib import Path

import onnxlab
from onnxlab.course.lab_release import untouched_words
from onnxlab.kit.exercise import LABS
from onnxlab.language import LANGUAGES
from onnxlab.machine import COURSE_IN_WHEEL
from onnxlab_class.classroom.course.folder import CLASS_FILE
from onnxlab_class.classroom.course.nbgrader import SETTINGS
from onnxlab_class.grading.submissions import NotebookUnreadable, code_of, read

_CLONE = Path(onnxlab.__file__).resolve().parents[2]


def code_handed_out(folder: Path) -> frozenset[str]:
    """Return the code cells of the labs as this version of the course hands them out, in every language.

    Args:
        folder: If it is a class or an nbgrader course, what stands in its `release/` counts too.
    """
    cells = set[str]()
    for path in _labs(folder):
        try:
            cells |= code_of(read(path))
        except NotebookUnreadable:  # an instructor's file: what is in it counts as a learner's own
            continue
    for language in LANGUAGES:
        words = untouched_words(language)
        if words.is_file():
            sources = [text for lab in json.loads(words.read_text("utf-8")).values() for text in lab.values()]
            notebook = {"cells": [{"cell_type": "code", "source": source} for source in sources]}
            cells |= code_of(json.dumps(notebook).encode())
    return frozenset(cells)


def _labs(folder: Path) -> Iterator[Path]:
    course = COURSE_IN_WHEEL if COURSE_IN_WHEEL.is_dir() else _CLONE
    yield from (path for name in LABS if (path := course / "labs" / f"{name}.ipynb").is_file())
    if any((folder / name).is_file() for name in (CLASS_FILE, SETTINGS)):
        yield from sorted((folder / "release").glob("*/*.ipynb"))
