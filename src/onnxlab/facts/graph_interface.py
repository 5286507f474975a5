"""What differs between two models as seen from outside: inputs, outputs, operator sets."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import onnx

from onnxlab.facts.graph_changes import Change
from onnxlab.facts.values import Value

__all__ = ["Slots", "opset_changes", "slots", "type_changes"]

Slots: TypeAlias = list[tuple[Value | None, Value | None]]
"""Inputs, or outputs, of two models side by side; None where one model has no counterpart."""


def slots(ours: Sequence[Value], theirs: Sequence[Value]) -> Slots:
    """Pair inputs, or outputs: by name if the names are the same, else by position if there are as many.

    Example:
        >>> x, y = Value("x", "int64", ()), Value("y", "int64", ())
        >>> [(a.name, b.name) for a, b in slots([x, y], [y, x])]
        [('x', 'x'), ('y', 'y')]
        >>> len(slots([x], [y])), len(slots([x], [x, y]))
        (1, 2)
    """
    names, others = {value.name for value in ours}, {value.name: value for value in theirs}
    if names != others.keys() and len(ours) == len(theirs):
        return list(zip(ours, theirs, strict=True))
    by_name: Slots = [(value, others.get(value.name)) for value in ours]
    return by_name + [(None, value) for value in theirs if value.name not in names]


def type_changes(kind: str, pairs: Slots) -> Iterator[Change]:
    """Compare the types and shapes of inputs, or outputs.

    Example:
        >>> pairs = slots([Value("x", "int64", (1,))], [Value("x", "int64", ("n",))])
        >>> [str(change) for change in type_changes("input", pairs)]
        ['input x int64[1] -> int64[n]']
    """
    for ours, theirs in pairs:
        before, after = (value.type if value else None for value in (ours, theirs))
        if before != after:
            name = theirs.name if theirs else ours.name if ours else ""
            yield Change(kind, name, before, after)


def opset_changes(first: onnx.ModelProto, second: onnx.ModelProto) -> Iterator[Change]:
    """Compare the operator sets that two models import.

    Example:
        >>> old, new = (onnx.ModelProto(opset_import=[onnx.helper.make_opsetid("", n)]) for n in (9, 20))
        >>> [str(change) for change in opset_changes(old, new)]
        ['opset ai.onnx 9 -> 20']
    """
    mine, other = (
        {opset.domain or "ai.onnx": str(opset.version) for opset in model.opset_import}
        for model in (first, second)
    )
    for domain in sorted(mine.keys() | other.keys()):
        if mine.get(domain) != other.get(domain):
            yield Change("opset", domain, mine.get(domain), other.get(domain))
