"""A link of the chain from a PyTorch operator to a running model, and the two links after the rule."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from onnxlab.facts.support_schemas import ELEMENT_TYPES, kernel_types, readable_opsets, schema

__all__ = ["Link", "State", "kernel_link", "schema_link"]


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
    newest = schema(name, readable_opsets()[-1])
    return f"{name} only since {newest.first}" if newest else f"{name} not any more"


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
