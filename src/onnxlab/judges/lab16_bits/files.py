"""What the exercises with files of few bits ask of a file: its interface, its outputs and its bytes."""

import numpy as np
import onnx
from onnx import TensorProto

from onnxlab.kit.judging import evidence, require_same_interface, require_valid
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.rewriting import Question
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.runtime.refusals import short_reason
from onnxlab.runtime.session import open_session


def require_file(model: onnx.ModelProto, question: Question) -> None:
    """Require a valid model with the inputs and outputs of its original, in float32."""
    require_same_interface(model, question.model, question.where)
    require_valid(model)
    types = {value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)}
    if types != {TensorProto.FLOAT}:
        msg = Message("{question.where}: an input or output is not float32 any more.", question=question)
        raise Wrong(msg, "Callers give and expect float32.", evidence=evidence(model))


def outputs_of(model: onnx.ModelProto, question: Question, x: Array) -> Array:
    """Run a model without optimisations, which are not the same on every processor.

    Raises:
        Wrong: If it does not run.
    """
    try:
        (output,) = open_session(model, optimize=False).run(None, {question.name: x})
    except Exception as error:  # the runtime raises many kinds
        msg = Message(
            "{question.where}: ONNX Runtime does not run the result: {reason}",
            question=question,
            reason=short_reason(error),
        )
        raise Wrong(msg, question.look_at, evidence=evidence(model)) from None
    return np.asarray(output, np.float64)


def relative_error(expected: Array, got: Array) -> float:
    """Return the root mean square of the error by that of the expected outputs: 0.02 for 2 %."""
    return float(np.linalg.norm(got - expected) / np.linalg.norm(expected))


def require_near(
    model: onnx.ModelProto, question: Question, x: Array, allowed: float, look_at: str = ""
) -> None:
    """Require outputs near those of the float32 model."""
    expected, got = outputs_of(question.model, question, x), outputs_of(model, question, x)
    require_near_outputs(model, question, x, expected, got, allowed, look_at)


def require_near_outputs(
    model: onnx.ModelProto,
    question: Question,
    x: Array,
    expected: Array,
    got: Array,
    allowed: float,
    look_at: str = "",
    difference: Difference | None = None,
) -> None:
    """Require outputs of a model near those of the float32 model."""
    shapes = [Message("shape {shape}", shape=list(array.shape)) for array in (expected, got)]
    if expected.shape != got.shape:
        msg = Message("{question.where}: the output has another shape.", question=question)
        difference = Difference(Message("x of shape {shape}", shape=list(x.shape)), *shapes)
        raise Wrong(msg, question.look_at, difference=difference, evidence=evidence(model))
    error = relative_error(expected, got)
    if not error <= allowed:
        msg = Message(
            "{question.where}: the outputs are off by {error:.0%} of those in float32; "
            "at most {allowed:.0%} is allowed.",
            question=question,
            error=error,
            allowed=allowed,
        )
        raise Wrong(msg, look_at or question.look_at, difference=difference, evidence=evidence(model))


def require_bytes(model: onnx.ModelProto, question: Question, most: int) -> None:
    """Require a file of at most so many bytes."""
    size = model.ByteSize()
    if size > most:
        msg = Message(
            "{question.where}: the file has {size:,} bytes; at most {most:,} are allowed.",
            question=question,
            size=size,
            most=most,
        )
        look_at = (
            question.look_at or "Which weights are still float32? `graph(model)` shows the type of each."
        )
        difference = Difference(
            Message("bytes of the file"), Message("at most {most:,}", most=most), f"{size:,}"
        )
        raise Wrong(msg, look_at, difference=difference, evidence=evidence(model))
