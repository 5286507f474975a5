"""How a check can end."""

from enum import StrEnum

from onnxlab.message import Message

USABLE = Message("the answer can be used")
"""The title of the finding about an answer that was refused before any part was judged."""


class Status(StrEnum):
    """How a check of an exercise ended."""

    PASSED = "passed"
    INCORRECT = "incorrect"
    NOT_ATTEMPTED = "not attempted"
    ERROR = "error"
    """The learner's code, or the export it belongs to, raised."""
    TIMED_OUT = "timed out"
