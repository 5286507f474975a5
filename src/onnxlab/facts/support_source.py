"""Which ONNX operators a rule can write, read from its source.

A rule is a Python function with branches, so this is what it names, on any branch and in the functions it
calls; one export writes some of them.
"""

import ast
import functools
import importlib
import inspect
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx

__all__ = ["always_refuses", "named_operators", "original"]

_WRITTEN_AS = {
    ast.Add: "Add",
    ast.Sub: "Sub",
    ast.Mult: "Mul",
    ast.Div: "Div",
    ast.Pow: "Pow",
    ast.MatMult: "MatMul",
}
_DEEPEST = 6
_REFUSALS = ("_unimplemented", "_onnx_unsupported", "_onnx_opset_unsupported", "_block_list_in_opset")


def original(rule: Any) -> Callable[..., Any]:  # noqa: ANN401 - what the two registries hold has no common type
    """Return the Python function that somebody wrote, below decorators and wrappers.

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


def named_operators(rule: Any) -> frozenset[str]:  # noqa: ANN401
    """Return the ONNX operators of the default domain that a rule names.

    Args:
        rule: A symbolic function of the TorchScript exporter or a function of torchlib.

    Example:
        >>> from torch.onnx._internal.torchscript_exporter import symbolic_opset9
        >>> sorted(named_operators(symbolic_opset9.erf))
        ['Erf']
    """
    return _named(original(rule), 0)


def always_refuses(rule: Any) -> bool:  # noqa: ANN401
    """Whether a rule only raises: a registered way to say no.

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
    (only,) = statements
    if isinstance(only, ast.Raise):
        return True
    called = only.value if isinstance(only, ast.Return | ast.Expr) else None
    return isinstance(called, ast.Call) and any(ast.unparse(called.func).endswith(word) for word in _REFUSALS)


@functools.cache
def _known() -> frozenset[str]:
    schemas = onnx.defs.get_all_schemas_with_history()
    return frozenset(schema.name for schema in schemas if schema.domain == "")


@functools.cache
def _functions(file: str) -> dict[int, ast.FunctionDef]:
    """The functions of a file by the line of their first decorator, which is where their code begins."""
    tree = ast.parse(Path(file).read_text("utf-8"))
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return {min([node.lineno, *(part.lineno for part in node.decorator_list)]): node for node in found}


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
    # Several rules come from one function that is given the name: `_reduce_with_dtype("ReduceSum", "sum")`.
    outer = _outer(function) | _imported(node)
    found: set[str] = {value for value in outer.values() if _is_operator(value)}
    torchlib = "onnxscript" in function.__module__ or "_torchlib" in function.__module__
    for part in (p for statement in node.body for p in ast.walk(statement)):
        if torchlib:
            found |= _written_in_torchlib(part)
        elif isinstance(part, ast.Constant) and _is_operator(part.value):
            found.add(str(part.value))
        if isinstance(part, ast.Call):
            for called in _called(part, ChainMap(outer, function.__globals__)):
                found |= _named(called, depth + 1)
    return frozenset(found)


def _written_in_torchlib(part: ast.AST) -> set[str]:
    if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
        return {part.attr} if part.value.id.startswith("op") and part.attr in _known() else set()
    if isinstance(part, ast.BinOp):
        return {_WRITTEN_AS[type(part.op)]} if type(part.op) in _WRITTEN_AS else set()
    return set()


def _outer(function: Callable[..., Any]) -> dict[str, Any]:
    """The variables of the functions around it that a function uses."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells}


def _imported(node: ast.FunctionDef) -> dict[str, Any]:
    """The names that a function imports for itself, against a circle of imports."""
    found: dict[str, Any] = {}
    for part in ast.walk(node):
        if isinstance(part, ast.ImportFrom) and part.module and part.module.startswith("torch.onnx"):
            module = importlib.import_module(part.module)
            found |= {alias.asname or alias.name: getattr(module, alias.name, None) for alias in part.names}
    return found


def _is_operator(value: object) -> bool:
    return isinstance(value, str) and value in _known()


def _called(call: ast.Call, names: Mapping[str, Any]) -> Iterator[Callable[..., Any]]:
    """The functions of the exporters that a call reaches, as far as they can be told by name."""
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
