"""Exercises whose answer makes new models from drawn ones: the questions, and what is asked of each."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import onnx

from onnxlab.kit.exercise import Answers, Judge, Judges
from onnxlab.kit.exporting import require_model, require_untouched
from onnxlab.kit.judging import expecting, require_same_numbers
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.runtime.refusals import named_reason
from onnxlab.runtime.session import open_session

_ASKED_TWICE = 3  # questions


@dataclass(frozen=True)
class Question:
    """A drawn model that is given to the answer.

    Attributes:
        where: A description of the model, for messages.
        look_at: Advice for an answer that is wrong for it.
        possible: Whether the task can be done with it; if not, a ValueError is the right answer.
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
        """The answer's arguments by name: the case to run again."""
        return {"model": self.model}

    def copies(self) -> list[Any]:
        """Return the arguments for one call: an answer may change its arguments."""
        return [deepcopy(value) for value in self.arguments.values()]

    def as_case(self) -> AbstractContextManager[None]:
        """Attach this case, and where to look, to whatever is raised in the block."""
        return trying(Message("the case '{where}'", where=self.where), self.look_at, **self.arguments)


QuestionType = TypeVar("QuestionType", bound=Question)


@dataclass(frozen=True)
class Rewriting(Generic[QuestionType]):
    """What an exercise asks its answer, the learner's function.

    Attributes:
        result: The name of its models in the folder, before their number.
        mendable: Whether a model may also be returned where the task is not possible.
    """

    answer: str
    result: str
    draw: Callable[[np.random.Generator], Iterable[QuestionType]]
    mendable: bool = False

    def produce(self, answers: Answers, work: Work, random: np.random.Generator) -> None:
        """Call the answer with each question; where the task is not possible, write down what was raised.

        The order is drawn, and some questions are asked twice: the last answer counts, so that what an answer
        keeps from one call to the next shows.
        """
        questions = list(self.draw(random))
        order = [*random.permutation(len(questions)), *random.permutation(len(questions))[:_ASKED_TWICE]]
        raised: dict[int, str] = {}
        for number in map(int, order):
            question = questions[number]
            with question.as_case():
                arguments = question.copies()
                try:
                    model = answers[self.answer](*arguments)
                except NotImplementedError:
                    raise
                except Exception as error:  # the judge checks which one
                    if question.possible and self.mendable and isinstance(error, ValueError):
                        reason = named_reason(error)
                        msg = Message(
                            "{question.where}: this can be done; the answer refused it with {reason}.",
                            question=question,
                            reason=reason,
                        )
                        raise Wrong(msg, question.look_at) from None
                    if question.possible:
                        raise
                    raised[number] = "ValueError" if isinstance(error, ValueError) else type(error).__name__
                    continue
                require_untouched(arguments, question.arguments.values())
                if question.possible or (self.mendable and model is not None):
                    work.write_model(f"{self.result}_{number}", require_model(model, f"{self.answer}()"))
                if not question.possible:
                    raised[number] = "nothing" if model is not None or not self.mendable else "None"
        if raised:
            work.write_json("raised", raised)


@dataclass(frozen=True)
class Rewritten(Generic[QuestionType]):
    """What is required of each model that an answer returned.

    Attributes:
        require_structure: Requires what every part needs: that the model is valid, for instance.
        expected: Makes a right model, shown beside a wrong one.
    """

    asked: Rewriting[QuestionType]
    require_structure: Callable[[onnx.ModelProto, QuestionType], None]
    expected: Callable[[QuestionType], onnx.ModelProto]

    def judges(
        self,
        *parts: Callable[[onnx.ModelProto, QuestionType, np.random.Generator], None],
        refusals: "Judge | None" = None,
    ) -> Judges:
        """Return the judges of an exercise: of the structure alone, of each further part, of refusals."""
        judges = (self.judge(), *map(self.judge, parts))
        return Judges(judges if refusals is None else (*judges, refusals))

    def judge(
        self, require: Callable[[onnx.ModelProto, QuestionType, np.random.Generator], None] | None = None
    ) -> Judge:
        """Return the judge of one part, for all models of possible tasks.

        `require` is what the part asks of a model beyond its structure; by default nothing.
        """

        def judge(work: Work, random: np.random.Generator) -> None:
            for number, question in enumerate(self.asked.draw(work.questions())):
                if not question.possible:
                    continue
                with question.as_case(), self.expecting(question):
                    model = work.model(f"{self.asked.result}_{number}")
                    self.require_structure(model, question)
                    if require is not None:
                        require(model, question, random)

        return judge

    def expecting(self, question: QuestionType) -> AbstractContextManager[None]:
        """Show a right model beside the one that is found wrong in the block."""
        return expecting(lambda: self.expected(question).SerializeToString())

    def not_refused(self, work: Work) -> Iterator[tuple[int, QuestionType, str]]:
        """Yield the impossible questions without a ValueError: the number, the question, what was raised."""
        raised = work.json("raised")
        for number, question in enumerate(self.asked.draw(work.questions())):
            got = raised.get(str(number)) if isinstance(raised, dict) else None
            if not question.possible and got != "ValueError":
                yield number, question, str(got)


def made_by(solution: Callable[..., onnx.ModelProto]) -> Callable[[Question], onnx.ModelProto]:
    """Return what makes the right model for a question: an answer that is right."""
    return lambda question: solution(*question.copies())


def require_as_before(model: onnx.ModelProto, question: Question, inputs: Iterable[Array]) -> None:
    """Require the same outputs as those of the model that it was made from, which has one input.

    The first of `inputs`, arrays for that input, should be small enough to be shown whole.

    Raises:
        Wrong: With the first element that differs.
    """
    original = open_session(question.model, optimize=False)
    for x in inputs:
        feeds = {question.name: x}
        require_same_numbers(model, feeds, original.run(None, feeds), question.where, question.look_at)
