"""A link of the chain from a PyTorch operator to a running model; the last two: ONNX schemas and kernels."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import onnx

# The only place that knows them: the binding to the C++ library.
from onnxruntime.capi.onnxruntime_pybind11_state import (  # type: ignore[import-untyped]  # ships no types
    get_registered_ep_kernel_defs,
)

from onnxlab.runtime.session import open_session

__all__ = [
    "ELEMENT_TYPES",
    "Link",
    "Schema",
    "State",
    "kernel_link",
    "kernel_types",
    "readable_opsets",
    "schema",
    "schema_link",
]

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
        since: The opset that introduced this version of it.
        types: The element types that its first input may have.
        has_body: Whether the definition says what to compute in terms of other operators; a runtime without
            a kernel can then run that.
    """

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
    found = _in_force(name, opset)
    if found is None or found.deprecated:
        return None
    # onnx's stubs lack both.
    body = found.has_function or found.has_context_dependent_function  # type: ignore[attr-defined]
    return Schema(found.since_version, _first_input(found)[1], body)


def _in_force(name: str, opset: int) -> onnx.defs.OpSchema | None:
    return onnx.defs.get_schema(name, opset, "") if onnx.defs.has(name, opset, "") else None


@functools.cache
def kernel_types(name: str, opset: int) -> tuple[str, ...] | None:
    """Return the element types of the first input for which ONNX Runtime's CPU provider has a kernel.

    It is None where there is no kernel for the operator, of the default domain, at that opset.

    Example:
        >>> kernel_types("Asinh", 20), kernel_types("BitShift", 20), kernel_types("BitShift", 28)
        (('float',), ('uint8', 'uint32', 'uint64'), None)
    """
    definition = _in_force(name, opset)
    if definition is None:
        return None
    variable, allowed = _first_input(definition)
    found: set[str] = set()
    fitting = [k for k in _kernels().get(name, ()) if _fits(k.version_range, definition.since_version)]
    for kernel in fitting:
        found.update(
            _elements(kernel.type_constraints[variable]) if variable in kernel.type_constraints else allowed
        )
    return tuple(each for each in ELEMENT_TYPES if each in found) if fitting else None


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
    head = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    try:
        open_session(onnx.parser.parse_model(f"{head} g (float[1] x) => (float[1] y) {{ y = Relu (x) }}"))
    except Exception:  # the runtime has several classes
        return False
    return True


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


class State(StrEnum):
    """What is known of a link."""

    YES = "yes"
    PART = "part"
    """It holds with a reservation, which the link's text tells."""
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Link:
    """One link of the chain.

    Attributes:
        state: Whether it holds.
        text: Why, in a few words.
        lacks: For the kernel: element types that ONNX allows here and that no kernel takes, each with the
            operators that lack it. A signed integer counts if the operator takes its bits as an unsigned
            one only, and that has no kernel.
    """

    state: State
    text: str
    lacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


# Operators that carry numbers and shapes about, next to those that compute.
_PLUMBING = frozenset(
    {"Cast", "CastLike", "Constant", "Expand", "Identity", "Reshape", "Shape", "Squeeze", "Unsqueeze"}
)
_NEEDS_NO_KERNEL = frozenset({"Constant"})  # the runtime makes an initializer of it while loading


@functools.cache  # many operators are translated to the same few
def schema_link(names: frozenset[str], opset: int) -> Link:
    """Return whether ONNX defines some operators at an opset, and in which version.

    Example:
        >>> schema_link(frozenset({"Asinh"}), 8).text
        'Asinh only since 9'
    """
    defined = {name: schema(name, opset) for name in sorted(names)}
    absent = [name for name, found in defined.items() if found is None]
    if not defined:
        return Link(State.UNKNOWN, "unknown")
    if not absent:
        main = [name for name in defined if name not in _PLUMBING] or list(defined)
        return Link(
            State.YES, ", ".join(f"{name} {found.since}" for name in main if (found := defined[name]))
        )
    text = ", ".join(_introduced(name) for name in absent)
    computing = [name for name in defined if name not in _PLUMBING]
    return Link(State.NO if set(computing) <= set(absent) else State.PART, text)


def _introduced(name: str) -> str:
    if schema(name, readable_opsets()[-1]) is None:
        return f"{name} not any more"
    versions = (each for each in onnx.defs.get_all_schemas_with_history() if each.name == name)
    newest_first = min(each.since_version for each in versions if each.domain == "")
    return f"{name} only since {newest_first}"


@functools.cache
def kernel_link(names: frozenset[str], opset: int) -> Link:
    """Return whether ONNX Runtime can run some operators at an opset, and for which element types.

    Example:
        >>> kernel_link(frozenset({"Asinh"}), 20).lacks
        {'double': ('Asinh',)}
    """
    if opset not in readable_opsets():
        return Link(State.NO, f"ONNX Runtime reads models up to opset {readable_opsets()[-1]}")
    absent: list[str] = []
    lacks: dict[str, list[str]] = {}
    taken: dict[str, tuple[str, ...]] = {}
    for name in sorted(names - _NEEDS_NO_KERNEL):
        defined, types = schema(name, opset), kernel_types(name, opset)
        if defined is None or (types is None and defined.has_body):
            continue
        if types is None:
            absent.append(name)
            continue
        taken[name] = types
        for each in ELEMENT_TYPES:
            needed = each if each in defined.types else f"u{each}"  # int16 can only go in as uint16
            # Half precision without a kernel is computed in single precision: the runtime puts casts around.
            replaced = each == "float16" and "float" in types
            if needed in defined.types and needed not in types and not replaced:
                lacks.setdefault(each, []).append(name)
    lacking = {each: tuple(operators) for each, operators in lacks.items()}
    if absent:
        return Link(State.PART if taken else State.NO, f"no kernel for {', '.join(absent)}", lacking)
    return Link(State.YES, _common(taken), lacking) if taken else Link(State.UNKNOWN, "unknown")


def _common(taken: dict[str, tuple[str, ...]]) -> str:
    computing = {name: types for name, types in taken.items() if name not in _PLUMBING} or taken
    common = [each for each in ELEMENT_TYPES if all(each in types for types in computing.values())]
    if len(common) == len(ELEMENT_TYPES):
        return "all types"
    if not common:
        return "different types for different operators"
    return f"{next(iter(computing)) if len(computing) == 1 else 'all of them'}: {', '.join(common)}"
