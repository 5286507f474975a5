"""What most exercises ask of a model: validity, opset, dynamic axes, operators, numbers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import parser

from onnxlab.errors import OnnxLabError
from onnxlab.facts.counterexample import Counterexample, smallest_counterexample
from onnxlab.facts.graph import dims
from onnxlab.facts.lineage import edges
from onnxlab.facts.nodes import walk
from onnxlab.facts.runtime import open_session
from onnxlab.labs.outcome import Difference, Evidence, Wrong
from onnxlab.labs.work import Work

__all__ = [
    "difference",
    "evidence",
    "expected_model",
    "require_dynamic",
    "require_exported",
    "require_input_read",
    "require_numbers",
    "require_operators",
    "require_opset",
    "require_valid",
]

_LONGEST = 160  # characters of one side of a counterexample


def expected_model(text: str) -> bytes:
    """Return a model written in ONNX's text form, to lay beside a learner's.

    Example:
        >>> model = expected_model('''<ir_version: 8, opset_import: ["" : 9]>
        ...     asinh (float[N] x) => (float[N] y) { y = Asinh(x) }''')
        >>> [node.op for node in walk(model)]
        ['Asinh']
    """
    data: bytes = parser.parse_model(text).SerializeToString()
    return data


def evidence(model: onnx.ModelProto, expected: bytes | None = None, *highlight: str) -> Evidence:
    """Return a learner's graph and the expected one."""
    return Evidence(model.SerializeToString(), expected, highlight)


def require_valid(model: onnx.ModelProto, expected: bytes | None = None) -> None:
    """Require that the checker accepts a model, and that ONNX Runtime loads it.

    Raises:
        Wrong: With the reason in one line.
    """
    shown = evidence(model, expected)
    try:
        onnx.checker.check_model(model)
    except Exception as error:  # protobuf's errors as well as the checker's
        msg = f"onnx.checker refuses the model: {_first(error)}"
        look = "Is every operator there at this opset? onnx.defs.get_schema(name, opset) tells."
        raise Wrong(msg, look, evidence=shown) from None
    try:
        open_session(model)
    except Exception as error:  # the runtime raises many kinds
        msg = f"ONNX Runtime does not load the model: {_first(error)}"
        raise Wrong(msg, "Which types does the runtime's kernel take?", evidence=shown) from None


def require_exported(work: Work, name: str) -> onnx.ModelProto:
    """Return the model that `exporting.exported_or_stopped` kept.

    Raises:
        Wrong: If there is none; with the reason, and the learner's line where it is one.
    """
    if not work.has(name) and work.has(name, "json"):
        kept = work.json(name)
        if isinstance(kept, list) and len(kept) == 2 and all(isinstance(text, str) for text in kept):
            reason, where = kept
            look = where[:_LONGEST] or "What does this exporter say of your module?"
            raise Wrong(reason[: 2 * _LONGEST], look)
    return work.model(name)


def require_opset(model: onnx.ModelProto, opset: int) -> None:
    """Require the opset of the default domain.

    Raises:
        Wrong: If it is another.
    """
    stamped = {each.domain: each.version for each in model.opset_import}.get("")
    if stamped != opset:
        msg = f"The model says opset {stamped}; {opset} was asked for."
        raise Wrong(msg, "Look at the number the rule is registered for, and at opset_version.")


def require_operators(
    model: onnx.ModelProto,
    *needed: str,
    without: Sequence[str] = (),
    look_at: str = "",
    expected: bytes | None = None,
) -> None:
    """Require that operators are in a model, bodies included, and others are not.

    Args:
        model: The model.
        *needed: Operators that have to be there.
        without: Operators that must not be there.
        look_at: What to look at if it does not hold.
        expected: A model to lay beside it.

    Raises:
        Wrong: With the operators that are there.
    """
    try:
        found = [node.op for node in walk(model)]
    except OnnxLabError as error:
        raise Wrong(_first(error)) from None
    there = ", ".join(dict.fromkeys(found)) or "no node at all"
    if missing := [name for name in needed if name not in found]:
        msg = f"There is no {' and no '.join(missing)} in the graph. It has {there}."
        raise Wrong(msg, look_at, evidence=evidence(model, expected))
    if unwanted := [name for name in without if name in found]:
        msg = f"The graph has {' and '.join(unwanted)}, which it should do without."
        raise Wrong(msg, look_at, evidence=evidence(model, expected, *unwanted))


def require_dynamic(model: onnx.ModelProto, axes: Mapping[str, Iterable[int]]) -> None:
    """Require that axes of inputs are labelled dynamic. Whether the model keeps that promise, numbers tell.

    Args:
        model: The model.
        axes: The axes that have to be dynamic, by the input's name.

    Raises:
        Wrong: With the shape that the input has.
    """
    names = [value.name for value in model.graph.input]
    for name, wanted in axes.items():
        if name not in names:
            msg = f"The model has no input {name!r}; its inputs are {', '.join(names) or 'none'}."
            raise Wrong(msg, "An argument that is not a tensor, or is never read, becomes a constant.")
        shape = dims(model, name) or ()
        fixed = [axis for axis in wanted if axis >= len(shape) or isinstance(shape[axis], int)]
        if fixed:
            msg = f"Axis {fixed[0]} of {name} is fixed: its shape is [{', '.join(map(str, shape))}]."
            raise Wrong(msg, "Look at the argument that names the dynamic axes.", evidence=evidence(model))


def require_input_read(model: onnx.ModelProto, name: str) -> None:
    """Require that an output is computed from an input.

    Raises:
        Wrong: If there is no such input, or nothing that reaches an output reads it.
    """
    makers, reads = edges(model)
    seen: set[str] = set()
    waiting = [value.name for value in model.graph.output]
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in makers:
            waiting += reads[makers[value].path]
    names = [value.name for value in model.graph.input]
    if name not in names or name not in seen:
        there = (
            f"the inputs are {', '.join(names) or 'none'}" if name not in names else "no output depends on it"
        )
        msg = f"The input {name!r} does not reach the result: {there}."
        raise Wrong(msg, "What was computed from it in Python became a constant.", evidence=evidence(model))


def require_numbers(
    reference: Callable[..., Any],
    model: onnx.ModelProto,
    inputs: object,
    atol: float = 1e-5,
    rtol: float = 1e-5,
    *,
    look_at: str = "",
    expected: bytes | None = None,
) -> None:
    """Require that a model gives what PyTorch gives.

    The kernels of PyTorch and of ONNX Runtime round differently, so that equal formulas differ in the last
    digits of large values: a tolerance without `rtol` makes marks depend on the inputs that were drawn.

    Args:
        reference: What is right: a module or function of torch.
        model: The model.
        inputs: Sets of inputs, as for `facts.parity.compare`.
        atol: How far apart equal values may be.
        rtol: How much further, for each unit of PyTorch's magnitude; floating-point values only.
        look_at: What to look at if they differ.
        expected: A model to lay beside it.

    Raises:
        Wrong: With the smallest counterexample.
    """
    shown = evidence(model, expected)
    try:
        found = smallest_counterexample(reference, model, inputs, atol, rtol)
    except Exception as error:  # a model that does not load, or whose inputs are others
        msg = f"The model cannot be run with these inputs: {_first(error)}"
        raise Wrong(
            msg, "Compare the model's inputs with the function's arguments.", evidence=shown
        ) from None
    if found is not None:
        raise Wrong(
            "The numbers are not PyTorch's."
            if found.torch is not None
            else "The outputs do not fit PyTorch's.",
            look_at,
            difference=difference(found),
            evidence=shown,
        )


def difference(found: Counterexample) -> Difference:
    """Put a counterexample into three short texts.

    Example:
        >>> found = Counterexample((np.array([-1]),), 0, (0,), -1, 0, (np.array(-1),), "")
        >>> difference(found)
        Difference(given='-1, from int64[1]', expected='-1', got='0')
    """
    shapes = ", ".join(f"{array.dtype}{list(array.shape)}" for array in found.inputs)
    if found.torch is None:
        return Difference(shapes, "the same outputs as PyTorch", found.reason[:_LONGEST])
    there = ", ".join(_short(part) for part in found.input_slice)
    sides = _number(found.torch), _number(found.runtime)
    if sides[0] == sides[1]:  # they differ in a digit that is not shown
        sides = str(found.torch), str(found.runtime)
    return Difference(f"{there}, from {shapes}"[:_LONGEST], *sides)


def _short(part: object) -> str:
    values = np.asarray(part)
    return (
        _number(values.item()) if values.ndim == 0 else np.array2string(values, threshold=8).replace("\n", "")
    )


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _first(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
