"""The second link: which rule each exporter has for an ATen operator at an opset."""

import functools
from dataclasses import dataclass

import torch

# torch has no public view of its registries.
from torch.onnx import _constants
from torch.onnx._internal.exporter import _constants as _torchlib
from torch.onnx._internal.exporter import _registration
from torch.onnx._internal.exporter._torchlib import _torchlib_registry
from torch.onnx._internal.torchscript_exporter import registration, utils

from onnxlab.facts.silence import silenced
from onnxlab.facts.support_parts import Parts, decompositions, parts_of, qualified
from onnxlab.facts.support_source import always_refuses, named_operators

__all__ = [
    "Library",
    "TorchScriptRule",
    "is_variant",
    "library",
    "overload",
    "torchscript_opsets",
    "torchscript_rule",
]


@dataclass(frozen=True)
class TorchScriptRule:
    """A symbolic function of the TorchScript exporter.

    Attributes:
        opset: The opset it was written for.
        refuses: Whether all it does is to raise.
        operators: The ONNX operators that its source names.
    """

    opset: int
    refuses: bool
    operators: frozenset[str]


def torchscript_opsets() -> tuple[range, range]:
    """Return the opsets that the TorchScript exporter has rules for, and those it writes with a warning.

    Example:
        >>> torchscript_opsets()
        (range(7, 21), range(21, 24))
    """
    last = _constants.ONNX_TORCHSCRIPT_EXPORTER_MAX_OPSET
    return range(_constants.ONNX_MIN_OPSET, last + 1), range(last + 1, _constants.ONNX_MAX_OPSET + 1)


def torchscript_rule(operator: str, opset: int) -> TorchScriptRule | None:
    """Return the rule in force for an operator at an opset.

    Args:
        operator: A name without overload, such as "aten::relu". `relu_` and `__rshift__` are looked up
            without their last underscore, as the exporter does.
        opset: The opset to export at.

    Example:
        >>> torchscript_rule("aten::erf", 20)
        TorchScriptRule(opset=9, refuses=False, operators=frozenset({'Erf'}))
        >>> torchscript_rule("aten::erf", 8).refuses, torchscript_rule("aten::asinh", 20)
        (True, None)
    """
    utils._trigger_symbolic_function_registration()
    group = registration.registry.get_function_group(operator.removesuffix("_"))
    if group is None:
        return None
    at = registration._dispatch_opset_version(opset, group._functions)
    return None if at is None else _read(group._functions[at], at)


@functools.cache
def _read(rule: object, opset: int) -> TorchScriptRule:
    return TorchScriptRule(opset, always_refuses(rule), named_operators(rule))


@dataclass(frozen=True)
class Library:
    """The rules of the torch.export exporter.

    Attributes:
        rules: For each overload ("aten::add.Tensor") the ONNX operators that its rule names, by the opset
            from which the rule is used.
        parts: For each overload that PyTorch can take apart what it consists of; None where that could not
            be found out.
        lowest: The opset of the oldest rules. An export below it is converted downwards afterwards.
    """

    rules: dict[str, dict[int, frozenset[str]]]
    parts: dict[str, Parts | None]
    lowest: int

    def rule(self, overload: str, opset: int) -> frozenset[str] | None:
        """Return the ONNX operators that the rule in force names; None if there is no rule.

        Example:
            >>> sorted(library().rule("aten::asinh", 20)), library().rule("aten::lgamma", 20)
            (['Asinh'], None)
        """
        since = [each for each in self.rules.get(overload, ()) if each <= max(opset, self.lowest)]
        return self.rules[overload][max(since)] if since else None


@functools.cache
def library() -> Library:
    """Read torchlib and run PyTorch's decompositions; seconds at the first call, nothing afterwards."""
    lowest = _torchlib.TORCHLIB_OPSET
    with silenced():  # torchlib logs a line for each operator of torchvision if that is not installed
        registry = _registration.ONNXRegistry.from_torchlib(lowest)
        newer = _torchlib_registry.get_torchlib_ops()
    rules: dict[str, dict[int, set[str]]] = {}
    for meta in [meta for metas in registry.functions.values() for meta in metas] + list(newer):
        if isinstance(meta.fx_target, torch._ops.OpOverload) and not meta.is_complex:
            named = rules.setdefault(qualified(meta.fx_target), {}).setdefault(meta.opset_introduced, set())
            named |= named_operators(meta.onnx_function)
    frozen = {name: {at: frozenset(named) for at, named in by.items()} for name, by in rules.items()}
    at_lowest = {name for name, by in frozen.items() if min(by) <= lowest}
    targets = _decomposable(at_lowest)
    table = decompositions(set(registry.functions) | _overloads(at_lowest))
    return Library(frozen, parts_of(targets, table, at_lowest), lowest)


def _overloads(names: set[str]) -> set[torch._ops.OpOverload]:
    return {found for name in names if (found := overload(name)) is not None}


def _decomposable(without: set[str]) -> list[torch._ops.OpOverload]:
    names = (name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))
    found = [overload(name) for name in sorted(names) if name not in without]
    return [each for each in found if each is not None and not is_variant(each)]


def is_variant(each: torch._ops.OpOverload) -> bool:
    """Whether an overload writes into an argument or takes dimension names; exporters see another form.

    Example:
        >>> is_variant(torch.ops.aten.relu_.default), is_variant(torch.ops.aten.relu.default)
        (True, False)
    """
    arguments = each._schema.arguments
    return any(a.alias_info is not None and a.alias_info.is_write for a in arguments) or any(
        "Dimname" in str(a.type) for a in arguments
    )


def overload(name: str) -> torch._ops.OpOverload | None:
    """Find an overload by its qualified name; None if PyTorch has none.

    Example:
        >>> overload("aten::add.Tensor"), overload("aten::no_such_thing")
        (<OpOverload(op='aten.add', overload='Tensor')>, None)
    """
    namespace, _, rest = name.partition("::")
    base, _, which = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return getattr(packet, which or "default", None)
