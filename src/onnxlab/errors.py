"""The exceptions of ONNX Lab. A message says what happened, why, and what to do next, in three lines."""

from onnxlab.message import Message


class OnnxLabError(Exception):
    """Base of every error that ONNX Lab raises on purpose.

    Args:
        what: What happened, with gaps such as "{name}".
        why: The reason, if it is known.
        then: What to do next.
        **values: What fills the gaps of the three.
    """

    def __init__(self, what: str, why: str = "", then: str = "", **values: object) -> None:
        self.what, self.why, self.then = (Message(text, **values) for text in (what, why, then))
        super().__init__(Message.compose("\n", filter(None, (self.what, self.why, self.then))))


class ModelNotReadable(OnnxLabError):
    """A model file is missing, damaged, incomplete or not ONNX."""


class ExportFailed(OnnxLabError):
    """An export has no model, because it failed."""


class InputMismatch(OnnxLabError):
    """The arrays do not fit the inputs of a model."""


class NotPassed(OnnxLabError, AssertionError):
    """An exercise is not passed: raised by its hidden test."""


class UnknownExercise(OnnxLabError):
    """A lab or an exercise does not exist, or has other answers than were passed."""

    def _render_traceback_(self) -> list[str]:
        """Tell IPython to show the message alone: the learner's one line is the cell itself."""
        return str(self).splitlines()


class UnknownRecord(OnnxLabError):
    """The recordings have no such graph, fact or call."""


class UnknownValue(OnnxLabError):
    """A graph has no such value."""


class ClaimBroken(OnnxLabError, AssertionError):
    """A notebook cell's claim does not hold: an expected error, warning or answer did not come."""


def chain(error: BaseException) -> list[BaseException]:
    """Return an exception and its causes, from the outermost inwards."""
    exceptions = [error]
    while True:
        last = exceptions[-1]
        cause = last.__cause__ or (None if last.__suppress_context__ else last.__context__)
        # By identity: a class with an `__eq__` of its own could equal its cause. Causes can form a circle.
        if cause is None or any(cause is exception for exception in exceptions):
            return exceptions
        exceptions.append(cause)
