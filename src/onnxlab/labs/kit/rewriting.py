"""Exercises whose answer makes models out of drawn ones: what is put to it, and what has to hold of each."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import onnx

from onnxlab.labs.kit.exercise import Answers
from onnxlab.labs.kit.exporting import require_type
from onnxlab.labs.kit.judging import beside, require_same_numbers
from onnxlab.labs.kit.outcome import trying
from onnxlab.labs.kit.work import Work
from onnxlab.model.distance import Array
from onnxlab.runtime.session import open_session

__all__ = ["Question", "Rewriting", "require_as_before"]


@dataclass(frozen=True)
class Question:
    """A drawn model, and what it is about.

    Attributes:
        where: What it is about, for messages.
        model: The model.
        look_at: Where to look if an answer is wrong for it.
        possible: Whether what is asked for can be done; where it cannot, a ValueError is right.
    """

    where: str
    model: onnx.ModelProto
    look_at: str = ""
    possible: bool = True

    @property
    def name(self) -> str:
        """The model's first input."""
        name: str = self.model.graph.input[0].name
        return name

    @property
    def arguments(self) -> dict[str, Any]:
        """What the answer gets, by name: the case to run again."""
        return {"model": self.model}

    def copies(self) -> list[Any]:
        """Return the arguments for one call: an answer may change what it is given."""
        return [deepcopy(value) for value in self.arguments.values()]

    def tried(self) -> AbstractContextManager[None]:
        """Name the case that is tried inside."""
        return trying(f"the case {self.where!r}", **self.arguments)


Asked = TypeVar("Asked", bound=Question)


@dataclass(frozen=True)
class Rewriting(Generic[Asked]):
    """What an exercise asks of each model that its answer makes.

    Attributes:
        answer: The learner's function.
        result: What its models are called in the folder, before their number.
        draw: Draws the questions.
        whole: Requires what has to hold of a model before anything else is judged.
        right: Makes a right model, to lay beside a wrong one.
        mendable: Whether what is not possible may also come back as a model.
    """

    answer: str
    result: str
    draw: Callable[[np.random.Generator], Iterable[Asked]]
    whole: Callable[[onnx.ModelProto, Asked], None]
    right: Callable[[Asked], onnx.ModelProto]
    mendable: bool = False

    def produce(self, answers: Answers, work: Work, random: np.random.Generator) -> None:
        """Put each question to the answer; of one that is not possible, note what was raised."""
        raised: dict[int, str] = {}
        for number, question in enumerate(self.draw(random)):
            with question.tried():
                try:
                    made = answers[self.answer](*question.copies())
                except NotImplementedError:
                    raise
                except Exception as error:  # which one, the judge looks at
                    if question.possible:
                        raise
                    raised[number] = "ValueError" if isinstance(error, ValueError) else type(error).__name__
                    continue
                if question.possible or self.mendable:
                    require_type(made, onnx.ModelProto, f"{self.answer}()")
                    work.write_model(f"{self.result}_{number}", made)
                if not question.possible:
                    raised[number] = "nothing"
        if raised:
            work.write_json("raised", raised)

    def judge(
        self, require: Callable[[onnx.ModelProto, Asked, np.random.Generator], None] | None = None
    ) -> Callable[[Work, np.random.Generator], None]:
        """Return the judge of one part, which looks at each model that is possible.

        Args:
            require: What the part asks of a model that is whole; by default nothing more.
        """

        def judge(work: Work, random: np.random.Generator) -> None:
            for number, question in enumerate(self.draw(work.questions())):
                if not question.possible:
                    continue
                with question.tried(), self.beside(question):
                    model = work.model(f"{self.result}_{number}")
                    self.whole(model, question)
                    if require is not None:
                        require(model, question, random)

        return judge

    def beside(self, question: Asked) -> AbstractContextManager[None]:
        """Lay a right model beside the one that is found wrong inside."""
        return beside(lambda: self.right(question).SerializeToString())

    def not_refused(self, work: Work) -> Iterator[tuple[int, Asked, str]]:
        """Yield what is not possible and did not end with a ValueError: its number, and what was raised."""
        raised = work.json("raised")
        for number, question in enumerate(self.draw(work.questions())):
            got = raised.get(str(number)) if isinstance(raised, dict) else None
            if not question.possible and got != "ValueError":
                yield number, question, str(got)


def require_as_before(model: onnx.ModelProto, question: Question, inputs: Iterable[Array]) -> None:
    """Require that a model gives what the one gave that it was made from.

    Args:
        model: The model.
        question: The one that it was made from, which has one input.
        inputs: For that input. The first should be small enough to be shown whole.

    Raises:
        Wrong: With the first element that differs.
    """
    before = open_session(question.model, optimize=False)
    for x in inputs:
        feeds = {question.name: x}
        require_same_numbers(model, feeds, before.run(None, feeds), question.where, question.look_at)
