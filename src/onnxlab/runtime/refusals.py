"""The reasons in error messages: of ONNX Runtime, when it refuses an input, and of PyTorch."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from onnxlab.message import Message
from onnxlab.model.load import ModelLike
from onnxlab.runtime.session import open_session


@dataclass(frozen=True)
class AxisMismatch:
    """A property of an input that is not what the model declares.

    Attributes:
        axis: The axis; None if the mismatch is of the whole input: its rank, type or name.
        got: The input's property.
        expected: What the model declares.
    """

    axis: int | None
    got: int | str
    expected: int | str

    def __str__(self) -> str:
        if self.axis is None:
            return Message("got {size.got}, expected {size.expected}", size=self)
        return Message("axis {size.axis}: got {size.got}, expected {size.expected}", size=self)


@dataclass(frozen=True)
class Refusal:
    """Why ONNX Runtime did not run a model.

    Attributes:
        input: The input's name, if the runtime gives one.
        reason: The reason in a few words.
        mismatches: The properties that differ from what the model declares.
        text: The runtime's own message.
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

# Before the reason, an error of ONNX Runtime has a code, an activity, and a place in its source.
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
    r"""Return the sentence of an error message that gives the reason.

    A message of ONNX Runtime begins with a code and a place in its own source, which are left out. One of
    PyTorch often begins with a heading that ends in a colon; the line below it is added.

    Args:
        error: The exception, or its text.
        longest: The most characters; a longer text is cut at a word.

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
    text = _sentence(_COLOUR.sub("", text))
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
    return name if reason == name else Message.compose(": ", [name, reason])


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def _sentence(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    if lines[0].startswith(_WITHOUT_REASON):  # a traceback follows, with the exception at its end
        return lines[-1]
    sentence = ""
    for line in lines:
        if sentence and line.startswith(("File ", "==> Context")):
            break
        part = _ADVICE.sub("", line.removeprefix("- ") if sentence else line).strip()
        if _INDEX.search(sentence):  # of "Got invalid dimensions": a line for each axis
            if not _INDEX.match(part):
                break
            sentence += ";"
        sentence = f"{sentence} {part}".strip()
        if _INDEX.match(part):
            continue
        if not _OPEN.search(sentence) and not re.search(r"node: name: [^.]*$", sentence):
            break
    return _without_place(sentence.removesuffix(":"))


def _without_place(text: str) -> str:
    where = ""
    for prefix in _PREFIXES:
        text = prefix.sub("", text)
    for pattern in (_RUNNING, _NODE):
        if begin := pattern.match(text):
            operator, name = begin.groups() if pattern is _RUNNING else begin.groups()[::-1]
            where = (
                Message("{operator} node {name!r}: ", operator=operator, name=name)
                if name
                else Message("{operator} node: ", operator=operator)
            )
            text = text[begin.end() :]
    if place := _PLACE.match(text):
        text = _CONDITION.sub("", _without_function(text[place.end() :]))
    if newer := _NEWER_OPSET.search(text):
        text = Message(
            "Opset {opset} is not released; this runtime knows {domain} up to opset {newest}.",
            opset=newer[1],
            domain=newer[2],
            newest=newer[3],
        )
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
    listing = Message.compose("; ", map(str, mismatches))
    return Refusal(name, Message.compose(": ", filter(None, (kind, listing))), mismatches, text)


def _readings(text: str) -> Iterator[tuple[str, str | None, tuple[AxisMismatch, ...]]]:
    if match := _DIMENSIONS.search(text):
        axes = (AxisMismatch(*(int(number) for number in index)) for index in _INDEX.findall(text))
        yield "", match[1], tuple(axes)
    if match := _RANK.search(text):
        yield "rank", match[1], (AxisMismatch(None, int(match[2]), int(match[3])),)
    if match := _DTYPE.search(text):
        yield "dtype", None, (AxisMismatch(None, match[1], match[2]),)
    if match := _MISSING.search(text):
        missing, fed = (names.replace("'", "") for names in match.groups())
        yield "missing input", missing, (AxisMismatch(None, fed or "nothing", missing),)
    if match := _TOO_FEW.search(text):
        yield "missing input", None, (AxisMismatch(None, int(match[2]), int(match[1])),)
    if match := _LEFT_OUT.search(text):
        yield "missing input", match[1], (AxisMismatch(None, "nothing", match[1]),)
    if match := _UNKNOWN.search(text):
        yield "unknown input", match[1], ()
    if match := _CONTAINER.search(text):
        yield "not an array", match[1], ()
    if match := _OBJECT.search(text):
        yield "not an array", None, (AxisMismatch(None, match[1], "numpy array"),)


@dataclass(frozen=True)
class Cell:
    """The outcome of running one model with one input.

    Attributes:
        refusal: Why it did not run, or None.
        output_shapes: The shapes of the outputs, if it ran.
    """

    refusal: Refusal | None
    output_shapes: tuple[tuple[int, ...], ...]

    @property
    def ok(self) -> bool:
        """Whether the model ran."""
        return self.refusal is None

    def __str__(self) -> str:
        if self.refusal:
            return Message("error: {refusal.reason}", refusal=self.refusal)
        return "ok " + " ".join(str(shape) for shape in self.output_shapes)


@dataclass(frozen=True)
class FailureTable:
    """The outcomes of running several models with several inputs.

    Attributes:
        models: The models' names, in order.
        inputs: The inputs' names, in order.
        cells: The outcomes, by (model, input).
    """

    models: tuple[str, ...]
    inputs: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]

    def rows(self) -> list[dict[str, str]]:
        """Return a row for each model: its name, then a column for each input."""
        return [
            {"model": model} | {name: str(self.cells[model, name]) for name in self.inputs}
            for model in self.models
        ]


def failure_table(models: Mapping[str, ModelLike], inputs: Mapping[str, Any]) -> FailureTable:
    """Run each model with each input in ONNX Runtime, and collect outputs' shapes and refusals.

    Args:
        models: The models by name.
        inputs: By name, an array for the model's first input, or a dict of arrays by input name. They are
            passed to the runtime as they are; it refuses torch tensors.

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
        first = next((declared.name for declared in session.get_inputs()), "")
        for label, value in inputs.items():
            feed = dict(value) if isinstance(value, Mapping) else {first: value}
            try:
                outputs = session.run(None, feed)
            except Exception as error:  # the runtime raises plain Exception subclasses and RuntimeError
                cells[name, label] = Cell(parse_refusal(error), ())
            else:
                shapes = tuple(tuple(getattr(output, "shape", ())) for output in outputs)
                cells[name, label] = Cell(None, shapes)
    return FailureTable(tuple(models), tuple(inputs), cells)
