"""What most exercises ask of a model: that it is valid, and that its numbers are PyTorch's."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper, parser

from onnxlab.facts.counterexample import Counterexample, smallest_counterexample
from onnxlab.facts.runtime import open_session
from onnxlab.labs.outcome import Difference, Evidence, Wrong

__all__ = [
    "LONGEST",
    "beside",
    "difference",
    "evidence",
    "expected_model",
    "first_line",
    "require_numbers",
    "require_valid",
]

LONGEST = 160
"""Characters of one side of a counterexample."""


def expected_model(text: str, weights: Mapping[str, torch.Tensor] | None = None) -> bytes:
    """Return a model written in ONNX's text form, to lay beside a learner's.

    Args:
        text: The model.
        weights: Initializers that the text does not define.

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
def beside(expected: Callable[[], bytes]) -> Iterator[None]:
    """Lay a right model beside the learner's in what is found wrong inside, where there is none yet.

    Args:
        expected: Makes the right model; called only if something is wrong.

    Example:
        >>> try:
        ...     with beside(lambda: b"a right one"):
        ...         raise Wrong("There is no Loop.", evidence=Evidence(b"the learner's"))
        ... except Wrong as wrong:
        ...     wrong.evidence.expected
        b'a right one'
    """
    try:
        yield
    except Wrong as wrong:
        if wrong.evidence is not None and wrong.evidence.expected is None:
            wrong.evidence = replace(wrong.evidence, expected=expected())
        raise


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
        msg = f"onnx.checker refuses the model: {first_line(error)}"
        look = "Is every operator there at this opset? onnx.defs.get_schema(name, opset) tells."
        raise Wrong(msg, look, evidence=shown) from None
    try:
        open_session(model)
    except Exception as error:  # the runtime raises many kinds
        msg = f"ONNX Runtime does not load the model: {first_line(error)}"
        raise Wrong(msg, "Which types does the runtime's kernel take?", evidence=shown) from None


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
        msg = f"The model cannot be run with these inputs: {first_line(error)}"
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
        return Difference(shapes, "the same outputs as PyTorch", found.reason[:LONGEST])
    there = ", ".join(_short(part) for part in found.input_slice)
    sides = _number(found.torch), _number(found.runtime)
    if sides[0] == sides[1]:  # they differ in a digit that is not shown
        sides = str(found.torch), str(found.runtime)
    return Difference(f"{there}, from {shapes}"[:LONGEST], *sides)


def _short(part: object) -> str:
    values = np.asarray(part)
    return (
        _number(values.item()) if values.ndim == 0 else np.array2string(values, threshold=8).replace("\n", "")
    )


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or its type's name."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
