"""Models in ONNX Runtime on the CPU, fed with torch tensors, NumPy arrays or Python numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types

from onnxlab.errors import InputMismatch
from onnxlab.model.distance import Array
from onnxlab.model.load import ModelLike, load
from onnxlab.plain_text import pluralise

_SAME_NAME = ["float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
NUMPY_TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    **{f"tensor({name})": name for name in _SAME_NAME},
}
"""NumPy's names of the runtime's types."""


def open_session(model: ModelLike, *, optimize: bool = True) -> ort.InferenceSession:
    """Create a session on the CPU that prints nothing.

    Args:
        model: The model.
        optimize: Whether the runtime may rewrite the graph, as it does by default.

    Example:
        >>> from onnxlab.history import recorded_graph
        >>> [value.name for value in open_session(recorded_graph("1.8.1", "model_static")).get_inputs()]
        ['in']
    """
    options = ort.SessionOptions()
    # The course's models are small: more threads gain nothing. Where two processes run, each waits for its
    # own threads by spinning, on the cores that the other needs: both take twice as long.
    options.intra_op_num_threads = 1
    options.log_severity_level = 4  # errors are raised; the log would only repeat them
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(load(model).SerializeToString(), options, providers=["CPUExecutionProvider"])


def arrays(value: object) -> list[Any]:
    """Return the arrays inside nested tuples, lists and dicts, in order; None is left out.

    Tensors become NumPy arrays. Python numbers stay as they are: their type depends on the input they feed.

    Example:
        >>> arrays({"a": np.zeros(2), "b": [1, None]})
        [array([0., 0.]), 1]
    """
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [leaf for part in value.values() for leaf in arrays(part)]
    if isinstance(value, list | tuple):
        return [leaf for part in value for leaf in arrays(part)]
    if hasattr(value, "detach"):  # a torch tensor; torch itself is not needed here
        return [value.detach().cpu().numpy()]
    return [value]


def feeds(
    session: ort.InferenceSession, inputs: Sequence[object], *, spare: bool = False
) -> dict[str, Array]:
    """Assign the arrays to the inputs of a session, in order.

    Args:
        session: The session.
        inputs: Tensors, arrays and numbers, possibly nested.
        spare: Whether there may be more arrays than inputs, as after an export that turned an argument into
            a constant. Then an array of the wrong type or rank is skipped.

    Raises:
        InputMismatch: If the arrays cannot be assigned to the inputs.

    Example:
        >>> from onnxlab.history import recorded_graph
        >>> session = open_session(recorded_graph("1.8.1", "model_static"))
        >>> {name: array.shape for name, array in feeds(session, [np.zeros((1, 3, 10, 10))]).items()}
        {'in': (1, 3, 10, 10)}
    """
    expected, named_arrays = session.get_inputs(), arrays(list(inputs))
    exact = len(expected) == len(named_arrays)
    feed: dict[str, Array] = {}
    rest = iter(named_arrays)
    for value in expected:
        # Without a spare array there is no choice: the runtime itself says what does not fit.
        fitting = (array for array in rest if exact or _fits(array, value))
        array = next(fitting, None)
        if array is not None:
            number = isinstance(array, bool | int | float)
            feed[value.name] = np.asarray(array, NUMPY_TYPES.get(value.type) if number else None)
    if len(feed) < len(expected) or (len(named_arrays) > len(expected) and not spare):
        names = ", ".join(value.name for value in expected) or "none"
        raise InputMismatch(
            "The model takes {inputs} ({names}) and was given {arrays}.",
            "An export may turn an argument into a constant.",
            "Give one array for each input, in order.",
            inputs=pluralise(len(expected), "input"),
            names=names,
            arrays=pluralise(len(named_arrays), "array"),
        )
    return feed


def _fits(array: object, value: Any) -> bool:  # noqa: ANN401 - the runtime's NodeArg has no type information
    if isinstance(array, bool | int | float):
        return not value.shape
    as_array = np.asarray(array)
    return NUMPY_TYPES.get(value.type) == as_array.dtype.name and len(value.shape) == as_array.ndim
