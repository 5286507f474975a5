"""What is asked of a model made from another one: that it is whole, and computes what that does."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import onnx

from onnxlab.labs.kit.judging import UNLIKE, evidence, shown_whole
from onnxlab.labs.kit.outcome import Difference, Wrong
from onnxlab.model.distance import Array
from onnxlab.model.nodes import walk
from onnxlab.runtime.session import open_session

__all__ = [
    "opsets",
    "require_interface",
    "require_no_new_operators",
    "require_same_interface",
    "require_same_numbers",
    "require_whole",
]


_TOLERANCE = 2e-5
_DEFAULT_DOMAIN = ("", "ai.onnx")  # two names of one domain


def opsets(model: onnx.ModelProto) -> set[int]:
    """Return the opsets of the default domain that a model and its functions ask a runtime for."""
    imports = [model.opset_import, *(function.opset_import for function in model.functions)]
    return {each.version for entries in imports for each in entries if each.domain in _DEFAULT_DOMAIN}


def require_whole(
    model: onnx.ModelProto,
    where: str,
    look_at: str = "Which node makes the value named here, and is that node still there, before its readers?",
) -> None:
    """Require that the full check accepts a model.

    Args:
        model: The model.
        where: Which of the drawn models it was, for the message.
        look_at: What to look at if it does not.
    """
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # protobuf's errors as well as the checker's
        lines = str(error).strip().splitlines() or [type(error).__name__]
        msg = (
            f"{where}: onnx.checker.check_model(model, full_check=True) refuses the result: {lines[0][:200]}"
        )
        raise Wrong(msg, look_at, evidence=evidence(model)) from None


def require_interface(model: onnx.ModelProto, inputs: list[str], outputs: list[str], where: str) -> None:
    """Require the names of a model's inputs and outputs, in order."""
    weights = {each.name for each in model.graph.initializer}
    for kind, wanted, found in (
        ("inputs", inputs, [each.name for each in model.graph.input if each.name not in weights]),
        ("outputs", outputs, [each.name for each in model.graph.output]),
    ):
        if wanted != found:
            difference = Difference(where, ", ".join(wanted), ", ".join(found) or "none")
            msg = f"{where}: the {kind} of the model are others than they should be."
            look = "Names of inputs and outputs are what a caller of the model relies on."
            raise Wrong(msg, look, difference=difference, evidence=evidence(model))


def require_same_interface(model: onnx.ModelProto, original: onnx.ModelProto, where: str) -> None:
    """Require the names of the inputs and outputs of the model that it was made from, in order."""
    graph = original.graph
    inputs, outputs = [value.name for value in graph.input], [value.name for value in graph.output]
    require_interface(model, inputs, outputs, where)


def require_no_new_operators(model: onnx.ModelProto, original: onnx.ModelProto, where: str) -> None:
    """Require that a model has no function, and no more nodes of an operator than its original."""
    more = _operators(model) - _operators(original)
    if more or model.functions:
        names = ", ".join(f"{count} x {name}" for name, count in more.items()) or "a local function"
        msg = f"{where}: the result has nodes that were not there before: {names}."
        raise Wrong(msg, "Compare graph(before, after).", evidence=evidence(model, None, *more))


def require_same_numbers(
    model: onnx.ModelProto, feeds: Mapping[str, Array], right: list[Array], where: str, look_at: str
) -> None:
    """Require what a model gives in ONNX Runtime.

    Args:
        model: The model.
        feeds: Its inputs by name.
        right: What its outputs must be.
        where: Which of the drawn models it was, for the message.
        look_at: What to look at if they are not.
    """
    shown = evidence(model)
    try:
        found = open_session(model).run(None, dict(feeds))
    except Exception as error:  # the runtime raises many kinds
        lines = str(error).strip().splitlines() or [type(error).__name__]
        msg = f"{where}: ONNX Runtime does not run the result: {lines[0][:200]}"
        raise Wrong(msg, look_at, evidence=shown) from None
    given = ", ".join(
        f"{name} = {shown_whole(array)}" if shown_whole(array) else f"{name} of shape {list(array.shape)}"
        for name, array in feeds.items()
    )
    for output, expected, got in zip(model.graph.output, right, found, strict=True):
        actual = np.asarray(got)
        if actual.shape != expected.shape or actual.dtype != expected.dtype:
            difference = Difference(
                given, f"{expected.dtype}{list(expected.shape)}", f"{actual.dtype}{list(actual.shape)}"
            )
            msg = f"{where}: the output {output.name} has another shape or type."
            look = look_at if actual.dtype == expected.dtype else UNLIKE["type"][1]
            raise Wrong(msg, look, difference=difference, evidence=shown)
        # Of the largest number, as sums cancel: rounding to float32 stays ten times below this, weights that
        # went through float16 come out above it.
        largest = float(np.abs(expected).max(initial=0))
        apart = np.abs(actual.astype(np.float64) - expected) > _TOLERANCE * (1 + largest)
        apart |= np.isnan(actual.astype(np.float64))
        if apart.any():
            place = tuple(int(each) for each in np.argwhere(apart)[0])
            difference = Difference(
                f"{given}; output {output.name} at {list(place)}",
                f"{expected[place]:.5g}",
                f"{actual[place]:.5g}",
            )
            msg = f"{where}: the numbers are not those of the model it was made from."
            raise Wrong(msg, look_at, difference=difference, evidence=shown)


def _operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op for node in walk(model))
