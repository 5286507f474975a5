"""What a lab's contract is made of: right answers and wrong ones, with what a learner must be told."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from onnxlab.labs.outcome import Status

__all__ = ["Contract", "WrongAnswer"]


@dataclass(frozen=True)
class WrongAnswer:
    """An answer that must not pass.

    Attributes:
        name: What is wrong with it, for the test's name.
        functions: The learner's functions in the order of `Exercise.answers`.
        says: A piece of the text the learner reads: message, look_at, counterexample or the place.
        status: How it must be rated.
    """

    name: str
    functions: tuple[Callable[..., Any], ...]
    says: str
    status: Status = Status.INCORRECT


@dataclass(frozen=True)
class Contract:
    """The answers tried for one exercise: two or more right ones, four or more wrong ones."""

    right: tuple[tuple[Callable[..., Any], ...], ...]
    wrong: tuple[WrongAnswer, ...] = field(default=())
