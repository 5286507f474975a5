"""Predictions: a learner commits to an answer before a cell reveals it; nothing is lost if they skip."""

import html
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from IPython.core.getipython import get_ipython

from onnxlab.errors import ClaimBroken
from onnxlab.language import alternatives, script_words, speaking, speech, tr
from onnxlab.notebook.outputs import IN_SIGHT, SavedAndLive, display_html, hiding_script
from onnxlab.notebook.predict import answers
from onnxlab.plain_text import aligned

_HERE = Path(__file__).parent
# The wait of `settle`, too short to be noticed: the other thread needs a few milliseconds. It is made of many
# short naps because each ends later on a busy machine, where the other thread needs longer, too.
_NAPS, _SECONDS = 50, 0.005
_NAPS_AFTER_CLICKS = 150  # more may be on their way
_MOST_NAPS = 2000  # where clicks are still coming in


@dataclass
class _Record:
    """What was clicked last in a question, and the widget that shows the question now."""

    clicked: Any = None
    widget: "_PredictionWidget | None" = None


# By the question's key. A click makes the question's own cell the active one, and Shift+Enter then runs it
# again: the widget that it makes goes on with the record of the one before it.
_RECORDS: defaultdict[str, _Record] = defaultdict(_Record)


class _PredictionWidget(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget ships no types
    """The base of the clickable forms; each adds its script and its state."""

    _css = "\n".join((_HERE / name).read_text("utf-8") for name in ("predict.css", "live.css"))
    words = traitlets.Dict().tag(sync=True)
    again = traitlets.Bool(False).tag(sync=True)  # the answer is hidden, and the question open, once more
    score = traitlets.Unicode().tag(sync=True)
    chosen: Any

    def __init__(self, key: str, noted: Callable[[], None], **state: object) -> None:
        """Make the widget."""
        super().__init__(words=script_words(), score=_score(key), **state)
        self._noted = noted
        self._record = _RECORDS[key]
        if self._record.clicked is not None:
            self.chosen = self._record.clicked
        self._record.widget = self
        self._messages = 0
        self._writing = False  # a slow disk holds up the clicks behind the one that is being kept
        self.on_msg(self._on_click)

    @property
    def latest(self) -> Any:  # noqa: ANN401  # text for a choice, rows of texts for a grid
        """What was clicked last.

        The state `chosen` may still be on its way: the front end holds a change back until the one before it
        has been answered, and a cell that is run meanwhile comes first. A message is never held back. It can
        only be late: JupyterLab has it handled in a thread beside the cell's (a subshell); see `settle`.
        """
        return self.chosen if self._record.clicked is None else self._record.clicked

    def settle(self) -> None:
        """Let clicks that were sent before this cell be handled, where another thread does that."""
        if getattr(getattr(get_ipython(), "kernel", None), "_supports_kernel_subshells", False):
            left, messages = _NAPS_AFTER_CLICKS if self._messages else _NAPS, self._messages
            for _ in range(_MOST_NAPS):
                time.sleep(_SECONDS)
                left -= 1
                if self._writing or messages != self._messages:  # where one came late, so may the next
                    left, messages = _NAPS_AFTER_CLICKS, self._messages
                if not left:
                    return

    def _on_click(self, _widget: object, content: dict[str, Any], _buffers: object) -> None:
        self._record.clicked = content.get("chosen", self._record.clicked)
        self._messages += 1
        widget = self._record.widget
        if widget is not None and widget is not self:  # the question was asked again before the click arrived
            widget.chosen = self._record.clicked
        self._writing = True
        try:
            self._noted()
        finally:
            self._writing = False


class _ChoiceWidget(_PredictionWidget):
    _esm = hiding_script(IN_SIGHT + (_HERE / "choice.js").read_text("utf-8"))
    question = traitlets.Unicode().tag(sync=True)
    options = traitlets.List().tag(sync=True)
    chosen = traitlets.Unicode().tag(sync=True)
    actual = traitlets.Unicode().tag(sync=True)


class _Asked(SavedAndLive):
    """What both kinds of questions have: a key, and a learner's answer that is kept from visit to visit."""

    question: str
    _key: str
    _answer: Any = None  # once it is known

    def _english(self) -> str:
        with speaking(speech("en")):
            return repr(self)

    def _show_verdict(self, markup: str, text: str) -> None:
        display_html(_boxed(markup, "answer"), text)
        self._widget.send({"revealed": True})

    def _choice(self) -> tuple[Any, dict[str, Any]]:
        """Return the present choice, None without one, and what it was made of: the arguments by name."""
        raise NotImplementedError

    def _keep(self) -> None:
        """Keep the present choice; with its outcome, where the answer is known."""
        chosen, arguments = self._choice()
        if chosen is not None:
            entry = {"question": self.question, "chosen": chosen, **arguments}
            if self._answer is not None:
                entry |= {"actual": self._answer, "right": chosen == self._answer}
            answers.keep(self._key, entry)
            for key, record in _RECORDS.items():  # the questions above show the chapter's score, too
                if record.widget is not None:
                    record.widget.score = _score(key)


class Prediction(_Asked):
    """One question with options; made by `predict`."""

    def __init__(self, question: str, options: Sequence[object], answer: str | None = None) -> None:
        self.question = question
        self._answer = answer
        self.options = tuple(map(str, options))
        if len(self.options) < 2 or len(set(self.options)) < len(self.options):
            raise ValueError("A prediction needs two or more different options.")
        self._labels = {option: option for option in self.options}
        self._key = answers.key(self._english())
        self._labels = {option: tr(option, self.options) for option in self.options}
        labels = list(self._labels.values())
        again = answer is not None
        chosen = "" if again else self._labels.get(str(answers.remembered(self._key).get("chosen")), "")
        if again:
            _RECORDS.pop(self._key, None)
        self._widget = _ChoiceWidget(
            self._key,
            self._keep,
            question=tr(question),
            options=labels,
            chosen=chosen,
            actual=self._labels.get(answer or "", ""),
            again=again,
        )
        self.show()

    @property
    def chosen(self) -> str | None:
        """What the learner clicked, if anything."""
        return next((option for option, label in self._labels.items() if label == self._widget.latest), None)

    def reveal(self, actual: object) -> None:
        """Show the answer, what really happened, beside the prediction, and mark it in the question.

        Raises:
            ClaimBroken: The answer is none of the options.
        """
        answer = str(actual)
        if answer not in self.options:
            raise ClaimBroken(
                "The answer is {answer!r}, which is none of the options: {options}.",
                answer=answer,
                options=", ".join(self.options),
            )
        self._widget.settle()
        self._answer = answer
        self._widget.actual = right = self._labels[answer]
        self._keep()
        if self.chosen is None:
            text, tone = tr("Answer: {right}", right=right), ""
        elif self.chosen == answer:
            text, tone = tr("\u2713 You said: {right}. That is right.", right=right), "good"
        else:
            said = self._labels[self.chosen]
            text, tone = tr("\u2717 You said: {labels}. It is: {right}", labels=said, right=right), "bad"
        self._show_verdict(f'<p class="question {tone}">{html.escape(text)}</p>', text)

    def _choice(self) -> tuple[str | None, dict[str, Any]]:
        return self.chosen, {"options": self.options}

    def saved(self) -> str:
        """The question and its options as HTML."""
        options = "".join(f"<li>{html.escape(label)}</li>" for label in self._labels.values())
        return _boxed(f'<p class="question">{html.escape(tr(self.question))}</p><ul>{options}</ul>', "saved")

    def __repr__(self) -> str:
        question = tr("Predict: {question}", question=tr(self.question))
        return "\n".join([question, *(f"  - {label}" for label in self._labels.values())])


def predict(question: str, options: Sequence[object]) -> Prediction:
    """Ask the learner for a prediction, one of two or more options, and show it at once.

    Returns:
        The prediction; call its `reveal(actual)` in a later cell.

    >>> guess = predict("How often does forward run?", [1, 3])
    Predict: How often does forward run?
      - 1
      - 3
    >>> guess.reveal(1)
    Answer: 1
    """
    return Prediction(question, options)


Key = tuple[str, str]


class _GridWidget(_PredictionWidget):
    _esm = hiding_script(IN_SIGHT + (_HERE / "grid.js").read_text("utf-8"))
    question = traitlets.Unicode().tag(sync=True)
    rows = traitlets.List().tag(sync=True)
    columns = traitlets.List().tag(sync=True)
    choices = traitlets.List().tag(sync=True)
    chosen = traitlets.List().tag(sync=True)
    actual = traitlets.List().tag(sync=True)


class PredictionGrid(_Asked):
    """A table of cells to predict; made by `predict_grid`."""

    def __init__(
        self,
        rows: Sequence[str],
        columns: Sequence[str],
        choices: Sequence[str],
        question: str,
        answer: Sequence[str] | None = None,
    ) -> None:
        self.rows, self.columns, self.choices = tuple(rows), tuple(columns), tuple(choices)
        self.question = question
        if not self.rows or not self.columns or len(set(self.choices)) < 2:
            raise ValueError("A prediction grid needs rows, columns, and two or more different choices.")
        self._labels = {text: text for text in (*self.rows, *self.columns, *self.choices)}
        self._key = answers.key(self._english())
        self._labels = {text: tr(text, self.choices) for text in self._labels}
        self._answer = answer
        if answer is not None:
            _RECORDS.pop(self._key, None)
        kept = None if answer is not None else answers.remembered(self._key).get("chosen")
        cells = (
            kept if isinstance(kept, list) and len(kept) == len(self._keys()) else [""] * len(self._keys())
        )
        self._widget = _GridWidget(
            self._key,
            self._keep,
            question=tr(question),
            rows=self._labelled(self.rows),
            columns=self._labelled(self.columns),
            choices=self._labelled(self.choices),
            chosen=self._lines([self._labels.get(cell, "") for cell in cells]),
            actual=self._lines(self._labelled(answer or ())),
            again=answer is not None,
        )
        self.show()

    @property
    def chosen(self) -> dict[Key, str]:
        """What the learner filled in: only the cells with a prediction."""
        choices = {self._labels[choice]: choice for choice in self.choices}
        filled = zip(self._keys(), (cell for line in self._widget.latest for cell in line), strict=True)
        return {key: choices[cell] for key, cell in filled if cell}

    def reveal(self, actual: Mapping[Key, str]) -> None:
        """Show the answer for each (row, column), coloured by right and wrong, and the score if there is one.

        Raises:
            ClaimBroken: A cell is missing, or its answer is none of the choices.
        """
        for row, column in self._keys():
            answer = actual.get((row, column))
            if answer not in self.choices:
                options = ", ".join(self.choices)
                raise ClaimBroken(
                    "The answer for {row!r}, {column!r} is {answer!r}, not one of: {options}.",
                    row=row,
                    column=column,
                    answer=answer,
                    options=options,
                )
        self._widget.settle()
        self._answer = [actual[key] for key in self._keys()]
        self._widget.actual = self._lines(self._labelled(self._answer))
        self._keep()
        guess = self.chosen
        hits = sum(actual[key] == choice for key, choice in guess.items())
        score = tr("{hits} of {count} predictions right.", hits=hits, count=len(guess)) if guess else ""
        marks = {key: self._mark(actual[key], guess.get(key)) for key in self._keys()}
        tones = {key: "good" if choice == actual[key] else "bad" for key, choice in guess.items()}
        body = self._grid(marks, tones) + (f'<p class="score">{score}</p>' if score else "")
        text = self._text(marks) + (f"\n{score}" if score else "")
        self._show_verdict(body, text)

    def _choice(self) -> tuple[list[str] | None, dict[str, Any]]:
        guess = self.chosen
        cells = [guess.get(key, "") for key in self._keys()] if guess else None
        return cells, {"rows": self.rows, "columns": self.columns, "choices": self.choices}

    def _lines(self, cells: Sequence[str]) -> list[list[str]]:
        width = len(self.columns)
        return [list(cells[start : start + width]) for start in range(0, len(cells), width)]

    def saved(self) -> str:
        """The empty grid as HTML."""
        title = f'<p class="question">{html.escape(tr(self.question))}</p>' if self.question else ""
        hint = f'<p class="hint">{html.escape(self._hint())}</p>'
        return _boxed(title + self._grid({}, {}) + hint, "saved")

    def __repr__(self) -> str:
        question = tr(self.question) if self.question else self._hint()
        return tr("Predict: {question}", question=question) + f"\n{self._text({})}"

    def _hint(self) -> str:
        choices = alternatives(self._labelled(self.choices))
        return tr("Each cell: {choices}?", choices=choices)

    def _labelled(self, texts: Sequence[str]) -> list[str]:
        return [self._labels[text] for text in texts]

    def _mark(self, actual: str, guess: str | None) -> str:
        right = self._labels[actual]
        if guess is None:
            return right
        if guess == actual:
            return f"\u2713 {right}"
        return "\u2717 " + tr("{right} (you said {labels})", right=right, labels=self._labels[guess])

    def _keys(self) -> list[Key]:
        return [(row, column) for row in self.rows for column in self.columns]

    def _grid(self, marks: Mapping[Key, str], tones: Mapping[Key, str]) -> str:
        def cell(key: Key) -> str:
            kind = f"answer {tones[key]}" if key in tones else "answer"
            return f'<td class="{kind}">{html.escape(marks.get(key, "?"))}</td>'

        columns = self._labelled(self.columns)
        head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in columns)
        lines = "".join(
            f'<tr><th scope="row">{html.escape(self._labels[row])}</th>'
            f"{''.join(cell((row, column)) for column in self.columns)}</tr>"
            for row in self.rows
        )
        return f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{lines}</tbody></table>"

    def _text(self, marks: Mapping[Key, str]) -> str:
        lines = [["", *self._labelled(self.columns)]]
        for row in self.rows:
            lines.append([self._labels[row], *(marks.get((row, column), "?") for column in self.columns)])
        return "\n".join(aligned(lines))


def predict_grid(
    rows: Sequence[str], columns: Sequence[str], choices: Sequence[str], *, question: str = ""
) -> PredictionGrid:
    """Ask for a whole table of predictions and show it at once; a click moves a cell on to the next choice.

    Returns:
        The grid; call its `reveal({(row, column): choice})` in a later cell.

    >>> grid = predict_grid(["static"], ["batch of 1", "batch of 2"], ["runs", "fails"])
    Predict: Each cell: runs or fails?
            batch of 1  batch of 2
    static  ?           ?
    >>> grid.reveal({("static", "batch of 1"): "runs", ("static", "batch of 2"): "fails"})
            batch of 1  batch of 2
    static  runs        fails
    """
    return PredictionGrid(rows, columns, choices, question)


def ask_again() -> None:
    """Ask once more every question that was answered wrongly, in this chapter or another, on this machine.

    A click says at once what is right.

    >>> ask_again()
    No prediction is wrong.
    """
    wrong = answers.wrong_answers()
    for entry in wrong:
        if "options" in entry:
            Prediction(entry["question"], entry["options"], entry["actual"])
        else:
            PredictionGrid(*(entry[part] for part in ("rows", "columns", "choices", "question", "actual")))
    if not wrong:
        text = tr("No prediction is wrong.")
        display_html(_boxed(f'<p class="question">{html.escape(text)}</p>', "answer"), text)


def _score(key: str) -> str:
    """Return the score of the chapter that asks a question; "" if no chapter does."""
    score = answers.score_with(key)
    return "" if score is None else str(score)


def _boxed(body: str, kind: str) -> str:
    """HTML in the frame of a prediction; its kind is "saved" or "answer"."""
    return f'<style>{_style()}</style><div class="onnxlab-predict {kind}">{body}</div>'


@cache
def _style() -> str:
    return (_HERE / "predict.css").read_text("utf-8")
