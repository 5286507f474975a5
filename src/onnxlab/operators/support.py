"""The four links from a PyTorch operator to a running model, read live from what is installed.

PyTorch has the operator; the exporter has a rule for it; ONNX defines what the rule writes; the runtime has a
kernel for that. The first link that is missing says what to mend.
"""

import functools
from dataclasses import dataclass

from onnxlab.exporters.export import Exporter
from onnxlab.operators.rules import torchscript_opsets, torchscript_rule
from onnxlab.operators.schemas import Link, State, kernel_link, readable_opsets, schema_link
from onnxlab.operators.torch_export import overloads, torch_export_rule

__all__ = ["Link", "State", "Support", "known_operators", "support"]


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
def known_operators() -> tuple[str, ...]:
    """Return every ATen operator that PyTorch or a registry of an exporter knows, without overloads.

    Example:
        >>> {"aten::asinh", "aten::relu_", "aten::__interpolate"} <= set(known_operators())
        True
    """
    return tuple(sorted(overloads()))


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
    base, _, which = operator.partition(".")
    if exporter is Exporter.TORCHSCRIPT:
        rule, writes = _torchscript(base, opset)
    else:
        rule, writes = torch_export_rule(base, which, opset)
    # Without a rule the next question is whether ONNX has something to translate to: the other rule's answer.
    known = writes or (_either(base) if rule.state is State.NO else frozenset())
    found = overloads().get(base)
    here = Link(State.YES, f"{len(found)} overloads" if len(found) > 1 else "yes") if found else _UNKNOWN_NAME
    return Support(here, rule, schema_link(known, opset), kernel_link(known, opset), tuple(sorted(writes)))


_UNKNOWN_NAME = Link(State.NO, "PyTorch has no such operator")
_NONE: frozenset[str] = frozenset()


def _torchscript(base: str, opset: int) -> tuple[Link, frozenset[str]]:
    ruled, warned = torchscript_opsets()
    if opset not in ruled and opset not in warned:
        return Link(State.NO, f"this exporter ends at opset {warned[-1]}"), _NONE
    rule = torchscript_rule(base, opset)
    if rule is None:
        return Link(State.NO, "no rule"), _NONE
    if rule.refuses:
        return Link(State.NO, "the rule only refuses"), _NONE
    text = f"rule of opset {rule.opset}"
    if opset in warned:
        return Link(State.PART, f"{text}, with a warning"), rule.operators
    return Link(State.YES, text), rule.operators


@functools.cache
def _either(base: str) -> frozenset[str]:
    """What the newest rule of either exporter names."""
    rule = torchscript_rule(base, torchscript_opsets()[0][-1])
    written = torch_export_rule(base, "", readable_opsets()[-1])[1]
    return written or (rule.operators if rule else _NONE)
