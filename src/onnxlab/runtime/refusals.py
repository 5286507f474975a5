"""Why ONNX Runtime refuses an input, or anything fails, read out of error messages."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from onnxlab.model.load import ModelLike
from onnxlab.runtime.session import open_session

__all__ = [
    "AxisMismatch",
    "Cell",
    "FailureTable",
    "Refusal",
    "failure_table",
    "named_reason",
    "parse_refusal",
    "short_reason",
]


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
        input: The input concerned, where the runtime names one.
        reason: What is wrong, in a few words.
        mismatches: What was found and what was expected.
        text: The runtime's own words.
    """

    input: str | None
    reason: str
    mismatches: tuple[AxisMismatch, ...]
    text: str


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

# What stands before the reason in an error of ONNX Runtime: a code, what it was doing, a place in its source.
_PREFIXES = (
    re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : "),
    re.compile(r"^Exception during initialization: "),
    re.compile(r"^(?:Load model from \S* failed: ?)?(?:This is an invalid model\. )?(?:Error: )?"),
)
_RUNNING = re.compile(
    r"^Non-zero status code returned while running (\S+) node\. Name: ?'(.*?)' Status Message: "
)
_NODE = re.compile(r'^In Node, \("([^"]*)", (\w+), .*? , Error ')
_PLACE = re.compile(r"^(?:\S+[/\\])?\w+\.(?:h|hpp|cc|cpp|cu|cuh):\d+ ")
_CONDITION = re.compile(r"^\S.{0,150}? was false\. (?=\S)")
_NEWER_OPSET = re.compile(r"Opset (\d+) is under development.*?domain (\S+) is till opset (\d+)", re.DOTALL)

_LONGEST = 240  # characters of a reason
_ADVICE = re.compile(r"(?:For more information, run with TORCH_LOGS=\S+|Please fix either the inputs.*)$")
_OPEN = re.compile(r"(?::|for the following indices|Constraints violated \(.*\)!)$")
_WITHOUT_REASON = "The following operation failed in the TorchScript interpreter."


def short_reason(error: BaseException | str, longest: int = _LONGEST) -> str:
    r"""Return the sentence of an error that says what is wrong, without what stands before it.

    ONNX Runtime begins with a code and a place in its own source, and the reason comes last; PyTorch often
    begins with a heading that ends in a colon. Of both, what a reader can act on is returned.

    Args:
        error: The exception, or its text.
        longest: How many characters there may be; a longer text is cut at a word.

    Returns:
        One line; the exception's class where it has no text.

    Example:
        >>> short_reason("[ONNXRuntimeError] : 1 : FAIL : /src/core/upsamplebase.h:370 void "
        ...              "onnxruntime::UpsampleBase::Mode(const std::string&) mode attribute is bicubic.")
        'mode attribute is bicubic.'
        >>> short_reason("Error(s) in loading state_dict for Linear:\n\tMissing key(s): bias.")
        'Error(s) in loading state_dict for Linear: Missing key(s): bias.'
    """
    try:
        text = str(error).strip()
    except Exception:  # a class written by a learner can do anything here
        text = ""
    text = _said(_COLOUR.sub("", text))
    if len(text) > longest:
        text = text[: longest - 1].rpartition(" ")[0].rstrip(",;:") + "\N{HORIZONTAL ELLIPSIS}"
    return text or (type(error).__name__ if isinstance(error, BaseException) else "")


def named_reason(error: BaseException, longest: int = _LONGEST) -> str:
    """Return an error's class and its `short_reason`; the class alone where there is no text.

    Example:
        >>> named_reason(ValueError("one")), named_reason(ValueError())
        ('ValueError: one', 'ValueError')
    """
    name, reason = type(error).__name__, short_reason(error, longest)
    return name if reason == name else f"{name}: {reason}"


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def _said(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    if lines[0].startswith(_WITHOUT_REASON):  # a traceback follows, and what was raised stands at its end
        return lines[-1]
    said = ""
    for line in lines:
        if said and line.startswith(("File ", "==> Context")):
            break
        said = f"{said} {_ADVICE.sub('', line.removeprefix('- ') if said else line).strip()}".strip()
        if not _OPEN.search(said) and not re.search(r"node: name: [^.]*$", said):
            break
    return _without_place(said.removesuffix(":"))


def _without_place(text: str) -> str:
    where = ""
    for prefix in _PREFIXES:
        text = prefix.sub("", text)
    for pattern in (_RUNNING, _NODE):
        if begin := pattern.match(text):
            operator, name = begin.groups() if pattern is _RUNNING else begin.groups()[::-1]
            where = f"{operator} node {name!r}: " if name else f"{operator} node: "
            text = text[begin.end() :]
    if place := _PLACE.match(text):
        text = _CONDITION.sub("", _without_function(text[place.end() :]))
    if newer := _NEWER_OPSET.search(text):
        text = f"Opset {newer[1]} is not released; this runtime knows {newer[2]} up to opset {newer[3]}."
    return where + text


def _without_function(text: str) -> str:
    """Leave out the name of a C++ function, or all of its signature, at the beginning of a text."""
    signature = re.match(r"[^()]*?\S*(?:::|operator)\S*?(?:operator\(\))?\(", text)
    if signature is None:
        return text.partition(" ")[2] or text
    depth = 1
    for end in range(signature.end(), len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if depth == 0:
            return re.sub(r"^(?: const)?(?: \[with .*?\](?= ))?\s+", "", text[end + 1 :])
    return text


def parse_refusal(error: BaseException | str) -> Refusal:
    r"""Read the reason out of an error of ONNX Runtime, in today's wording or that of versions 1.7 to 1.12.

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
    kind, name, mismatches = next(_readings(text), (short_reason(text), None, ()))
    said = "; ".join(str(mismatch) for mismatch in mismatches)
    return Refusal(name, ": ".join(part for part in (kind, said) if part), mismatches, text)


def _readings(text: str) -> Iterator[tuple[str, str | None, tuple[AxisMismatch, ...]]]:
    if found := _DIMENSIONS.search(text):
        axes = (AxisMismatch(*(int(number) for number in index)) for index in _INDEX.findall(text))
        yield "", found[1], tuple(axes)
    if found := _RANK.search(text):
        yield "rank", found[1], (AxisMismatch(None, int(found[2]), int(found[3])),)
    if found := _DTYPE.search(text):
        yield "dtype", None, (AxisMismatch(None, found[1], found[2]),)
    if found := _MISSING.search(text):
        missing, given = (names.replace("'", "") for names in found.groups())
        yield "missing input", missing, (AxisMismatch(None, given or "nothing", missing),)
    if found := _TOO_FEW.search(text):
        yield "missing input", None, (AxisMismatch(None, int(found[2]), int(found[1])),)
    if found := _LEFT_OUT.search(text):
        yield "missing input", found[1], (AxisMismatch(None, "nothing", found[1]),)
    if found := _UNKNOWN.search(text):
        yield "unknown input", found[1], ()
    if found := _CONTAINER.search(text):
        yield "not an array", found[1], ()
    if found := _OBJECT.search(text):
        yield "not an array", None, (AxisMismatch(None, found[1], "numpy array"),)


@dataclass(frozen=True)
class Cell:
    """What happened when one model was given one input.

    Attributes:
        refusal: Why it did not run, or None.
        output_shapes: The shapes of the outputs, where it ran.
    """

    refusal: Refusal | None
    output_shapes: tuple[tuple[int, ...], ...]

    @property
    def ok(self) -> bool:
        """Whether the model ran."""
        return self.refusal is None

    def __str__(self) -> str:
        if self.refusal:
            return f"error: {self.refusal.reason}"
        return "ok " + " ".join(str(shape) for shape in self.output_shapes)


@dataclass(frozen=True)
class FailureTable:
    """Models against inputs.

    Attributes:
        models: The models' names, in order.
        inputs: The inputs' names, in order.
        cells: What happened, by (model, input).
    """

    models: tuple[str, ...]
    inputs: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]

    def rows(self) -> list[dict[str, str]]:
        """Return one row a model: its name, then a column for each input."""
        return [
            {"model": model} | {name: str(self.cells[model, name]) for name in self.inputs}
            for model in self.models
        ]


def failure_table(models: Mapping[str, ModelLike], inputs: Mapping[str, Any]) -> FailureTable:
    """Give each input to each model and note what ONNX Runtime says.

    Args:
        models: The models by name.
        inputs: By name, an array for the model's first input, or a dict of arrays by input name. They are
            given to the runtime as they are; a torch tensor is refused.

    Example:
        >>> import numpy as np
        >>> from onnxlab.history import recorded_graph
        >>> table = failure_table(
        ...     {"static": recorded_graph("1.8.1", "model_static")},
        ...     {"one": np.zeros((1, 3, 10, 10), np.float32), "two": np.zeros((2, 3, 10, 10), np.float32)},
        ... )
        >>> table.rows()
        [{'model': 'static', 'one': 'ok (1, 3, 8, 8)', 'two': 'error: axis 0: got 2, expected 1'}]
        >>> table.cells["static", "two"].refusal.mismatches
        (AxisMismatch(axis=0, got=2, expected=1),)
    """
    cells: dict[tuple[str, str], Cell] = {}
    for name, model in models.items():
        session = open_session(model)
        first = next((value.name for value in session.get_inputs()), "")
        for label, given in inputs.items():
            feed = dict(given) if isinstance(given, Mapping) else {first: given}
            try:
                outputs = session.run(None, feed)
            except Exception as error:  # the runtime raises plain Exception subclasses and RuntimeError
                cells[name, label] = Cell(parse_refusal(error), ())
            else:
                shapes = tuple(tuple(getattr(output, "shape", ())) for output in outputs)
                cells[name, label] = Cell(None, shapes)
    return FailureTable(tuple(models), tuple(inputs), cells)
