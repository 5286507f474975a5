"""The exceptions of ONNX Lab. A message says what happened, why, and what to do next, in three lines."""

__all__ = [
    "ClaimBroken",
    "ExportFailed",
    "InputMismatch",
    "ModelNotReadable",
    "NotPassed",
    "OnnxLabError",
    "UnknownExercise",
    "UnknownRecord",
    "UnknownValue",
]


class OnnxLabError(Exception):
    """Base of every error that ONNX Lab raises on purpose.

    Args:
        what: What happened, with the values involved.
        why: The reason, where one is known.
        then: What the reader can do next.
    """

    def __init__(self, what: str, why: str = "", then: str = "") -> None:
        self.what, self.why, self.then = what, why, then
        super().__init__("\n".join(line for line in (what, why, then) if line))


class ModelNotReadable(OnnxLabError):
    """A model file is missing, damaged, incomplete or not ONNX."""


class ExportFailed(OnnxLabError):
    """A model was asked for that the export did not produce."""


class InputMismatch(OnnxLabError):
    """The arrays given are not the inputs a model has."""


class NotPassed(OnnxLabError, AssertionError):
    """A hidden test found that an exercise is not passed."""


class UnknownExercise(OnnxLabError):
    """A lab or an exercise was named that does not exist, or was given the wrong answers."""


class UnknownRecord(OnnxLabError):
    """A recorded graph or fact was asked for that is not in the recordings."""


class UnknownValue(OnnxLabError):
    """A value was asked for that the graph does not contain."""


class ClaimBroken(OnnxLabError, AssertionError):
    """A notebook said that something would happen, and it did not."""
