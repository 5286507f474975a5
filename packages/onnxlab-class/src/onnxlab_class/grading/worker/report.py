"""What a submission's process and its judge write about an exercise: one definition for writer and reader."""

import base64
import json
from dataclasses import asdict, dataclass, field
from typing import TypeVar

from onnxlab.kit.outcome import Difference, Evidence, Finding
from onnxlab.message import with_templates
from onnxlab.typed_json import UnexpectedType, decode

T = TypeVar("T")
LONGEST = 2000  # characters of one text: a message may quote an answer of any size
_LARGEST_MODEL = 300_000  # bytes of a model that feedback shows
_MOST_HIGHLIGHTED = 50  # operators or names


@dataclass(frozen=True)
class Production:
    """What a submission's process says of an exercise. It chooses the message of a failure, nothing else.

    Attributes:
        status: The status, if it is decided already; None if there are files to judge.
        message: What went wrong.
        look_at: What to look at next.
        refused: Whether the answer itself was refused.
        where: The learner's own line that raised.
        printed: How many characters the learner's code printed.
    """

    status: str | None
    message: str = ""
    look_at: str = ""
    refused: bool = False
    where: str = ""
    printed: int = 0


@dataclass(frozen=True)
class Stage:
    """What a judge is at: an exercise, and the instructor's own part, if it is one."""

    exercise: str
    part: str


@dataclass(frozen=True)
class JudgedPart:
    """A part of an exercise, judged; as `Finding`, with what JSON can hold."""

    title: str
    holds: bool
    message: str
    look_at: str
    difference: Difference | None

    @classmethod
    def of(cls, finding: Finding) -> "JudgedPart":
        """Return a finding with its texts shortened."""
        difference = finding.difference and Difference(*map(_short, vars(finding.difference).values()))
        texts = _short(finding.message), _short(finding.look_at)
        return cls(finding.title, bool(finding.holds), *texts, difference)

    def finding(self) -> Finding:
        """Return it as a finding."""
        return Finding(self.title, self.holds, self.message, self.look_at, self.difference)


@dataclass(frozen=True)
class Graphs:
    """Two graphs to lay side by side; as `Evidence`, in base64."""

    model: str = field(repr=False)
    expected: str | None = field(repr=False)
    highlight: tuple[str, ...]

    @classmethod
    def of(cls, evidence: Evidence | None) -> "Graphs | None":
        """Return evidence for feedback; None if there is none, or the model is too large for a page."""
        if evidence is None or (model := _in_base64(evidence.model)) is None:
            return None
        expected = _in_base64(evidence.expected)
        return cls(model, expected, tuple(_short(name) for name in evidence.highlight[:_MOST_HIGHLIGHTED]))


@dataclass(frozen=True)
class Report:
    """What a judge says of an exercise.

    Attributes:
        parts: The parts, judged; empty if the judge stumbled.
        graphs: The graphs to show.
        broken: How an instructor's own judge failed.
        machine: What the machine refused the judge.
        stumbled: The exception with which a judge of the course ended.
        crashed: How the files ended the judge's process, or took all its memory.
    """

    parts: tuple[JudgedPart, ...] = ()
    graphs: Graphs | None = None
    broken: str = ""
    machine: str = ""
    stumbled: str = ""
    crashed: str = ""

    @classmethod
    def of(cls, findings: tuple[Finding, ...]) -> "Report":
        """Return a report of findings, with the graphs of the first that does not hold."""
        shown = (finding.evidence for finding in findings if finding.holds is False and finding.evidence)
        return cls(tuple(map(JudgedPart.of, findings)), Graphs.of(next(shown, None)))

    def as_json(self) -> str:
        """Return it as JSON."""
        return json.dumps(with_templates(asdict(self)))


def read_record(content: bytes | None, kind: type[T]) -> T | None:
    """Read what a process wrote; None if it is nothing, or of another kind."""
    if content is None:
        return None
    try:
        return decode(content, kind)
    except UnexpectedType:
        return None


def _in_base64(model: bytes | None) -> str | None:
    return None if model is None or len(model) > _LARGEST_MODEL else base64.b64encode(model).decode()


def _short(text: object) -> str:
    shown = str(text)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"
