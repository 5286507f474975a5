"""Why ONNX Runtime refuses an input, read out of its error messages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["AxisMismatch", "Refusal", "RefusalKind", "parse_refusal"]


class RefusalKind(StrEnum):
    """What ONNX Runtime found wrong with an input."""

    DIMENSIONS = "dimensions"
    RANK = "rank"
    DTYPE = "dtype"
    MISSING = "missing input"
    UNKNOWN = "unknown input"
    CONTAINER = "not an array"
    OTHER = "other"


@dataclass(frozen=True)
class AxisMismatch:
    """One thing that is not as the model declares it.

    Attributes:
        axis: The axis, or None where the whole input is concerned: its rank, its type, its name.
        got: What the input has.
        expected: What the model declares.
    """

    axis: int | None
    got: int | str
    expected: int | str

    def __str__(self) -> str:
        where = "" if self.axis is None else f"axis {self.axis}: "
        return f"{where}got {self.got}, expected {self.expected}"


@dataclass(frozen=True)
class Refusal:
    """Why ONNX Runtime did not run a model.

    Attributes:
        kind: What was wrong.
        input: The input concerned, where the runtime names one.
        mismatches: What was found and what was expected.
        text: The runtime's own words.
    """

    kind: RefusalKind
    input: str | None
    mismatches: tuple[AxisMismatch, ...]
    text: str

    @property
    def reason(self) -> str:
        """The reason in a few words."""
        if not self.mismatches:
            return (
                _PREFIX.sub("", self.text).partition("\n")[0] if self.kind is RefusalKind.OTHER else self.kind
            )
        prefix = "" if self.kind is RefusalKind.DIMENSIONS else f"{self.kind}: "
        return prefix + "; ".join(str(mismatch) for mismatch in self.mismatches)


_INDEX = re.compile(r"index: (\d+) Got: (-?\d+) Expected: (-?\d+)")
_DIMENSIONS = re.compile(r"Got invalid dimensions for input: (.+?) for the following indices")
_RANK = re.compile(r"Invalid rank for input: (.+?) Got: (\d+) Expected: (\d+)")
_DTYPE = re.compile(r"Unexpected input data type\. Actual: \((.+?)\) ?, expected: \((.+)\)")
_MISSING = re.compile(r"Required inputs \(\[(.*?)\]\) are missing from input feed \(\[(.*?)\]\)")
_TOO_FEW = re.compile(r"Model requires (\d+) inputs\. Input Feed contains (\d+)")
_LEFT_OUT = re.compile(r"Missing Input: (\S+)")
_UNKNOWN = re.compile(r"Invalid (?:feed )?input name: ?(.+)", re.IGNORECASE)
_CONTAINER = re.compile(r"Input must be a list of dictionaries or a single numpy array for input '(.+?)'")
_OBJECT = re.compile(r"Unable to handle object of type <class '(.+?)'>")
_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")


def parse_refusal(error: BaseException | str) -> Refusal:
    r"""Read the reason out of an error of ONNX Runtime, in today's wording or that of versions 1.7 to 1.12.

    Args:
        error: The exception, or its text.

    Returns:
        The reason; of kind OTHER where the text is none of the known ones.

    Example:
        >>> text = '''Got invalid dimensions for input: in for the following indices
        ...  index: 2 Got: 20 Expected: 10
        ...  index: 3 Got: 20 Expected: 10
        ...  Please fix either the inputs or the model.'''
        >>> refusal = parse_refusal(text)
        >>> refusal.input, refusal.mismatches[0]
        ('in', AxisMismatch(axis=2, got=20, expected=10))
        >>> refusal.reason
        'axis 2: got 20, expected 10; axis 3: got 20, expected 10'
    """
    text = str(error).strip()
    kind, name, mismatches = next(_readings(text), (RefusalKind.OTHER, None, ()))
    return Refusal(kind, name, mismatches, text)


def _readings(text: str) -> Iterator[tuple[RefusalKind, str | None, tuple[AxisMismatch, ...]]]:
    if found := _DIMENSIONS.search(text):
        axes = (AxisMismatch(*(int(number) for number in index)) for index in _INDEX.findall(text))
        yield RefusalKind.DIMENSIONS, found[1], tuple(axes)
    if found := _RANK.search(text):
        yield RefusalKind.RANK, found[1], (AxisMismatch(None, int(found[2]), int(found[3])),)
    if found := _DTYPE.search(text):
        yield RefusalKind.DTYPE, None, (AxisMismatch(None, found[1], found[2]),)
    if found := _MISSING.search(text):
        missing, given = (names.replace("'", "") for names in found.groups())
        yield RefusalKind.MISSING, missing, (AxisMismatch(None, given or "nothing", missing),)
    if found := _TOO_FEW.search(text):
        yield RefusalKind.MISSING, None, (AxisMismatch(None, int(found[2]), int(found[1])),)
    if found := _LEFT_OUT.search(text):
        yield RefusalKind.MISSING, found[1], (AxisMismatch(None, "nothing", found[1]),)
    if found := _UNKNOWN.search(text):
        yield RefusalKind.UNKNOWN, found[1], ()
    if found := _CONTAINER.search(text):
        yield RefusalKind.CONTAINER, found[1], ()
    if found := _OBJECT.search(text):
        yield RefusalKind.CONTAINER, None, (AxisMismatch(None, found[1], "numpy array"),)
