"""The outcome of a check as data, and the case that failed: for a notebook, a file or the grader.

A terminal reads it, too: it needs neither torch nor ONNX nor NumPy.
"""

import math
import pickle
from collections import UserDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from onnxlab.errors import chain
from onnxlab.message import Message, with_templates

RETURN = "Is a `return` missing at the end of the function, or of one of its branches?"
"""Advice where an answer returned None."""

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


@dataclass(frozen=True)
class Difference:
    """A counterexample in three short texts: the input, what is right, and what the learner's work gives."""

    given: str
    expected: str
    got: str


@dataclass(frozen=True)
class Evidence:
    """The learner's model and a right one, as bytes, to lay side by side, with what to highlight in them.

    Where there are too many right ones to show one, it is None.
    """

    model: bytes = field(repr=False)
    expected: bytes | None = field(default=None, repr=False)
    highlight: tuple[str, ...] = ()


class Wrong(Exception):
    """An answer does not do what its exercise asks for. Raised while producing and judging.

    Args:
        message: What is wrong, in the learner's terms, with gaps such as "{operator}".
        look_at: What to look at next: a place or an experiment, not the answer.
        difference: A counterexample.
        evidence: Graphs that show it.
        **values: What fills the gaps of the two texts.
    """

    def __init__(
        self,
        message: str,
        look_at: str = "",
        *,
        difference: Difference | None = None,
        evidence: Evidence | None = None,
        **values: object,
    ) -> None:
        self.message: str = Message(message, **values)
        self.look_at: str = Message(look_at, **values)
        super().__init__(self.message)
        self.difference, self.evidence = difference, evidence


@dataclass(frozen=True)
class Finding:
    """One part of an exercise, judged; for what fails, as in `Wrong`, what is wrong and what shows it.

    Attributes:
        title: What has to hold.
        holds: Whether it does; None where it could not be judged.
        case: The arguments to run again, by name; None where there is nothing to run.
    """

    title: str
    holds: bool | None
    message: str = ""
    look_at: str = ""
    difference: Difference | None = None
    evidence: Evidence | None = None
    case: Mapping[str, object] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one check of one exercise.

    Attributes:
        exercise: The exercise's id.
        status: How the check ended.
        points: The points for it: all of them, or none.
        possible: The points it can give.
        findings: Its parts in order; empty where nothing was judged.
        message: What happened, where that is not in the findings: an error, a time limit.
        where: The learner's own line that raised, as "line 3: y = g.op(...)".
        printed: How many characters the learner's code printed.
        tail: The end of what it printed.
        seconds: How long it took.
        case: The case in which an error was raised; None where the findings have it, or nothing is known.
    """

    exercise: str
    status: Status
    points: int
    possible: int
    findings: tuple[Finding, ...] = ()
    message: str = ""
    where: str = ""
    printed: int = 0
    tail: str = ""
    seconds: float = field(default=0.0, compare=False)
    case: Mapping[str, object] | None = field(default=None, compare=False, repr=False)

    @property
    def passed(self) -> bool:
        """Whether it gives its points."""
        return self.status is Status.PASSED

    @property
    def first_failure(self) -> Finding | None:
        """The first part that does not hold."""
        return next((finding for finding in self.findings if finding.holds is False), None)

    @property
    def failing_case(self) -> Mapping[str, object] | None:
        """The arguments to run again to see the same failure."""
        failed = self.first_failure
        return failed.case if failed is not None else self.case

    def as_json(self) -> dict[str, Any]:
        """Return the outcome for a JSON file: everything but the graphs and the case."""
        keys = ("title", "holds", "message", "look_at")
        findings = [
            {key: getattr(finding, key) for key in keys}
            | ({"difference": vars(finding.difference)} if finding.difference else {})
            for finding in self.findings
        ]
        names = ("exercise", "points", "possible", "message", "where", "printed", "tail")
        values: Mapping[str, Any] = {name: getattr(self, name) for name in names}
        shown = {**values, "status": str(self.status), "seconds": round(self.seconds, 3)}
        return with_templates({**shown, "findings": findings})  # type: ignore[no-any-return]


_CASE = "__onnxlab_case__"  # the attribute of an exception that holds its case


class Case(UserDict[str, object]):
    """The arguments of one call by name: `answer(**case)` calls it again.

    Args:
        name: Which of the cases it is, as a learner would say it: "three channels at opset 11".
        arguments: The learner's arguments, models and arrays by name.
        look_at: Where to look if the answer raises an error for it.

    Example:
        >>> import numpy as np
        >>> Case("an empty row", {"x": np.zeros((0, 3), np.float32), "k": 2})
        Case: an empty row
          x: float32[0, 3]
          k: 2
    """

    def __init__(self, name: str, arguments: Mapping[str, object], look_at: str = "") -> None:
        super().__init__(arguments)
        self.name, self.look_at = name, look_at

    def __reduce__(self) -> tuple[type["Case"], tuple[str, dict[str, object], str]]:
        # A value that cannot be pickled, such as a class inside a function, stays in its process.
        picklable = {}
        for key, value in self.items():
            with suppress(Exception):
                pickle.dumps(value)
                picklable[key] = value
        return Case, (self.name, picklable, self.look_at)

    def __repr__(self) -> str:
        lines = [f"  {key}: {_short(value)}" for key, value in self.items()]
        return "\n".join([f"Case: {self.name}" if self.name else "Case:", *lines])


def _short(value: Any) -> str:  # noqa: ANN401 - an argument may be anything
    if type(value).__name__ == "ModelProto" and hasattr(value, "graph"):
        return f"a model with {len(value.graph.node)} nodes"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        shown = f"{value.dtype}{list(value.shape)}".removeprefix("torch.")
        small = 0 < math.prod(value.shape) <= 8
        return f"{shown} {value.tolist()}" if small and hasattr(value, "tolist") else shown
    if isinstance(value, tuple | list):
        inner = ", ".join(_short(item) for item in value[:8]) + (", ..." if len(value) > 8 else "")
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else f"{text[:97]}..."


@contextmanager
def trying(name: str = "", look_at: str = "", /, **arguments: object) -> Iterator[None]:
    """Attach a case to whatever is raised in the block.

    Used around each call of an answer and around each judgement. Of two nested blocks the inner one counts.

    Args:
        name: Which case, as a learner would say it; it ends the sentence "This happened for ...".
        look_at: Where to look if the answer raises an error in the block.
        **arguments: The answer's arguments, or a model and its inputs. `case("the-exercise")` returns them.

    Example:
        >>> try:
        ...     with trying("an empty row", x=[]):
        ...         raise ValueError("nothing came out")
        ... except ValueError as error:
        ...     print(case_of(error).name)
        an empty row
    """
    try:
        yield
    except Exception as error:
        if case_of(error) is None:
            with suppress(Exception):  # a class written by a learner can refuse; then the case has no name
                setattr(error, _CASE, Case(name, arguments, look_at))
        raise


def case_of(error: BaseException) -> Case | None:
    """Return the case attached to an exception or to one of its causes."""
    cases = (getattr(exception, "__dict__", {}).get(_CASE) for exception in chain(error))
    return next((case for case in cases if isinstance(case, Case)), None)
