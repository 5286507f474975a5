"""The exporters' rules for an ATen operator at an opset, and the ONNX operators that a rule can write.

A rule is a Python function with branches. The operators that it can write are those that its source names, on
any branch and in the functions that it calls. One export writes some of them.
"""

import ast
import functools
import importlib
import inspect
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import torch

# torch has no public view of its registries.
from torch.onnx import _constants
from torch.onnx._internal.exporter import _constants as _torchlib
from torch.onnx._internal.torchscript_exporter import registration, utils

from measurements.atlas.parts import Parts, decompositions, parts_of, qualified
from onnxlab.exporters.silence import silenced


@dataclass(frozen=True)
class TorchScriptRule:
    """A symbolic function of the TorchScript exporter.

    Attributes:
        opset: The opset it was written for.
        refuses: Whether it does nothing but raise.
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
        parts: For each overload that PyTorch can decompose its parts; None if they could not be found.
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
        since = [start for start in self.rules.get(overload, ()) if start <= max(opset, self.lowest)]
        return self.rules[overload][max(since)] if since else None


@functools.cache
def library() -> Library:
    """Read torchlib and run PyTorch's decompositions; the first call takes seconds, later ones no time."""
    # These import onnxscript and sympy, which takes half a second.
    from torch.onnx._internal.exporter import _registration
    from torch.onnx._internal.exporter._torchlib import _torchlib_registry

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
    return {operator for name in names if (operator := overload(name)) is not None}


def _decomposable(without: set[str]) -> list[torch._ops.OpOverload]:
    names = (name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))
    operators = [overload(name) for name in sorted(names) if name not in without]
    return [operator for operator in operators if operator is not None and not is_variant(operator)]


def is_variant(operator: torch._ops.OpOverload) -> bool:
    """Whether an overload writes into an argument or takes dimension names; exporters use others.

    Example:
        >>> is_variant(torch.ops.aten.relu_.default), is_variant(torch.ops.aten.relu.default)
        (True, False)
    """
    arguments = operator._schema.arguments
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
    base, _, overload_name = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return getattr(packet, overload_name or "default", None)


_OPERATOR_OF_SIGN = {
    ast.Add: "Add",
    ast.Sub: "Sub",
    ast.Mult: "Mul",
    ast.Div: "Div",
    ast.Pow: "Pow",
    ast.MatMult: "MatMul",
}
_DEEPEST = 6
_REFUSALS = ("_unimplemented", "_onnx_unsupported", "_onnx_opset_unsupported", "_block_list_in_opset")


def original(rule: Any) -> Callable[..., Any]:
    """Return a rule's Python function, without decorators and wrappers.

    Example:
        >>> from torch.onnx._internal.torchscript_exporter import symbolic_opset9
        >>> original(symbolic_opset9.softplus).__name__
        'softplus'
    """
    for attribute in ("func", "function"):  # onnxscript's traced and scripted functions, functools.partial
        if callable(getattr(rule, attribute, None)):
            return original(getattr(rule, attribute))
    function: Callable[..., Any] = inspect.unwrap(rule)
    return function


def named_operators(rule: Any) -> frozenset[str]:
    """Return the ONNX operators of the default domain that a rule names.

    Args:
        rule: A symbolic function of the TorchScript exporter or a function of torchlib.

    Example:
        >>> from torch.onnx._internal.torchscript_exporter import symbolic_opset9
        >>> sorted(named_operators(symbolic_opset9.erf))
        ['Erf']
    """
    return _named(original(rule), 0)


def always_refuses(rule: Any) -> bool:
    """Whether a rule does nothing but raise: it is registered in order to refuse.

    Example:
        >>> from torch.onnx._internal.torchscript_exporter import symbolic_helper
        >>> always_refuses(symbolic_helper._block_list_in_opset("acos"))
        True
    """
    function = original(rule)
    if any(word in function.__qualname__ for word in _REFUSALS):
        return True
    node = _node(function)
    if node is None:
        return False
    statements = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    if len(statements) != 1:
        return False
    (statement,) = statements
    if isinstance(statement, ast.Raise):
        return True
    call = statement.value if isinstance(statement, ast.Return | ast.Expr) else None
    return isinstance(call, ast.Call) and any(ast.unparse(call.func).endswith(word) for word in _REFUSALS)


@functools.cache
def _onnx_operators() -> frozenset[str]:
    schemas = onnx.defs.get_all_schemas_with_history()
    return frozenset(schema.name for schema in schemas if schema.domain == "")


@functools.cache
def _functions(file: str) -> dict[int, ast.FunctionDef]:
    """The functions of a file by the line of their first decorator, where their code objects begin."""
    tree = ast.parse(Path(file).read_text("utf-8"))
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return {min([node.lineno, *(part.lineno for part in node.decorator_list)]): node for node in nodes}


def _node(function: Callable[..., Any]) -> ast.FunctionDef | None:
    code = getattr(function, "__code__", None)
    if code is None or not code.co_filename.endswith(".py"):
        return None
    return _functions(code.co_filename).get(code.co_firstlineno)


@functools.cache
def _named(function: Callable[..., Any], depth: int) -> frozenset[str]:
    node = _node(function)
    if node is None or depth > _DEEPEST:
        return frozenset()
    # Several rules come from one function that takes the name: `_reduce_with_dtype("ReduceSum", "sum")`.
    outer = _closure(function) | _imported(node)
    named: set[str] = {value for value in outer.values() if _is_operator(value)}
    torchlib = "onnxscript" in function.__module__ or "_torchlib" in function.__module__
    for part in (p for statement in node.body for p in ast.walk(statement)):
        if torchlib:
            named |= _named_in_torchlib(part)
        elif isinstance(part, ast.Constant) and _is_operator(part.value):
            named.add(str(part.value))
        if isinstance(part, ast.Call):
            for called in _called(part, ChainMap(outer, function.__globals__)):
                named |= _named(called, depth + 1)
    return frozenset(named)


def _named_in_torchlib(part: ast.AST) -> set[str]:
    if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
        return {part.attr} if part.value.id.startswith("op") and _is_operator(part.attr) else set()
    if isinstance(part, ast.BinOp):
        return {_OPERATOR_OF_SIGN[type(part.op)]} if type(part.op) in _OPERATOR_OF_SIGN else set()
    return set()


def _closure(function: Callable[..., Any]) -> dict[str, Any]:
    """The variables of enclosing functions that a function uses."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells}


def _imported(node: ast.FunctionDef) -> dict[str, Any]:
    """The names that a function imports in its body, in order to avoid circular imports."""
    names: dict[str, Any] = {}
    for part in ast.walk(node):
        if isinstance(part, ast.ImportFrom) and part.module and part.module.startswith("torch.onnx"):
            module = importlib.import_module(part.module)
            names |= {alias.asname or alias.name: getattr(module, alias.name, None) for alias in part.names}
    return names


def _is_operator(value: object) -> bool:
    return isinstance(value, str) and value in _onnx_operators()


def _called(call: ast.Call, names: Mapping[str, Any]) -> Iterator[Callable[..., Any]]:
    """The exporter's function that a call reaches, if its name leads to it."""
    path = ast.unparse(call.func).split(".")
    target = names.get(path[0])
    for name in path[1:]:
        target = getattr(target, name, None)
    if not callable(target) or isinstance(target, type):
        return
    target = original(target)
    module = getattr(target, "__module__", None) or ""
    if hasattr(target, "__code__") and module.startswith(("torch.onnx", "onnxscript.function_libs")):
        yield target
