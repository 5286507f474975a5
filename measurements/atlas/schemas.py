"""The links from an ONNX operator to a running model: its schema at an opset, and ONNX Runtime's kernel."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import onnx

# ONNX Runtime lists its kernels only here, in the binding to the C++ library.
from onnxruntime.capi.onnxruntime_pybind11_state import (  # type: ignore[import-untyped]  # ships no types
    get_registered_ep_kernel_defs,
)

from onnxlab.message import Message
from onnxlab.runtime.session import open_session

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
        has_body: Whether the definition has a body of other operators; a runtime without a kernel can then
            run the body.
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
    definition = _in_force(name, opset)
    if definition is None or definition.deprecated:
        return None
    # onnx's stubs lack both.
    body = definition.has_function or definition.has_context_dependent_function  # type: ignore[attr-defined]
    return Schema(definition.since_version, _first_input(definition)[1], body)


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
    types: set[str] = set()
    fitting = [k for k in _kernels().get(name, ()) if _fits(k.version_range, definition.since_version)]
    for kernel in fitting:
        types.update(
            _elements(kernel.type_constraints[variable]) if variable in kernel.type_constraints else allowed
        )
    return tuple(element for element in ELEMENT_TYPES if element in types) if fitting else None


@functools.cache
def readable_opsets() -> range:
    """Return the opsets that the installed ONNX Runtime loads, by loading a model of each.

    Example:
        >>> readable_opsets()
        range(7, 27)
    """
    last = onnx.defs.onnx_opset_version()
    readable = [opset for opset in range(7, last + 1) if _loads(opset)]
    return range(readable[0], readable[-1] + 1)


def _loads(opset: int) -> bool:
    head = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    try:
        open_session(onnx.parser.parse_model(f"{head} g (float[1] x) => (float[1] y) {{ y = Relu (x) }}"))
    except Exception:  # the runtime raises several classes
        return False
    return True


@functools.cache
def _kernels() -> dict[str, list[Any]]:
    kernels: dict[str, list[Any]] = {}
    for kernel in get_registered_ep_kernel_defs("CPUExecutionProvider"):
        if kernel.domain == "":
            kernels.setdefault(kernel.op_name, []).append(kernel)
    return kernels


def _fits(versions: tuple[int, int], since: int) -> bool:
    """ONNX Runtime's own rule: a kernel whose versions have no end is for its first version only."""
    begin, end = versions
    return begin == since or (begin < since <= end and end != _NEVER_ENDS)


def _first_input(definition: onnx.defs.OpSchema) -> tuple[str, tuple[str, ...]]:
    """The type variable of an operator's first input, and the element types that it may have."""
    if not definition.inputs:
        return "", ()
    variable = definition.inputs[0].type_str
    allowed = {limit.type_param_str: limit.allowed_type_strs for limit in definition.type_constraints}
    types = _elements(allowed.get(variable, [variable]))
    return variable, tuple(element for element in ELEMENT_TYPES if element in types)


def _elements(types: Iterable[str]) -> set[str]:
    """The element types of tensor types: float of `tensor(float)`. Sequences and optionals are left out."""
    return {text[len("tensor(") : -1] for text in types if text.startswith("tensor(")}


class State(StrEnum):
    """Whether a link of the chain from an operator to a running model holds."""

    YES = "yes"
    PART = "part"
    """It holds with a reservation, which is in the link's text."""
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Link:
    """One link of the chain from an operator to a running model.

    Attributes:
        state: Whether it holds.
        text: The reason in a few words.
        lacks: For the kernel: element types that ONNX allows and no kernel takes, each with the operators
            that lack it. A signed integer counts if the operator takes only the unsigned one of that size,
            which has no kernel.
    """

    state: State
    text: str
    lacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


# Operators that only convert or reshape, next to those that compute.
_PLUMBING = frozenset(
    {"Cast", "CastLike", "Constant", "Expand", "Identity", "Reshape", "Shape", "Squeeze", "Unsqueeze"}
)
_NEEDS_NO_KERNEL = frozenset({"Constant"})  # the runtime makes an initializer of it while loading


@functools.cache  # many operators are translated to the same few
def schema_link(names: frozenset[str], opset: int) -> Link:
    """Return the link for the schemas: whether ONNX defines some operators at an opset, in which version.

    Example:
        >>> schema_link(frozenset({"Asinh"}), 8).text
        'Asinh only since 9'
    """
    schemas = {name: schema(name, opset) for name in sorted(names)}
    absent = [name for name, definition in schemas.items() if definition is None]
    if not schemas:
        return Link(State.UNKNOWN, "unknown")
    computing = [name for name in schemas if name not in _PLUMBING]
    if not absent:
        versions = {name: definition.since for name, definition in schemas.items() if definition}
        return Link(State.YES, ", ".join(f"{name} {versions[name]}" for name in computing or versions))
    text = ", ".join(_introduced(name) for name in absent)
    return Link(State.NO if set(computing) <= set(absent) else State.PART, text)


@functools.cache  # the history has thousands of schemas, and the atlas asks for each operator at each opset
def _introduced(name: str) -> str:
    if schema(name, readable_opsets()[-1]) is None:
        return Message("{name} not any more", name=name)
    versions = (entry for entry in onnx.defs.get_all_schemas_with_history() if entry.name == name)
    newest_first = min(entry.since_version for entry in versions if entry.domain == "")
    return Message("{name} only since {newest_first}", name=name, newest_first=newest_first)


@functools.cache
def kernel_link(names: frozenset[str], opset: int) -> Link:
    """Return the link for the kernels: whether ONNX Runtime runs some operators, for which element types.

    Example:
        >>> kernel_link(frozenset({"Asinh"}), 20).lacks
        {'double': ('Asinh',)}
    """
    if opset not in readable_opsets():
        return Link(
            State.NO,
            Message(
                "ONNX Runtime reads models up to opset {readable_opsets}",
                readable_opsets=readable_opsets()[-1],
            ),
        )
    absent: list[str] = []
    lacks: dict[str, list[str]] = {}
    supported: dict[str, tuple[str, ...]] = {}
    for name in sorted(names - _NEEDS_NO_KERNEL):
        defined, types = schema(name, opset), kernel_types(name, opset)
        if defined is None or (types is None and defined.has_body):
            continue
        if types is None:
            absent.append(name)
            continue
        supported[name] = types
        for element in ELEMENT_TYPES:
            needed = element if element in defined.types else f"u{element}"  # int16 only as uint16
            # Without a kernel, half precision is computed in single precision: the runtime inserts casts.
            replaced = element == "float16" and "float" in types
            if needed in defined.types and needed not in types and not replaced:
                lacks.setdefault(element, []).append(name)
    lacking = {element: tuple(operators) for element, operators in lacks.items()}
    if absent:
        return Link(
            State.PART if supported else State.NO,
            Message("no kernel for {absent}", absent=", ".join(absent)),
            lacking,
        )
    return Link(State.YES, _common_types(supported), lacking) if supported else Link(State.UNKNOWN, "unknown")


def _common_types(supported: dict[str, tuple[str, ...]]) -> str:
    """A text for the element types that all operators support."""
    computing = {name: types for name, types in supported.items() if name not in _PLUMBING} or supported
    common = [element for element in ELEMENT_TYPES if all(element in types for types in computing.values())]
    if len(common) == len(ELEMENT_TYPES):
        return Message("all types")
    if not common:
        return Message("different types for different operators")
    return f"{next(iter(computing)) if len(computing) == 1 else 'all of them'}: {', '.join(common)}"
