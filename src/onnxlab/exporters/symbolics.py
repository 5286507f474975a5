"""The TorchScript exporter's rules (symbolic functions): list them, and register one for a block only.

`torch.onnx.unregister_custom_op_symbolic` removes the function but leaves its empty group behind, and the
next export of that operator fails with an unrelated error. A symbolic function that calls
`g.onnxscript_op` registers a second operator. `symbolic` restores everything.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# torch's public functions add and remove a rule; only the registry itself can be read and restored.
from torch.onnx._internal.torchscript_exporter import registration, utils


def rule_opsets(operator: str) -> tuple[int, ...] | None:
    """Return the opsets at which the TorchScript exporter has a rule of its own for an operator.

    Args:
        operator: Its qualified name, such as "aten::relu".

    Returns:
        The opsets, smallest first; an empty tuple if the registry holds an empty group, which makes the
        next export fail; None if the registry does not know the operator.

    Example:
        >>> rule_opsets("aten::gelu"), rule_opsets("aten::asinh")
        ((9, 20), None)
    """
    utils._trigger_symbolic_function_registration()
    group = registration.registry.get_function_group(operator)
    return None if group is None else tuple(sorted(group._functions))


@contextmanager
def symbolic(operator: str, function: Callable[..., Any], opset: int = 9) -> Iterator[None]:
    """Register a symbolic function for the length of a block.

    Args:
        operator: Qualified name of the operator, such as "aten::asinh".
        function: Takes the graph and the operator's arguments, returns the new node's output.
        opset: The opset from which the rule holds.

    Example:
        >>> with symbolic("aten::asinh", lambda g, x: g.op("Asinh", x), opset=9):
        ...     rule_opsets("aten::asinh")
        (9,)
        >>> rule_opsets("aten::asinh") is None
        True
    """
    with restored_rules():
        utils.register_custom_op_symbolic(operator, function, opset)
        yield


@contextmanager
def restored_rules() -> Iterator[None]:
    """Restore every rule after the block, whatever the block registers or unregisters.

    Example:
        >>> import torch.onnx
        >>> with restored_rules():
        ...     torch.onnx.register_custom_op_symbolic("aten::relu6", lambda g, x: g.op("Neg", x), 13)
        ...     rule_opsets("aten::relu6")
        (9, 11, 13)
        >>> rule_opsets("aten::relu6")
        (9, 11)
    """
    utils._trigger_symbolic_function_registration()
    groups = registration.registry._registry
    before = [
        (name, group, dict(rules._base), dict(rules._overrides), dict(rules._merged))
        for name, group in groups.items()
        for rules in [group._functions]
    ]
    try:
        yield
    finally:
        groups.clear()
        for name, group, *parts in before:
            group._functions._base, group._functions._overrides, group._functions._merged = parts
            groups[name] = group
