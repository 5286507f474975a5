"""What a learner has predicted, kept on this machine from one visit to the next, and counted by chapter.

No page of an instructor reads it, and nothing is sent.
"""

import hashlib
import json
import os
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs

from onnxlab.kit.progress import change_entry, read_entries, state_file
from onnxlab.kit.tracks import DECISIVE, exercise_for
from onnxlab.language import tr

_LIST = Path(__file__).parents[2] / "assets" / "predictions.json"


@dataclass(frozen=True)
class Score:
    """How many of the predictions that a chapter asks for, the total, were right and wrong.

    Attributes:
        chapter: The chapter, as "04_dynamic_shapes".
        known: Whether an exercise, or the last predictions, show that the learner knows the chapter.
    """

    chapter: str
    right: int
    wrong: int
    total: int
    known: bool = False

    @property
    def open(self) -> int:
        """How many are not answered."""
        return self.total - self.right - self.wrong

    def __str__(self) -> str:
        template = "Predictions in this chapter: {right} of {total} right, {wrong} wrong, {open} open."
        return tr(template, right=self.right, total=self.total, wrong=self.wrong, open=self.open)


def answers_file() -> Path:
    """Return where the file is: beside that of the labs' progress, or in the user's folder for state.

    A file of progress with a name of its own may lie in a folder that others read, one for each learner.
    """
    beside = state_file().with_name("predictions.json")
    is_own = state_file().name == "progress.json"
    return beside if is_own else platformdirs.user_state_path("onnxlab") / beside.name


def key(text: str) -> str:
    """Return the name of a question in the file: a digest of its English text.

    >>> key("Predict: How often?")
    '1f8ba5d5eaed'
    """
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def remembered(question: str) -> dict[str, Any]:
    """Return what was kept of a question, if a person reads this notebook in a browser or an editor.

    Elsewhere, as in a test that compares a notebook's outputs with the saved ones, nothing is remembered.
    """
    from IPython.core.getipython import get_ipython  # takes long, and a terminal does without

    # Jupyter's servers set the variable for the kernel of a page; VS Code sets the name in the kernel.
    shell = get_ipython()
    in_page = "JPY_SESSION_NAME" in os.environ or (shell and "__vsc_ipynb_file__" in shell.user_ns)
    return read_entries(answers_file())[0].get(question, {}) if in_page else {}


def keep(question: str, entry: Mapping[str, Any]) -> None:
    """Keep what a learner predicted; where the file cannot be written, it is not kept."""
    change_entry(question, lambda kept: kept.update(entry), answers_file())


def wrong_answers() -> list[dict[str, Any]]:
    """Return what is kept of the questions that were answered wrongly, in the order of the chapters."""
    kept = read_entries(answers_file())[0]
    return [kept[name] for names in _questions().values() for name in names if _is(kept, name, right=False)]


def scores() -> list[Score]:
    """Return the score of every chapter."""
    passed = {name for name, entry in read_entries(state_file())[0].items() if entry.get("passed") is True}
    return scores_of(read_entries(answers_file())[0], passed)


def scores_of(kept: Mapping[str, Mapping[str, Any]], passed: Container[str]) -> list[Score]:
    """Return the score of every chapter for these answers, and with these exercises passed."""
    return [
        Score(
            chapter,
            sum(_is(kept, name, right=True) for name in names),
            sum(_is(kept, name, right=False) for name in names),
            len(names),
            exercise_for(chapter) in passed
            or (not exercise_for(chapter) and all(_is(kept, name, right=True) for name in names[-DECISIVE:])),
        )
        for chapter, names in _questions().items()
    ]


def score_with(question: str) -> Score | None:
    """Return the score of the chapter that asks a question; None if no chapter does."""
    chapter = next((chapter for chapter, names in _questions().items() if question in names), None)
    return next((score for score in scores() if score.chapter == chapter), None)


def _is(kept: Mapping[str, Mapping[str, Any]], name: str, *, right: bool) -> bool:
    return kept.get(name, {}).get("right") is right


@cache
def _questions() -> dict[str, list[str]]:
    """The keys of each chapter's questions; `python -m tools.author sync` makes the file."""
    questions: dict[str, list[str]] = json.loads(_LIST.read_text("utf-8"))
    return questions
