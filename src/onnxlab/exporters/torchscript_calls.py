"""The identity of a call of the TorchScript exporter: what makes a new call equal to a recorded one.

A call is identified by its cell and its facts. The cell is that of the outermost notebook frame, compared
without comments, docstrings and prose, so that it is the same in every language. The facts are the options,
the kinds and shapes of the arguments, the modules with their attributes and the shapes of their state, all of
the learner's own code that the model reaches, and the symbolic functions that are registered. Values of
weights are not facts: a recorded file gets those of the model at hand.
"""

import ast
import dis
import functools
import hashlib
import linecache
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import Enum
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType
from typing import Any

import torch

__all__ = [
    "arguments",
    "calling_cell",
    "cell_digest",
    "digest",
    "facts",
    "reached_cells",
    "registered_rules",
    "state",
]

_OUTPUT_OPTIONS = ("dynamo", "artifacts_dir")  # they do not affect the model in the file
_IGNORED_FIELDS = {"ctx", "kind", "type_comment", "type_params"}  # fields of ast that differ between Pythons


def digest(content: str | bytes) -> str:
    """Return the first 16 digits of a content's SHA-256."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:16]


# The cell


@functools.cache
def cell_digest(source: str) -> str:
    """Return a digest of a cell's code, without its comments, layout and prose.

    Example:
        >>> cell_digest("x = 1  # one") == cell_digest("x = (1)") != cell_digest("x = 2")
        True
        >>> cell_digest("f('a prose text')") == cell_digest("f('another text')") != cell_digest("f('word')")
        True
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a magic
        return digest(source.strip())
    return digest(repr(_skeleton(tree)))


def _skeleton(node: object) -> object:
    if isinstance(node, list):
        return [_skeleton(child) for child in node if not _is_docstring(child)]
    if isinstance(node, ast.JoinedStr):  # its literal parts are prose
        return [_skeleton(part) for part in node.values if isinstance(part, ast.FormattedValue)]
    if isinstance(node, ast.AST):
        fields = ((name, value) for name, value in ast.iter_fields(node) if name not in _IGNORED_FIELDS)
        named = [(name, _skeleton(value)) for name, value in fields if value is not None and value != []]
        return [type(node).__name__, *named]
    return "" if _is_prose(node) else node


def _is_docstring(node: object) -> bool:
    constant = node.value if isinstance(node, ast.Expr) else None
    return isinstance(constant, ast.Constant) and isinstance(constant.value, str)


def _is_prose(value: object) -> bool:
    return isinstance(value, str) and (" " in value or not value.isascii())


def calling_cell(frame: FrameType | None) -> str:
    """Return the source of the cell from which a frame was called; empty if there is none.

    In a widget's callback, where no cell runs, it is the cell that defined the callback.
    """
    source, notebook = "", vars(sys.modules["__main__"])  # the kernel's own program is called __main__, too
    while frame is not None:
        if frame.f_globals is notebook:
            source = _source(frame.f_code) or source
        frame = frame.f_back
    return source


def _source(code: CodeType) -> str:
    return "".join(linecache.getlines(code.co_filename))


# The facts


def arguments(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Return the arguments of torch.onnx.export: the model, the example, the file, and the other options."""
    named = dict(zip(("model", "args", "f"), args, strict=False)) | options
    return named.pop("model", None), named.pop("args", None), named.pop("f", None), named


def facts(model: object, args: object, options: Mapping[str, Any]) -> dict[str, object]:
    """Return the facts that identify a call, as plain data that is the same on every machine."""
    modules = model.named_modules() if isinstance(model, torch.nn.Module) else ()
    return {
        "options": {
            key: _plain(value) for key, value in sorted(options.items()) if key not in _OUTPUT_OPTIONS
        },
        "args": _plain(args),
        "modules": [_module_facts(name, module) for name, module in modules],
        "state": {name: _plain(tensor) for name, tensor in state(model).items()},
        "code": _ReachedCode(model, options).listing(),
        "rules": sorted(
            f"{name} {opset} {_ReachedCode(function).listing()}"
            for (name, opset), function in registered_rules().items()
        ),
    }


def reached_cells(model: object) -> set[str]:
    """Return the digests of the cells whose code a model reaches."""
    return _ReachedCode(model).cells


def registered_rules() -> dict[tuple[str, int], Any]:
    """Return the symbolic functions that the learner registered, by operator and opset."""
    try:  # private, and may be gone
        from torch.onnx._internal.torchscript_exporter.registration import registry
    except ImportError:
        return {}
    return {
        (name, opset): function
        for name, group in registry._registry.items()
        if not name.startswith("::")  # the exporter's entry for an autograd.Function with a symbolic method
        for opset, function in dict(group._functions._overrides).items()
    }


def state(model: object) -> dict[str, torch.Tensor]:
    """Return the parameters and buffers of a model that are ordinary tensors, by name."""
    try:
        tensors = model.state_dict()  # type: ignore[attr-defined]  # a model without one is caught
    except Exception:  # quantised modules raise many kinds
        return {}
    return {
        name: tensor
        for name, tensor in tensors.items()
        if type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and not tensor.is_quantized
    }


def _module_facts(name: str, module: torch.nn.Module) -> list[object]:
    attributes = _script_attributes(module) if isinstance(module, torch.jit.ScriptModule) else vars(module)
    public = {key: value for key, value in sorted(attributes.items()) if key[0] != "_"}
    plain = {key: _plain(value) for key, value in public.items() if _is_plain(value)}
    kind = getattr(module, "original_name", type(module).__qualname__)
    return [name, kind, plain, getattr(module, "training", None)]


def _script_attributes(module: torch.jit.ScriptModule) -> dict[str, object]:
    """The plain attributes that a script reads; of a trace also its constants, and how often operators occur.

    A script's own operators are not facts: an export changes them in place. Its code is that of its class.
    """
    traced = type(module).__name__ == "TopLevelTracedModule"  # torch does not export the class
    counts: Counter[str] = Counter()
    attributes: dict[str, object] = {}
    with suppress(Exception):  # a module without forward has no graph
        graph: Any = module.inlined_graph
        modules: list[Any] = list(module.modules())
        pending = list(graph.nodes())
        while pending:
            node = pending.pop()
            pending += [inner for block in node.blocks() for inner in block.nodes()]
            kind = node.kind()
            if kind == "prim::GetAttr" and (name := node.s("name")) != "training":
                values = [getattr(m, name) for m in modules if hasattr(m, "_c") and m._c.hasattr(name)]
                if plain := [_plain(value) for value in values if _is_plain(value)]:
                    attributes[name] = plain
            elif kind == "prim::Constant" and traced:
                with suppress(Exception):  # a constant of a kind that Python does not have
                    counts[repr(_plain(node.output().toIValue()))] = 1  # an export may pool or copy them
            elif traced and (kind.startswith("aten::") or kind in ("prim::Loop", "prim::If")):
                counts[kind] += 1
    return {**attributes, **counts}


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str | None)


def _plain(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bool | int | str | None) and not isinstance(value, Enum):
        return value
    if isinstance(value, torch.onnx.TrainingMode | torch.onnx.OperatorExportTypes):
        return str(value)
    return getattr(value, "__name__", type(value).__name__)


# The learner's own code


class _ReachedCode:
    """The learner's own code that can be reached from objects.

    Attributes:
        code: For each function the digest of its cell or file, its name and its place there; for one without
            source the names and numbers in it.
        cells: The digests of cells, without those of files.
    """

    def __init__(self, *roots: object) -> None:
        self.code: set[tuple[str, ...]] = set()
        self.cells: set[str] = set()
        # By id. The objects are held, because the id of one that is gone, as a bound method, is used again.
        self._visited: dict[int, object] = {}
        self._visit(roots)

    def listing(self) -> list[str]:
        return sorted(map(repr, self.code))

    def _visit(self, value: object) -> None:
        if id(value) in self._visited:
            return
        self._visited[id(value)] = value
        if isinstance(value, torch.nn.Module):
            self._visit_modules(value)
        elif isinstance(value, type):
            self._visit_class(value)
        elif isinstance(value, FunctionType):
            self._visit_function(value)
        elif isinstance(value, BuiltinFunctionType):
            self.code.add(("", value.__name__))
        else:
            for part in _parts(value):
                self._visit(part)

    def _visit_modules(self, model: torch.nn.Module) -> None:
        notebook = vars(sys.modules["__main__"])
        for module in model.modules():
            if isinstance(module, torch.jit.ScriptModule):
                self._visit(notebook.get(getattr(module, "original_name", "")))
                continue
            self._visit(type(module))
            for value in vars(module).values():
                if callable(value):
                    self._visit(value)

    def _visit_class(self, kind: type) -> None:
        if not _is_own(kind.__module__):
            return
        for name, value in list(vars(kind).items()):
            if not name.startswith("_") and _is_plain(value) and not _is_path(value):
                self.code.add(("", kind.__qualname__, name, repr(_plain(value))))
            self._visit(value)
        for base in kind.__mro__[1:]:
            self._visit(base)

    def _visit_function(self, function: FunctionType) -> None:
        if not _is_own(function.__globals__.get("__name__")):  # __module__ may be that of a function it wraps
            self.code.add(("", function.__name__))
            self._visit(getattr(function, "__wrapped__", None))
            return
        code = function.__code__
        codes = _nested(code)
        if source := _source(code):
            cell = cell_digest(source)
            if function.__module__ == "__main__":
                self.cells.add(cell)
            place = sum(line < code.co_firstlineno for line in _first_lines(source))
            self.code.add((cell, function.__qualname__, str(place)))
        else:  # a function without source, as eval makes one
            names = {name for inner in codes for name in inner.co_names}
            values = (value for inner in codes for value in inner.co_consts if value is not None)
            constants = {repr(value) for value in values if _is_plain(value) and not _is_prose(value)}
            self.code.add(("", function.__qualname__, *sorted(names), *sorted(constants)))
        for variable in function.__closure__ or ():
            with suppress(ValueError):  # it has no value yet
                self._visit(variable.cell_contents)
        instructions = (instruction for inner in codes for instruction in dis.get_instructions(inner))
        read = {i.argval for i in instructions if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        for name in read & function.__globals__.keys():
            value = function.__globals__[name]
            if _is_plain(value) and not _is_path(value):
                self.code.add(("", name, repr(_plain(value))))
            elif _is_own(getattr(value, "__module__", None)):
                self._visit(value)


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list | tuple):
        return value
    function = value.fget if isinstance(value, property) else getattr(value, "__func__", None)
    return [function] if callable(function) else []


@functools.cache
def _first_lines(source: str) -> list[int]:
    """The first line of each function in a source: that of its first decorator, if it has one."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    functions = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return [min([n.lineno, *(d.lineno for d in getattr(n, "decorator_list", ()))]) for n in functions]


def _nested(code: CodeType) -> list[CodeType]:
    """The code of a function and of the functions defined in it."""
    functions = [value for value in code.co_consts if isinstance(value, CodeType)]
    return [code, *(inner for function in functions for inner in _nested(function))]


def _is_path(value: object) -> bool:
    return "/" in str(value) or "\\" in str(value)


def _is_own(module: str | None) -> bool:
    """Whether somebody may change this module's code while the course runs."""
    if module is None or module == "__main__":
        return True
    top = module.partition(".")[0]
    if top == "onnxlab" or top in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(top), "__file__", None) or "site-packages"  # built in
    return "site-packages" not in file and "dist-packages" not in file
