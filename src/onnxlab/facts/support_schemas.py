"""The last two links: the ONNX schemas of an operator through the opsets, and the runtime's kernels."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types

# The only place that knows them: the binding to the C++ library.
from onnxruntime.capi.onnxruntime_pybind11_state import (  # type: ignore[import-untyped]  # ships no types
    get_registered_ep_kernel_defs,
)

__all__ = ["ELEMENT_TYPES", "Schema", "kernel_types", "readable_opsets", "schema"]

ELEMENT_TYPES = (
    "float",
    "double",
    "float16",
    "bfloat16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
)
"""The element types that links are compared by, as ONNX calls them."""

_NEVER_ENDS = 2**31 - 1


@dataclass(frozen=True)
class Schema:
    """An operator's definition in force at an opset.

    Attributes:
        name: The operator, of the default domain.
        first: The opset that introduced the operator.
        since: The opset that introduced this version of it.
        types: The element types that its first input may have.
        has_body: Whether the definition says what to compute in terms of other operators; a runtime without
            a kernel can then run that.
    """

    name: str
    first: int
    since: int
    types: tuple[str, ...]
    has_body: bool


@functools.cache
def schema(name: str, opset: int) -> Schema | None:
    """Look up an operator's schema at an opset; None if the operator is not defined there.

    Example:
        >>> schema("Asinh", 8) is None, schema("Asinh", 20).since, schema("BitShift", 20).types
        (True, 9, ('uint8', 'uint16', 'uint32', 'uint64'))
    """
    versions = [each for each in _history().get(name, ()) if each.since_version <= opset]
    if not versions or versions[-1].deprecated:
        return None
    found = versions[-1]
    # onnx's stubs lack both.
    body = found.has_function or found.has_context_dependent_function  # type: ignore[attr-defined]
    return Schema(name, versions[0].since_version, found.since_version, _first_input(found)[1], body)


@functools.cache
def kernel_types(name: str, opset: int) -> tuple[str, ...] | None:
    """Return the element types for which ONNX Runtime's CPU provider has a kernel at an opset.

    Args:
        name: An operator of the default domain.
        opset: The model's opset.

    Returns:
        The types of the first input; None if there is no kernel at all.

    Example:
        >>> kernel_types("Asinh", 20), kernel_types("BitShift", 20), kernel_types("BitShift", 28)
        (('float',), ('uint8', 'uint32', 'uint64'), None)
    """
    versions = [each for each in _history().get(name, ()) if each.since_version <= opset]
    if not versions:
        return None
    since, (variable, allowed) = versions[-1].since_version, _first_input(versions[-1])
    fitting = [kernel for kernel in _kernels().get(name, ()) if _fits(kernel.version_range, since)]
    if not fitting:
        return None
    found: set[str] = set()
    for kernel in fitting:
        found.update(
            _elements(kernel.type_constraints[variable]) if variable in kernel.type_constraints else allowed
        )
    return tuple(each for each in ELEMENT_TYPES if each in found)


@functools.cache
def readable_opsets() -> range:
    """Return the opsets of models that the installed ONNX Runtime loads, found by trying.

    Example:
        >>> readable_opsets()
        range(7, 27)
    """
    last = onnx.defs.onnx_opset_version()
    good = [opset for opset in range(7, last + 1) if _loads(opset)]
    return range(good[0], good[-1] + 1)


def _loads(opset: int) -> bool:
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "one", [value], [result])
    opsets = [onnx.helper.make_opsetid("", opset)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:
        return False
    return True


@functools.cache
def _history() -> dict[str, list[onnx.defs.OpSchema]]:
    found: dict[str, list[onnx.defs.OpSchema]] = {}
    for each in onnx.defs.get_all_schemas_with_history():
        if each.domain == "":
            found.setdefault(each.name, []).append(each)
    return {name: sorted(versions, key=lambda each: each.since_version) for name, versions in found.items()}


@functools.cache
def _kernels() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for kernel in get_registered_ep_kernel_defs("CPUExecutionProvider"):
        if kernel.domain == "":
            found.setdefault(kernel.op_name, []).append(kernel)
    return found


def _fits(versions: tuple[int, int], since: int) -> bool:
    """ONNX Runtime's own rule: a kernel without an end is only for the version it begins with."""
    begin, end = versions
    return begin == since or (begin < since <= end and end != _NEVER_ENDS)


def _first_input(found: onnx.defs.OpSchema) -> tuple[str, tuple[str, ...]]:
    if not found.inputs:
        return "", ()
    variable = found.inputs[0].type_str
    allowed = {each.type_param_str: each.allowed_type_strs for each in found.type_constraints}
    types = _elements(allowed.get(variable, [variable]))
    return variable, tuple(each for each in ELEMENT_TYPES if each in types)


def _elements(types: Iterable[str]) -> set[str]:
    """`tensor(float)` is float; sequences and optionals of tensors do not count."""
    return {each[len("tensor(") : -1] for each in types if each.startswith("tensor(")}
