"""What came of a check, as data: for a notebook, a terminal, a file, or a grader."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["RETURN", "USABLE", "Difference", "Evidence", "Finding", "Outcome", "Status", "Wrong"]

USABLE = "the answer can be used"
"""The title of the finding about an answer that was refused before any part was judged."""


RETURN = "Is a `return` missing at the end of the function, or of one of its branches?"
"""Where to look where None came back."""


class Status(StrEnum):
    """How an exercise stands."""

    PASSED = "passed"
    INCORRECT = "incorrect"
    NOT_ATTEMPTED = "not attempted"
    ERROR = "error"
    """The learner's code, or the export it belongs to, raised."""
    TIMED_OUT = "timed out"


@dataclass(frozen=True)
class Difference:
    """A counterexample in three short texts.

    Attributes:
        given: The input.
        expected: What PyTorch gives, or what is right.
        got: What the learner's model or function gives.
    """

    given: str
    expected: str
    got: str


@dataclass(frozen=True)
class Evidence:
    """Two graphs to lay side by side.

    Attributes:
        model: The learner's model, as bytes.
        expected: A model that is right, as bytes; None where there are too many right ones to show one.
        highlight: Operators or names to highlight.
    """

    model: bytes = field(repr=False)
    expected: bytes | None = field(default=None, repr=False)
    highlight: tuple[str, ...] = ()


class Wrong(Exception):
    """An answer does not do what its exercise asks for. Raised while producing and judging.

    Args:
        message: What is wrong, in the learner's terms, with values.
        look_at: What to look at next: a place or an experiment, not the answer.
        difference: A counterexample.
        evidence: Graphs that show it.
    """

    def __init__(
        self,
        message: str,
        look_at: str = "",
        *,
        difference: Difference | None = None,
        evidence: Evidence | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.look_at = message, look_at
        self.difference, self.evidence = difference, evidence


@dataclass(frozen=True)
class Finding:
    """One part of an exercise, judged.

    Attributes:
        title: What has to hold.
        holds: Whether it does; None where it could not be looked at.
        message: What is wrong.
        look_at: What to look at next.
        difference: A counterexample.
        evidence: Graphs that show it.
        case: What to run again; None where there is nothing to run.
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
    """What came of one check of one exercise.

    Attributes:
        exercise: The exercise's id.
        status: How it stands.
        points: The points for it: all of them, or none.
        possible: The points it can give.
        findings: Its parts in order; empty where nothing was judged.
        message: What happened, where that is not in the findings: an error, a time limit.
        where: The learner's own line that raised, as "line 3: y = g.op(...)".
        printed: How many characters the learner's code printed.
        seconds: How long it took.
        case: What was tried when an error was raised; None where the findings tell, or nothing is known.
    """

    exercise: str
    status: Status
    points: int
    possible: int
    findings: tuple[Finding, ...] = ()
    message: str = ""
    where: str = ""
    printed: int = 0
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
        """What to run again to see the same failure."""
        failed = self.first_failure
        return failed.case if failed is not None else self.case

    def as_json(self) -> dict[str, Any]:
        """Return what a file keeps: everything but the graphs and the case."""
        keep = ("title", "holds", "message", "look_at")
        findings = [
            {key: getattr(finding, key) for key in keep}
            | ({"difference": vars(finding.difference)} if finding.difference else {})
            for finding in self.findings
        ]
        names = ("exercise", "points", "possible", "message", "where", "printed")
        plain: Mapping[str, Any] = {name: getattr(self, name) for name in names}
        return {**plain, "status": str(self.status), "seconds": round(self.seconds, 3), "findings": findings}
