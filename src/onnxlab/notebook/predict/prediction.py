"""Predictions: a learner commits to an answer before a cell reveals it; nothing is lost if they skip."""

import html
from collections.abc import Mapping, Sequence
from pathlib import Path

import traitlets

from onnxlab.errors import ClaimBroken
from onnxlab.notebook.outputs import display_html
from onnxlab.notebook.predict.widget import PredictionWidget, SavedAndLive, boxed

__all__ = ["Prediction", "PredictionGrid", "predict", "predict_grid"]


class _ChoiceWidget(PredictionWidget):
    _esm = Path(__file__).parent / "choice.js"
    question = traitlets.Unicode().tag(sync=True)
    options = traitlets.List().tag(sync=True)
    chosen = traitlets.Unicode().tag(sync=True)
    actual = traitlets.Unicode().tag(sync=True)


class Prediction(SavedAndLive):
    """One question with options; made by `predict`.

    Attributes:
        question: What is asked.
        options: The possible answers.
    """

    def __init__(self, question: str, options: Sequence[object]) -> None:
        self.question = question
        self.options = tuple(map(str, options))
        if len(self.options) < 2 or len(set(self.options)) < len(self.options):
            msg = "A prediction needs two or more different options."
            raise ValueError(msg)
        self._widget = _ChoiceWidget(question=question, options=list(self.options))
        self.show()

    @property
    def chosen(self) -> str | None:
        """What the learner clicked, if anything."""
        return self._widget.latest or None

    def reveal(self, actual: object) -> None:
        """Show the answer beside the prediction, and mark it in the question.

        Args:
            actual: What really happened: one of the options.

        Raises:
            ClaimBroken: The answer is none of the options.
        """
        answer = str(actual)
        if answer not in self.options:
            msg = f"The answer is {answer!r}, which is none of the options: {', '.join(self.options)}."
            raise ClaimBroken(msg)
        self._widget.settle()
        self._widget.actual = answer
        if self.chosen is None:
            text, tone = f"Answer: {answer}", ""
        elif self.chosen == answer:
            text, tone = f"\u2713 You said: {answer}. That is right.", "good"
        else:
            text, tone = f"\u2717 You said: {self.chosen}. It is: {answer}", "bad"
        display_html(boxed(f'<p class="question {tone}">{html.escape(text)}</p>', "answer"), text)

    def saved(self) -> str:
        """The question and its options as HTML."""
        options = "".join(f"<li>{html.escape(option)}</li>" for option in self.options)
        return boxed(f'<p class="question">{html.escape(self.question)}</p><ul>{options}</ul>', "saved")

    def __repr__(self) -> str:
        return "\n".join([f"Predict: {self.question}", *(f"  - {option}" for option in self.options)])


def predict(question: str, options: Sequence[object]) -> Prediction:
    """Ask the learner for a prediction and show it at once.

    Args:
        question: What will happen?
        options: The possible answers, two or more.

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


class _GridWidget(PredictionWidget):
    _esm = Path(__file__).parent / "grid.js"
    question = traitlets.Unicode().tag(sync=True)
    rows = traitlets.List().tag(sync=True)
    columns = traitlets.List().tag(sync=True)
    choices = traitlets.List().tag(sync=True)
    chosen = traitlets.List().tag(sync=True)
    actual = traitlets.List().tag(sync=True)


class PredictionGrid(SavedAndLive):
    """A table of cells to predict; made by `predict_grid`.

    Attributes:
        rows: The row headings.
        columns: The column headings.
        choices: What a cell can be.
        question: What is asked, above the grid.
    """

    def __init__(
        self, rows: Sequence[str], columns: Sequence[str], choices: Sequence[str], question: str
    ) -> None:
        self.rows, self.columns, self.choices = tuple(rows), tuple(columns), tuple(choices)
        self.question = question
        if not self.rows or not self.columns or len(set(self.choices)) < 2:
            msg = "A prediction grid needs rows, columns, and two or more different choices."
            raise ValueError(msg)
        self._widget = _GridWidget(
            question=question,
            rows=list(self.rows),
            columns=list(self.columns),
            choices=list(self.choices),
            chosen=[[""] * len(self.columns) for _ in self.rows],
        )
        self.show()

    @property
    def chosen(self) -> dict[Key, str]:
        """What the learner filled in: only the cells with a prediction."""
        filled = zip(self._keys(), (cell for line in self._widget.latest for cell in line), strict=True)
        return {key: cell for key, cell in filled if cell}

    def reveal(self, actual: Mapping[Key, str]) -> None:
        """Show the answers, coloured by right and wrong, and the score if anything was predicted.

        Args:
            actual: For each (row, column) one of the choices.

        Raises:
            ClaimBroken: A cell is missing, or its answer is none of the choices.
        """
        for row, column in self._keys():
            told = actual.get((row, column))
            if told not in self.choices:
                msg = (
                    f"The answer for {row!r}, {column!r} is {told!r}, not one of: {', '.join(self.choices)}."
                )
                raise ClaimBroken(msg)
        self._widget.settle()
        self._widget.actual = [[actual[row, column] for column in self.columns] for row in self.rows]
        said = self.chosen
        hits = sum(actual[key] == choice for key, choice in said.items())
        score = f"{hits} of {len(said)} predictions right." if said else ""
        marks = {key: _mark(actual[key], said.get(key)) for key in self._keys()}
        tones = {key: "good" if choice == actual[key] else "bad" for key, choice in said.items()}
        body = self._grid(marks, tones) + (f'<p class="score">{score}</p>' if score else "")
        text = self._text(marks) + (f"\n{score}" if score else "")
        display_html(boxed(body, "answer"), text)

    def saved(self) -> str:
        """The empty grid as HTML."""
        title = f'<p class="question">{html.escape(self.question)}</p>' if self.question else ""
        hint = f'<p class="hint">Each cell: {html.escape(" or ".join(self.choices))}?</p>'
        return boxed(title + self._grid({}, {}) + hint, "saved")

    def __repr__(self) -> str:
        question = self.question or f"Each cell: {' or '.join(self.choices)}?"
        return f"Predict: {question}\n{self._text({})}"

    def _keys(self) -> list[Key]:
        return [(row, column) for row in self.rows for column in self.columns]

    def _grid(self, marks: Mapping[Key, str], tones: Mapping[Key, str]) -> str:
        def cell(key: Key) -> str:
            kind = f"answer {tones[key]}" if key in tones else "answer"
            return f'<td class="{kind}">{html.escape(marks.get(key, "?"))}</td>'

        head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in self.columns)
        lines = "".join(
            f'<tr><th scope="row">{html.escape(row)}</th>{"".join(cell((row, c)) for c in self.columns)}</tr>'
            for row in self.rows
        )
        return f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{lines}</tbody></table>"

    def _text(self, marks: Mapping[Key, str]) -> str:
        lines = [["", *self.columns]]
        lines += [[row, *(marks.get((row, column), "?") for column in self.columns)] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )


def predict_grid(
    rows: Sequence[str], columns: Sequence[str], choices: Sequence[str], *, question: str = ""
) -> PredictionGrid:
    """Ask for a whole table of predictions and show it at once; a click moves a cell on to the next choice.

    Args:
        rows: The row headings.
        columns: The column headings.
        choices: What a cell can be.
        question: What is asked, above the grid.

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


def _mark(actual: str, said: str | None) -> str:
    if said is None:
        return actual
    return f"\u2713 {actual}" if said == actual else f"\u2717 {actual} (you said {said})"
