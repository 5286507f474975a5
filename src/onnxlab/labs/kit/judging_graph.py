"""What exercises ask of a model's graph: opset, operators, dynamic axes, inputs that are read."""

from collections.abc import Iterable, Mapping, Sequence

import onnx

from onnxlab.errors import OnnxLabError
from onnxlab.labs.kit.judging import LONGEST, evidence
from onnxlab.labs.kit.outcome import Wrong
from onnxlab.labs.kit.work import Work
from onnxlab.model.nodes import walk
from onnxlab.model.query import dims, edges
from onnxlab.runtime.refusals import short_reason

__all__ = ["require_dynamic", "require_exported", "require_input_read", "require_operators", "require_opset"]


def require_exported(work: Work, name: str) -> onnx.ModelProto:
    """Return the model that `exporting.exported_or_stopped` kept.

    Raises:
        Wrong: If there is none; with the reason, and the learner's line where it is one.
    """
    if not work.has(name) and work.has(name, "json"):
        kept = work.json(name)
        if isinstance(kept, list) and len(kept) == 2 and all(isinstance(text, str) for text in kept):
            reason, where = kept
            look = where[:LONGEST] or "What does this exporter say of your module?"
            raise Wrong(reason[: 2 * LONGEST], look)
    return work.model(name)


def require_opset(
    model: onnx.ModelProto,
    opset: int,
    look_at: str = "Look at the number the rule is registered for, and at opset_version.",
) -> None:
    """Require the opset of the default domain.

    Args:
        model: The model.
        opset: Its opset.
        look_at: What to look at if it is another.

    Raises:
        Wrong: If it is another.
    """
    stamped = {each.domain: each.version for each in model.opset_import}.get("")
    if stamped != opset:
        msg = f"The model says opset {stamped}; {opset} was asked for."
        raise Wrong(msg, look_at, evidence=evidence(model))


def require_operators(
    model: onnx.ModelProto,
    *needed: str,
    without: Sequence[str] = (),
    look_at: str = "",
) -> None:
    """Require that operators are in a model, bodies included, and others are not.

    Args:
        model: The model.
        *needed: Operators that have to be there.
        without: Operators that must not be there.
        look_at: What to look at if it does not hold.

    Raises:
        Wrong: With the operators that are there.
    """
    try:
        found = [node.op for node in walk(model)]
    except OnnxLabError as error:
        raise Wrong(short_reason(error)) from None
    there = ", ".join(dict.fromkeys(found)) or "no node at all"
    if missing := [name for name in needed if name not in found]:
        msg = f"There is no {' and no '.join(missing)} in the graph. It has {there}."
        raise Wrong(msg, look_at, evidence=evidence(model))
    if unwanted := [name for name in without if name in found]:
        msg = f"The graph has {' and '.join(unwanted)}, which it should do without."
        raise Wrong(msg, look_at, evidence=evidence(model, None, *unwanted))


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
            look = "An argument that is not a tensor, or is never read, becomes a constant."
            raise Wrong(msg, look, evidence=evidence(model))
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
