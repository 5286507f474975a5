"""Requirements on a model: that it is valid, its graph, its numbers; and on one made from another model."""

import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
import torch
from onnx import numpy_helper, parser

from onnxlab.errors import OnnxLabError
from onnxlab.kit.outcome import Difference, Evidence, Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.message import Message
from onnxlab.model.distance import Array, magnitude
from onnxlab.model.graph import dims, edges, walk
from onnxlab.runtime.parity import Counterexample, mismatches, smallest_counterexample
from onnxlab.runtime.refusals import parse_refusal, short_reason
from onnxlab.runtime.session import open_session

LONGEST = 160
"""The most characters of one text of a counterexample."""

_SHAPE_ERROR = r"ShapeInference|[Ss]hape|[Dd]imension"  # in an error of ONNX Runtime
_SHORT = 8  # the most elements of an input that is shown whole


def expected_model(text: str, weights: Mapping[str, torch.Tensor] | None = None) -> bytes:
    """Return a right model, to show beside a learner's, from ONNX's text form and the weights left out of it.

    Example:
        >>> model = expected_model('''<ir_version: 8, opset_import: ["" : 9]>
        ...     asinh (float[N] x) => (float[N] y) { y = Asinh(x) }''')
        >>> onnx.load_from_string(model).graph.node[0].op_type
        'Asinh'
    """
    model = parser.parse_model(text)
    for name, values in (weights or {}).items():
        model.graph.initializer.append(numpy_helper.from_array(values.detach().numpy(), name))
    data: bytes = model.SerializeToString()
    return data


@contextmanager
def expecting(expected: Callable[[], bytes]) -> Iterator[None]:
    """Show a right model beside the learner's if the block raises `Wrong`, unless there is one already."""
    try:
        yield
    except Wrong as wrong:
        if wrong.evidence is not None and wrong.evidence.expected is None:
            wrong.evidence = replace(wrong.evidence, expected=expected())
        raise


def evidence(model: onnx.ModelProto, expected: bytes | None = None, *highlight: str) -> Evidence:
    """Return a learner's model and the expected one, as evidence."""
    return Evidence(model.SerializeToString(), expected, highlight)


def require_valid(model: onnx.ModelProto) -> None:
    """Require that the checker accepts a model, and that ONNX Runtime loads it.

    Raises:
        Wrong: With the reason in one line.
    """
    try:
        onnx.checker.check_model(model)
    except Exception as error:  # protobuf's errors as well as the checker's
        msg = Message("onnx.checker refuses the model: {reason}", reason=short_reason(error))
        operator, look_at = _operator_named(model, str(error)), ""
        if operator is not None:
            domain = {entry.domain: entry.version for entry in model.opset_import}
            look_at = Message(
                "What does `onnx.defs.get_schema({operator!r}, {domain})` say?",
                operator=operator,
                domain=domain.get("", 1),
            )
        raise Wrong(msg, look_at, evidence=evidence(model, None, *filter(None, [operator]))) from None
    if not model.graph.output:  # which both accept
        raise Wrong("The model has no output.", "What does your code return?", evidence=evidence(model))
    try:
        open_session(model)
    except Exception as error:  # the runtime raises many kinds
        reason = short_reason(error)
        msg = Message("ONNX Runtime does not load the model: {reason}", reason=reason)
        operator = _operator_named(model, reason)
        shown = evidence(model, None, *filter(None, [operator]))
        raise Wrong(msg, _load_advice(reason), evidence=shown) from None


def _operator_named(model: onnx.ModelProto, text: str) -> str | None:
    """Return the operator of a model that an error names, or None."""
    nodes = [(node.op_type, node.name) for node in model.graph.node]
    words = set(re.findall(r"[\w./]+", text))
    named = [operator for operator, name in nodes if name and name in words]
    return next(iter([*named, *(operator for operator, _ in nodes if operator in words)]), None)


def _load_advice(reason: str) -> str:
    """Return where to look, by the reason why a model does not load."""
    if re.search(r"implementation|[Tt]ype", reason):
        return "Which types does the runtime's kernel accept? `atlas()` lists them for each operator."
    if re.search(_SHAPE_ERROR, reason):
        return "Which shape has each value on the way? `graph(model)` shows them."
    if re.search(r"opset|IR version", reason):
        return "Look at the opset and the IR version that the model is stamped with."
    return ""


def require_numbers(
    reference: Callable[..., Any],
    model: onnx.ModelProto,
    inputs: object,
    atol: float = 1e-5,
    rtol: float = 1e-5,
    *,
    look_at: str | Mapping[str, str] = "",
    describe: Callable[[Counterexample], Difference] | None = None,
) -> None:
    """Require that a model returns PyTorch's outputs.

    The kernels of PyTorch and of ONNX Runtime round differently, so that equal formulas differ in the last
    digits of large values: a tolerance without `rtol` makes marks depend on the inputs that were drawn.

    Args:
        reference: The module or function of torch that gives the right numbers.
        model: The model.
        inputs: Sets of inputs, as for `runtime.parity.smallest_counterexample`.
        atol: How far apart equal values may be.
        rtol: How much further, for each unit of PyTorch's magnitude; floating-point values only.
        look_at: Where to look if the numbers differ; or a text for each kind of failure, a key of `UNLIKE`,
            or "load" for a model that ONNX Runtime does not load. A kind without a text has a general one.
        describe: Puts the smallest counterexample into words; by default `difference`.

    Raises:
        Wrong: With the smallest counterexample.
    """
    shown = evidence(model)
    advice = {"numbers": look_at} if isinstance(look_at, str) else look_at
    try:
        counterexample = smallest_counterexample(reference, model, inputs, atol, rtol)
    except Exception as error:  # a model that does not load, or that has other inputs
        reason = short_reason(error)
        msg: str = Message("The model cannot be run with these inputs: {reason}", reason=reason)
        own = advice.get("stop" if re.search(_SHAPE_ERROR, reason) else "load")
        hint = own or "Compare the model's inputs with the function's arguments."
        raise Wrong(msg, hint, evidence=shown) from None
    if counterexample is None:
        return
    outputs = [value.name for value in model.graph.output]
    with trying(model=model, inputs=counterexample.inputs):
        kind = "numbers" if counterexample.torch is not None else _kind(counterexample.reason)
        msg, general = UNLIKE[kind]
        hint = advice.get(kind) or general
        arguments = _argument_names(reference, model, len(counterexample.inputs))
        texts = describe(counterexample) if describe else difference(counterexample, outputs, arguments)
        raise Wrong(msg, hint, difference=texts, evidence=shown)


UNLIKE = {
    "numbers": ("The outputs differ from PyTorch's.", ""),
    "type": (
        "The output's type is not PyTorch's.",
        "Which element type has each value on the way to the output, and which node changes it?",
    ),
    "shape": (
        "The output's shape is not PyTorch's.",
        "Which shape has each value on the way? Is a size of the export's example fixed in one of them?",
    ),
    "outputs": (
        "The number of outputs is not PyTorch's.",
        "Compare the model's outputs with what is returned.",
    ),
    "stop": (
        "ONNX Runtime stops while it runs the model.",
        "Which node is it, and which shapes and types arrive there for this input?",
    ),
}
"""What is wrong, and where to look in general, by the kind of failure."""


def at_other_sizes(look_at: str) -> dict[str, str]:
    """Return advice for a part that tries other sizes than the example's, where shapes can be wrong too."""
    return dict.fromkeys(("numbers", "shape", "stop"), look_at)


def _kind(reason: str) -> str:
    """Return the kind of failure where outputs cannot be compared element by element."""
    if re.search(r"torch gives \w+, the runtime", reason):
        return "type"
    if "gives shape" in reason:
        return "shape"
    return "outputs" if "number of outputs" in reason else "stop"


def difference(
    counterexample: Counterexample, outputs: Sequence[str] = (), arguments: Sequence[str] = ()
) -> Difference:
    """Put a counterexample into three short texts.

    Small inputs are shown whole: it is not known which of their elements the differing one depends on.

    Example:
        >>> counterexample = Counterexample((np.array([2, -2]),), 0, (1,), -2, 0, (np.array(-2),), "")
        >>> difference(counterexample, ["y"], ["x"])
        Difference(given='x = [2, -2] (int64[2]); element 1 of output "y"', expected='-2', got='0')
    """
    inputs = []
    for number, (array, part) in enumerate(
        zip(counterexample.inputs, counterexample.input_slice, strict=True)
    ):
        name = f"{arguments[number]} = " if number < len(arguments) else ""
        kind = f"{array.dtype}{list(array.shape)}"
        value = shown_whole(array) or ("" if counterexample.torch is None else _short(part))
        if counterexample.torch is None and _kind(counterexample.reason) == "shape":
            value = ""  # of a wrong shape the shapes say why
        inputs.append(f"{name}{value} ({kind})" if value else f"{name.replace(' =', ':')}{kind}")
    if counterexample.torch is None:
        reason = counterexample.reason[: 2 * LONGEST]
        return Difference("; ".join(inputs)[:LONGEST], Message("the same outputs as PyTorch"), reason)
    numbers = number_texts(counterexample.torch, counterexample.runtime)
    element = _element(counterexample, outputs)
    given = Message.compose("; ", [*inputs, element] if element else inputs)
    if len(given) > LONGEST:
        given = Message.compose("; ", ["; ".join(inputs)[: LONGEST - len(element) - 2], element])
    return Difference(given if element else given[:LONGEST], *numbers)


def _argument_names(reference: Callable[..., Any], model: onnx.ModelProto, count: int) -> list[str]:
    """Return the names of the arguments of `forward`; those of the model's inputs where it names too few."""
    function = reference.forward if isinstance(reference, torch.nn.Module) else reference
    named: list[str] = []
    with suppress(TypeError, ValueError):  # a function of torch's own has no signature
        parameters = inspect.signature(function).parameters.values()
        named = [value.name for value in parameters if value.kind is value.POSITIONAL_OR_KEYWORD]
    weights = {weight.name for weight in model.graph.initializer}
    fed = [value.name for value in model.graph.input if value.name not in weights]
    return next((names for names in (named, fed) if len(names) >= count), [])


def shown_whole(array: Array) -> str:
    """Return an array's elements as text; an empty text if there are too many to read."""
    if not 0 < array.size <= _SHORT:
        return ""
    return _list(array.item() if array.size == 1 else array.tolist())


def _list(values: object) -> str:
    return f"[{', '.join(map(_list, values))}]" if isinstance(values, list) else _number(values)


def _element(counterexample: Counterexample, names: Sequence[str]) -> str:
    """Return which element of which output differs; an empty text if there is only one."""
    name, index = "", counterexample.index
    if len(names) > counterexample.output:
        name = f'"{names[counterexample.output]}"'
    elif counterexample.output:
        name = str(counterexample.output)
    single = all(array.size <= 1 for array in counterexample.inputs) and len(names) < 2
    if not index or single:
        return Message("output {name}", name=name) if name and len(names) > 1 else ""
    if len(index) == 1:
        place = Message("element {index}", index=index[0])
    else:
        *front, row, column = index
        place = Message("row {row}, column {column}", row=row, column=column)
        place = Message("at {front}, {place}", front=list(front), place=place) if front else place
    return Message("{place} of output {name}", place=place, name=name) if name else place


def _short(part: object) -> str:
    values = np.asarray(part)
    return (
        _number(values.item()) if values.ndim == 0 else np.array2string(values, threshold=8).replace("\n", "")
    )


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float | complex) else str(value)


def number_texts(expected: object, got: object, digits: int = 6) -> tuple[str, str]:
    """Return two numbers as texts, with more digits than `digits` if it takes more to tell them apart.

    Example:
        >>> number_texts(1 / 3, 0.5), number_texts(1.00000012, 1.0)
        (('0.333333', '0.5'), ('1.0000001', '1'))
    """
    numbers = [getattr(value, "item", lambda value=value: value)() for value in (expected, got)]
    if not all(isinstance(value, float | complex) for value in numbers):
        return str(numbers[0]), str(numbers[1])
    texts = [f"{value:.{digits}g}" for value in numbers]
    if texts[0] == texts[1] and digits < 17:
        return number_texts(numbers[0], numbers[1], digits + 1)
    return texts[0], texts[1]


def require_exported(work: Work, name: str) -> onnx.ModelProto:
    """Return the model that `exporting.exported_or_stopped` wrote, or raise the reason that it wrote."""
    if not work.has(name) and work.has(name, "json"):
        failure = work.json(name)
        if isinstance(failure, list) and len(failure) == 2 and all(isinstance(text, str) for text in failure):
            reason, where = failure
            raise Wrong(
                reason[: 2 * LONGEST], where[:LONGEST] or "What does this exporter say of your module?"
            )
    return work.model(name)


def require_opset(
    model: onnx.ModelProto,
    opset: int,
    look_at: str = "Look at the number the rule is registered for, and at opset_version.",
) -> None:
    """Require the opset of the default domain."""
    stamped = {entry.domain: entry.version for entry in model.opset_import}.get("")
    if stamped != opset:
        msg = Message("The model says opset {stamped}; {opset} was asked for.", stamped=stamped, opset=opset)
        raise Wrong(msg, look_at, evidence=evidence(model))


def require_operators(
    model: onnx.ModelProto, *needed: str, without: Sequence[str] = (), look_at: str = ""
) -> None:
    """Require that operators are in a model, bodies included, and that others are not."""
    try:
        operators = [node.op for node in walk(model)]
    except OnnxLabError as error:
        raise Wrong(short_reason(error)) from None
    got = ", ".join(dict.fromkeys(operators)) or Message("no node at all")
    if missing := [name for name in needed if name not in operators]:
        msg = Message(
            "There is no {missing} in the graph. It has {got}.", missing=" and no ".join(missing), got=got
        )
        raise Wrong(msg, look_at, evidence=evidence(model))
    if unwanted := [name for name in without if name in operators]:
        msg = Message(
            "The graph has {unwanted}, which it should do without.", unwanted=" and ".join(unwanted)
        )
        raise Wrong(msg, look_at, evidence=evidence(model, None, *unwanted))


def require_dynamic(model: onnx.ModelProto, axes: Mapping[str, Iterable[int]]) -> None:
    """Require that axes of inputs, by name, are declared dynamic. Whether they are, the numbers tell."""
    names = [value.name for value in model.graph.input]
    for name, dynamic in axes.items():
        if name not in names:
            msg = Message(
                "The model has no input {name!r}; its inputs are {names}.",
                name=name,
                names=", ".join(names) or "none",
            )
            look_at = "An argument that is not a tensor, or is never read, becomes a constant."
            raise Wrong(msg, look_at, evidence=evidence(model))
        shape = dims(model, name) or ()
        fixed = [axis for axis in dynamic if axis >= len(shape) or isinstance(shape[axis], int)]
        if fixed:
            msg = Message(
                "Axis {fixed} of {name} is fixed: its shape is [{shape}].",
                fixed=fixed[0],
                name=name,
                shape=", ".join(map(str, shape)),
            )
            raise Wrong(msg, "Look at the argument that names the dynamic axes.", evidence=evidence(model))


def require_input_read(model: onnx.ModelProto, name: str) -> None:
    """Require an input of this name from which an output is computed."""
    makers, read = edges(model)
    visited: set[str] = set()
    queue = [value.name for value in model.graph.output]
    while queue:
        value = queue.pop()
        if value in visited:
            continue
        visited.add(value)
        if value in makers:
            queue += read[makers[value].path]
    names = [value.name for value in model.graph.input]
    if name not in names or name not in visited:
        reason = (
            Message("the inputs are {names}", names=", ".join(names) or "none")
            if name not in names
            else Message("no output depends on it")
        )
        msg = Message("The input {name!r} does not reach the result: {reason}.", name=name, reason=reason)
        look_at = (
            "forward never reads it, or Python computed from it, as int() does, and that became a constant."
        )
        raise Wrong(msg, look_at, evidence=evidence(model))


# Rounding to float32 stays ten times below this; weights that went through float16 come out above it.
_TOLERANCE = 2e-5
_DEFAULT_DOMAIN = ("", "ai.onnx")  # two names of one domain


def opsets(model: onnx.ModelProto) -> set[int]:
    """Return the opsets of the default domain that a model and its functions import."""
    imports = [model.opset_import, *(function.opset_import for function in model.functions)]
    return {entry.version for entries in imports for entry in entries if entry.domain in _DEFAULT_DOMAIN}


_MAKER = "Which node makes the value named here, and is that node still there, before its readers?"
_ADVICE = {
    "single static assignment|not unique": (
        "A name is made twice. Give every new value and initializer a new name."
    ),
    "topologically sorted": _MAKER,
    "Field 'type' of 'value_info'": (
        "An input or an output has no type. Which one did you add, and should it be there?"
    ),
    "Invalid attribute perm": (
        "The perm of a Transpose needs one entry for each axis of its input. How many axes has that value?"
    ),
    "elem type|TypeInference|inconsistent type|data type": (
        "A value has another element type than is declared for it, or than its reader accepts. "
        "Which node changes it?"
    ),
    _SHAPE_ERROR: (
        "A shape is declared that the nodes do not make. Is there an old shape left, or one that is fixed?"
    ),
}
"""Where to look, by what the checker says."""


def require_well_formed(model: onnx.ModelProto, where: str, look_at: str = _MAKER) -> None:
    """Require that the full check accepts a model.

    Compare the interface first: an output too many is often one without a type.
    """
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # protobuf's errors as well as the checker's
        refused = short_reason(error)
        msg = Message(
            "{where}: onnx.checker.check_model(model, full_check=True) refuses the result: {refused}",
            where=where,
            refused=refused,
        )
        advice = next((text for pattern, text in _ADVICE.items() if re.search(pattern, refused)), look_at)
        raise Wrong(msg, advice, evidence=evidence(model)) from None


def require_interface(
    model: onnx.ModelProto,
    inputs: Collection[str],
    outputs: Collection[str],
    where: str,
    look_at: str = "Names of inputs and outputs are what a caller of the model relies on.",
    *,
    ordered: bool = True,
) -> None:
    """Require the names of a model's inputs and outputs; in this order, or in any."""
    weights = {weight.name for weight in model.graph.initializer}
    for kind, expected, names in (
        ("inputs", inputs, [value.name for value in model.graph.input if value.name not in weights]),
        ("outputs", outputs, [value.name for value in model.graph.output]),
    ):
        if (list(expected) if ordered else sorted(expected)) != (names if ordered else sorted(names)):
            difference = Difference(where, ", ".join(expected), ", ".join(names) or Message("none"))
            msg = Message("{where}: the model's {kind} are not the ones asked for.", where=where, kind=kind)
            raise Wrong(msg, look_at, difference=difference, evidence=evidence(model))


def require_same_interface(model: onnx.ModelProto, original: onnx.ModelProto, where: str) -> None:
    """Require the same names of inputs and outputs as the original model's, in order."""
    inputs, outputs = original.graph.input, original.graph.output
    require_interface(model, [value.name for value in inputs], [value.name for value in outputs], where)


def require_no_new_operators(model: onnx.ModelProto, original: onnx.ModelProto, where: str) -> None:
    """Require that a model has no function, and no more nodes of an operator than its original."""
    more = Counter(node.op for node in walk(model)) - Counter(node.op for node in walk(original))
    if more or model.functions:
        names = ", ".join(f"{count} x {name}" for name, count in more.items()) or "a local function"
        msg = Message(
            "{where}: the result has nodes that were not there before: {names}.", where=where, names=names
        )
        raise Wrong(msg, "Compare graph(before, after).", evidence=evidence(model, None, *more))


def first_mismatch(expected: Array, actual: Array, tolerance: float = _TOLERANCE) -> tuple[int, ...] | None:
    """Return the index of the first number that is not near the expected one.

    A nan is near a nan, and an infinity near itself. Whole numbers and truth values have to be equal.

    Args:
        expected: The right numbers.
        actual: The model's numbers, in the same shape.
        tolerance: How far apart near numbers may be, as a share of the largest finite one: sums cancel.

    Example:
        >>> first_mismatch(np.array([1.0, 2.0]), np.array([1.0, 2.1]))
        (1,)
        >>> first_mismatch(np.array([np.inf, np.nan, 2.0]), np.array([np.inf, np.nan, 3.0]))
        (2,)
    """
    sizes = magnitude(expected)
    allowed = tolerance * (1.0 + sizes[np.isfinite(sizes)].max(initial=0.0))
    apart = np.argwhere(mismatches(expected, actual, 0, allowed)[1])
    return tuple(map(int, apart[0])) if len(apart) else None


_INPUT_DECLARED = (
    "The result accepts other inputs than the model it was made from. Is one of its axes, or its type, fixed "
    "in another way?"
)


def require_same_numbers(
    model: onnx.ModelProto,
    feeds: Mapping[str, Array],
    right_outputs: list[Array],
    where: str,
    look_at: str,
    session: ort.InferenceSession | None = None,
) -> None:
    """Require the right outputs for inputs by name; `where` describes the drawn model.

    To compare one model for many inputs, pass its session: opening one takes longer than the run.
    """
    shown = evidence(model)
    try:
        outputs = (session or open_session(model)).run(None, dict(feeds))
    except Exception as error:  # the runtime raises many kinds
        msg = Message(
            "{where}: ONNX Runtime does not run the result: {reason}", where=where, reason=short_reason(error)
        )
        hint = _INPUT_DECLARED if parse_refusal(error).mismatches else look_at
        raise Wrong(msg, hint, evidence=shown) from None
    shown_inputs = Message.compose(
        "; ",
        (
            f"{name} = {shown_whole(array)}"
            if shown_whole(array)
            else Message("input {name} of shape {shape}", name=name, shape=list(array.shape))
            for name, array in feeds.items()
        ),
    )
    for output, expected, got in zip(model.graph.output, right_outputs, outputs, strict=True):
        actual = np.asarray(got)
        if actual.shape != expected.shape or actual.dtype != expected.dtype:
            difference = Difference(
                shown_inputs, f"{expected.dtype}{list(expected.shape)}", f"{actual.dtype}{list(actual.shape)}"
            )
            msg = Message(
                "{where}: the output {output.name} has another shape or type.", where=where, output=output
            )
            hint = look_at if actual.dtype == expected.dtype else UNLIKE["type"][1]
            raise Wrong(msg, hint, difference=difference, evidence=shown)
        place = first_mismatch(expected, actual)
        if place is not None:
            element = Message("output {output.name} at {place}", output=output, place=list(place))
            given = Message.compose("; ", [shown_inputs, element])
            difference = Difference(given, *number_texts(expected[place], actual[place], 5))
            msg = Message(
                "{where}: the outputs differ from those of the model it was made from.", where=where
            )
            raise Wrong(msg, look_at, difference=difference, evidence=shown)
