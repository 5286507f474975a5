"""A symptom: what a model file shows, why it matters, what to do, and the section that explains it."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import wraps
from typing import Any, Literal, TypeAlias, TypeVar

import onnx

from onnxlab.diagnosis.messages import explained
from onnxlab.message import Message
from onnxlab.plain_text import plain

Seen = TypeVar("Seen")
"""What is examined: a file, or the report of a step."""

Severity: TypeAlias = Literal["wrong", "risk", "note"]
"""wrong: it fails, or its outputs cannot be trusted. risk: it can fail elsewhere. note: worth knowing."""

SEVERITIES: tuple[Severity, ...] = ("wrong", "risk", "note")

LESSONS = {
    "arguments": ("06_trace_breakers", "6. What becomes of a Python number that is an input?"),
    "author": ("13_ship_it", "2. What does a torch.export file tell about its author?"),
    "back ends": ("10_backends_differ", "6. What did eight programs make of 34 files?"),
    "branch": ("02_trace_and_script", "5. A traced `if` keeps one branch, a scripted one becomes an If"),
    "batch": ("15b_quantise_a_transformer", "1. Which MatMuls does dynamic quantisation change?"),
    "bodies": ("08_custom_operators", "8. Does another runtime accept the body?"),
    "conditions": ("04b_right_at_every_size", "4. Is the condition recorded anywhere?"),
    "constants": ("12_modern_exporter", "5. What does the optimiser change?"),
    "custom": ("08_custom_operators", "6. What happens to a node that ONNX does not define?"),
    "data file": ("13_ship_it", "5. Do two files know that they belong together?"),
    "division": ("07_operator_support", "8. Can all links hold, and the result be wrong?"),
    "foreign": ("13_ship_it", "6. A file from somebody else"),
    "fusion": ("14_is_it_fast", "7. Which fusion is missed?"),
    "half": ("16_half_precision", "2. Who notices that this file overflows?"),
    "inference": ("11_graph_surgery", "8. Does shape inference correct recorded shapes?"),
    "load": ("01_first_deployment", "3. The checker reads the file; it does not run it"),
    "masked": ("17b_what_people_bring", "3. Which wrong masks does the runtime catch?"),
    "mistakes": ("11_graph_surgery", "3. Which mistakes does a check find?"),
    "loop": ("02_trace_and_script", "7. What becomes of a loop with a fixed count?"),
    "numbers": ("20_clinic", "6. The outputs differ: is this patient ill?"),
    "optimiser": ("14_is_it_fast", "7. Which fusion is missed?"),
    "passed": ("06_trace_breakers", "4. A model may lose its only input"),
    "quantised": ("15_quantise", "4. What does the runtime make of Q and DQ?"),
    "right sizes": ("04b_right_at_every_size", "1. Does a name make every size right?"),
    "runtimes": ("13_ship_it", "1. Which runtime loads this file?"),
    "scatter": ("20_clinic", "10. The other patients"),
    "sizes": ("04_dynamic_shapes", "2. Which sizes does each file accept?"),
    "small nodes": ("10b_what_runs", "3. What does ONNX Runtime make of small nodes?"),
    "training": ("10b_what_runs", "6. What does a file made in train() compute?"),
    "window": ("20_clinic", "1. Right at one size: where was it lost?"),
}
"""The chapter and the section that explain a kind of symptom."""


@dataclass(frozen=True)
class Symptom:
    """One thing that a model file shows.

    Attributes:
        severity: How bad it is.
        what: What was seen, with names and values.
        why: Why it matters.
        then: What to do.
        lesson: What explains it: a key of `LESSONS`, or a chapter and a section.
    """

    severity: Severity
    what: str
    why: str
    then: str
    lesson: str | tuple[str, str]

    @property
    def place(self) -> tuple[str, str]:
        """The chapter and section that explain it."""
        return LESSONS[self.lesson] if isinstance(self.lesson, str) else self.lesson

    @property
    def explained(self) -> str:
        """The chapter and section in a sentence."""
        return explained(*self.place)

    def as_json(self) -> dict[str, Any]:
        """Return the symptom as plain data."""
        chapter, section = self.place
        fields = {name: value for name, value in asdict(self).items() if name != "lesson"}
        return fields | {"chapter": chapter, "section": section}


def finding(
    severity: Severity, lesson: str, why: str, then: str
) -> Callable[[Callable[[Seen], Iterable[str | Symptom]]], Callable[[Seen], list[Symptom]]]:
    """Make a function that says what was seen into one that returns symptoms.

    It may yield a whole `Symptom` where more than what was seen differs. For the arguments see `Symptom`.
    """

    def decorate(function: Callable[[Seen], Iterable[str | Symptom]]) -> Callable[[Seen], list[Symptom]]:
        @wraps(function)
        def find(seen: Seen) -> list[Symptom]:
            return [
                Symptom(severity, one, why, then, lesson) if isinstance(one, str) else one
                for one in function(seen)
            ]

        return find

    return decorate


def listing(names: Iterable[object], most: int = 3) -> str:
    """Return the first names of a list as plain text, and how many more there are.

    Example:
        >>> listing(["a", "b"]), listing(["a", "b", "c", "d", "e"])
        ('a, b', 'a, b, c and 2 more')
    """
    shown = [plain(name, 80) for name in names]
    names = ", ".join(shown[:most])
    more = len(shown) - most
    return Message("{names} and {number} more", names=names, number=more) if more > 0 else names


def label(node: onnx.NodeProto) -> str:
    """Return a node's name, or that of its first output."""
    return plain(node.name or next(iter(node.output), node.op_type), 60)
