"""The four links from a PyTorch operator to a running model, read from the installed packages.

PyTorch has the operator; the exporter has a rule for it; ONNX defines the operators that the rule writes; the
runtime has kernels for them. The first missing link is the one to repair.
"""

import functools
from dataclasses import dataclass

import torch

from measurements.atlas.rules import is_variant, library, overload, torchscript_opsets, torchscript_rule
from measurements.atlas.schemas import Link, State, kernel_link, readable_opsets, schema_link
from onnxlab.exporters.export import Exporter
from onnxlab.message import Message


@dataclass(frozen=True)
class Support:
    """The four links of one operator, one exporter and one opset.

    Attributes:
        operator: PyTorch has it.
        rule: The exporter can translate it.
        schema: ONNX defines the operators that the rule names.
        kernel: ONNX Runtime can run them.
        writes: The ONNX operators that the rule names; one export writes some of them.
    """

    operator: Link
    rule: Link
    schema: Link
    kernel: Link
    writes: tuple[str, ...]

    @property
    def missing(self) -> str:
        """The first link that is missing: "operator", "rule", "schema", "kernel", or "" for none."""
        for name in ("operator", "rule", "schema", "kernel"):
            if getattr(self, name).state is State.NO:
                return name
        return ""


@functools.cache
def _overloads() -> dict[str, tuple[str, ...]]:
    """Return the overloads of every ATen operator that PyTorch knows, by its name without them."""
    overloads: dict[str, list[str]] = {}
    names = list(torch._C._dispatch_get_all_op_names())
    names += [s.name + f".{s.overload_name}" * bool(s.overload_name) for s in torch._C._jit_get_all_schemas()]
    for name in dict.fromkeys(names):
        if name.startswith("aten::"):
            overloads.setdefault(name.partition(".")[0], []).append(name)
    return {base: tuple(names) for base, names in overloads.items()}


@functools.cache
def known_operators() -> tuple[str, ...]:
    """Return every ATen operator that PyTorch knows, without overloads.

    Example:
        >>> {"aten::asinh", "aten::relu_", "aten::__interpolate"} <= set(known_operators())
        True
    """
    return tuple(sorted(_overloads()))


def support(operator: str, exporter: Exporter, opset: int) -> Support:
    """Return the four links of an operator.

    The first call for an exporter reads its rules, which takes seconds for the torch.export exporter.

    Args:
        operator: A qualified name, with or without the overload: "aten::asinh", "aten::__rshift__.Tensor".
        exporter: One of the two.
        opset: The opset to export at.

    Example:
        >>> support("aten::asinh", Exporter.TORCHSCRIPT, 20).missing
        'rule'
        >>> support("aten::asinh", Exporter.TORCHSCRIPT, 8).schema.text
        'Asinh only since 9'
        >>> support("aten::asinh", Exporter.TORCH_EXPORT, 20).missing
        ''
        >>> support("aten::bitwise_right_shift", Exporter.TORCH_EXPORT, 20).kernel.lacks["int16"]
        ('BitShift',)
    """
    base, _, overload_name = operator.partition(".")
    if exporter is Exporter.TORCHSCRIPT:
        rule, writes = _torchscript(base, opset)
    else:
        rule, writes = _torch_export(base, overload_name, opset)
    # Without a rule, the next question is what a rule could write: the operators that another rule names.
    names = writes or (_named_by_any_rule(base) if rule.state is State.NO else frozenset())
    overloads = _overloads().get(base)
    link = (
        Link(State.YES, Message("{count} overloads", count=len(overloads)) if len(overloads) > 1 else "yes")
        if overloads
        else _UNKNOWN_NAME
    )
    return Support(link, rule, schema_link(names, opset), kernel_link(names, opset), tuple(sorted(writes)))


_UNKNOWN_NAME = Link(State.NO, "PyTorch has no such operator")
_NONE: frozenset[str] = frozenset()


def _torchscript(base: str, opset: int) -> tuple[Link, frozenset[str]]:
    ruled, warned = torchscript_opsets()
    if opset not in ruled and opset not in warned:
        return Link(State.NO, Message("this exporter ends at opset {warned}", warned=warned[-1])), _NONE
    rule = torchscript_rule(base, opset)
    if rule is None:
        return Link(State.NO, "no rule"), _NONE
    if rule.refuses:
        return Link(State.NO, "the rule only refuses"), _NONE
    text = Message("rule of opset {rule.opset}", rule=rule)
    if opset in warned:
        return Link(State.PART, Message("{words}, with a warning", words=text)), rule.operators
    return Link(State.YES, text), rule.operators


@functools.cache
def _named_by_any_rule(base: str) -> frozenset[str]:
    """The operators that the newest rule of either exporter names."""
    rule = torchscript_rule(base, torchscript_opsets()[0][-1])
    writes = _torch_export(base, "", readable_opsets()[-1])[1]
    return writes or (rule.operators if rule else _NONE)


# The rule of the torch.export exporter: its own, or those of the parts into which it decomposes an operator


def _torch_export(base: str, overload_name: str, opset: int) -> tuple[Link, frozenset[str]]:
    """The link to the exporter's library for one overload, or "" for all, and the operators written."""
    if base.endswith("_") and not base.endswith("__"):  # the exporter replaces operators that work in place
        base = base.removesuffix("_")
    rules = {name: _overload_rule(name, opset) for name in _functional(base, overload_name)}
    links = (link for link, _ in rules.values())
    link = max(links, key=lambda link: _ORDER.index(link.state), default=_NO_RULE)
    writes = frozenset().union(*(names for rule, names in rules.values() if rule.state is link.state))
    if link.state is State.YES:
        refused = (name for name, (rule, _) in rules.items() if rule.state is State.NO)
        without = [name.partition(".")[2] or "default" for name in refused]
        if without:
            link = Link(
                State.PART, Message("{link.text}; none for {without}", link=link, without=", ".join(without))
            )
        if opset < library().lowest:
            link = Link(
                State.PART,
                Message(
                    "{link.text}; exported at {lowest}, then converted", link=link, lowest=library().lowest
                ),
            )
    return link, writes


_ORDER = (State.NO, State.UNKNOWN, State.PART, State.YES)
_NO_RULE = Link(State.NO, "no rule")


@functools.cache
def _functional(base: str, overload_name: str) -> tuple[str, ...]:
    names = []
    for name in _overloads().get(base, ()):
        operator = overload(name)
        if operator is None or (overload_name and name.partition(".")[2] != overload_name):
            continue
        if not is_variant(operator) and _on_tensors(operator):
            names.append(name)
    return tuple(names)


def _on_tensors(operator: torch._ops.OpOverload) -> bool:
    """Whether an overload has tensors; TorchScript's overloads for Python numbers and lists have none."""
    values = (*operator._schema.arguments, *operator._schema.returns)
    return any("Tensor" in str(value.type) for value in values)


def _overload_rule(name: str, opset: int) -> tuple[Link, frozenset[str]]:
    """The link for one overload, and the operators that its rule or those of its parts write."""
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
        return Link(State.NO, Message("decomposes, but no rule for {listed}", listed=listed)), _NONE
    return Link(State.YES, Message("by decomposition: {listed}", listed=listed)), frozenset().union(
        *filter(None, ruled.values())
    )


def _part(part: str, opset: int) -> frozenset[str] | None:
    """The operators of a part's rule. If it works in place: of any overload of the operator that does not."""
    rules = library()
    writes = rules.rule(part, opset)
    base = part.partition(".")[0]
    if writes is None and base.endswith("_"):
        names = [name for name in rules.rules if name.partition(".")[0] == base.removesuffix("_")]
        return next(filter(None, (rules.rule(name, opset) for name in names)), None)
    return writes


def _base(name: str) -> str:
    return name.partition(".")[0].removeprefix("aten::")
