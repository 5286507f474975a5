"""Which rule of the torch.export exporter translates an operator: one of its own, or those of its parts."""

import functools

import torch

from onnxlab.operators.rules import is_variant, library, overload
from onnxlab.operators.schemas import Link, State

__all__ = ["overloads", "torch_export_rule"]

_NONE: frozenset[str] = frozenset()


@functools.cache
def overloads() -> dict[str, tuple[str, ...]]:
    """Return the overloads of every ATen operator that PyTorch knows, by its name without them."""
    found: dict[str, list[str]] = {}
    names = list(torch._C._dispatch_get_all_op_names())
    names += [s.name + f".{s.overload_name}" * bool(s.overload_name) for s in torch._C._jit_get_all_schemas()]
    for name in dict.fromkeys(names):
        if name.startswith("aten::"):
            found.setdefault(name.partition(".")[0], []).append(name)
    return {base: tuple(each) for base, each in found.items()}


def torch_export_rule(base: str, which: str, opset: int) -> tuple[Link, frozenset[str]]:
    """Return the link from an operator to the exporter's library, and the ONNX operators its rules name.

    Args:
        base: A qualified name without the overload: "aten::asinh".
        which: The overload, or "" for all of them: "Tensor".
        opset: The opset to export at.
    """
    if base.endswith("_") and not base.endswith("__"):  # the exporter replaces what writes in place
        base = base.removesuffix("_")
    names = _functional(base, which)
    answers = {name: _one(name, opset) for name in names}
    best = max(answers.values(), key=lambda answer: _ORDER.index(answer[0].state), default=(_NO_RULE, _NONE))
    link, _ = best
    writes = frozenset().union(*(w for found, w in answers.values() if found.state is link.state))
    if link.state is State.YES:
        without = [_short(name) for name, (found, _) in answers.items() if found.state is State.NO]
        if without:
            link = Link(State.PART, f"{link.text}; none for {', '.join(without)}")
        if opset < library().lowest:
            link = Link(State.PART, f"{link.text}; exported at {library().lowest}, then converted")
    return link, writes


_ORDER = (State.NO, State.UNKNOWN, State.PART, State.YES)
_NO_RULE = Link(State.NO, "no rule")


@functools.cache
def _functional(base: str, which: str) -> tuple[str, ...]:
    names = []
    for name in overloads().get(base, ()):
        found = overload(name)
        wanted = not which or name.partition(".")[2] == which
        if found is not None and wanted and not is_variant(found) and _on_tensors(found):
            names.append(name)
    return tuple(names)


def _on_tensors(found: torch._ops.OpOverload) -> bool:
    """TorchScript has overloads of its own for Python numbers and lists; no tensor, nothing to export."""
    values = (*found._schema.arguments, *found._schema.returns)
    return any("Tensor" in str(value.type) for value in values)


def _one(name: str, opset: int) -> tuple[Link, frozenset[str]]:
    rules = library()
    own = rules.rule(name, opset)
    if own is not None:
        return Link(State.YES, "own rule"), own
    if name not in rules.parts:
        return _NO_RULE, _NONE
    parts = rules.parts[name]
    if parts is None:
        return Link(State.UNKNOWN, "taken apart by PyTorch; not tried"), _NONE
    ruled = {part: _part(part, opset) for part in parts}
    missing = [part for part, rule in ruled.items() if rule is None]
    listed = ", ".join(dict.fromkeys(_base(part) for part in missing or parts)) or "nothing"
    if missing:
        return Link(State.NO, f"decomposes, but no rule for {listed}"), _NONE
    return Link(State.YES, f"by decomposition: {listed}"), frozenset().union(*filter(None, ruled.values()))


def _part(part: str, opset: int) -> frozenset[str] | None:
    """The rule of a part; what writes in place is replaced by what does not, in any of its overloads."""
    rules = library()
    found = rules.rule(part, opset)
    base = part.partition(".")[0]
    if found is None and base.endswith("_"):
        names = [name for name in rules.rules if name.partition(".")[0] == base.removesuffix("_")]
        return next(filter(None, (rules.rule(name, opset) for name in names)), None)
    return found


def _base(name: str) -> str:
    return name.partition(".")[0].removeprefix("aten::")


def _short(name: str) -> str:
    return name.partition(".")[2] or "default"
