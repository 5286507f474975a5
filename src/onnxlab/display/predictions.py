"""Predictions: a learner commits to an answer before a cell reveals it; nothing is lost if they skip."""

import html
from collections.abc import Sequence
from pathlib import Path

import traitlets

from onnxlab.display.prediction_widget import PredictionWidget, Shown, boxed, display_html
from onnxlab.errors import ClaimBroken

__all__ = ["Prediction", "predict"]


class _ChoiceWidget(PredictionWidget):
    _esm = Path(__file__).parent / "prediction_choice.js"
    question = traitlets.Unicode().tag(sync=True)
    options = traitlets.List().tag(sync=True)
    chosen = traitlets.Unicode().tag(sync=True)
    actual = traitlets.Unicode().tag(sync=True)


class Prediction(Shown):
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
