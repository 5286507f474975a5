"""What makes two calls of the TorchScript exporter the same call: for the recording of what it wrote.

A call is known by its cell and by its facts. The cell is that of the outermost notebook frame, compared
without comments, docstrings and prose, so that it is the same in every language. The facts are the options,
the kinds and shapes of the arguments, the modules with their attributes and the shapes of their state, every
piece of the learner's own code that the model reaches, and the symbolic functions that are registered.
Values of weights are no facts: a recorded file gets those of the model at hand.
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

__all__ = ["arguments", "calling_cell", "cell_digest", "digest", "facts", "own_cells", "own_rules", "state"]

_OUTPUT_OPTIONS = ("dynamo", "artifacts_dir")  # they say nothing about the model in the file
_UNNAMED = {"ctx", "kind", "type_comment", "type_params"}  # fields of ast that differ between Pythons


def digest(content: str | bytes) -> str:
    """Return 16 letters that stand for a content."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:16]


# The cell


@functools.cache
def cell_digest(source: str) -> str:
    """Return what stands for the code of a cell, whatever its comments, layout and prose.

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


def _skeleton(part: object) -> object:
    if isinstance(part, list):
        return [_skeleton(each) for each in part if not _is_docstring(each)]
    if isinstance(part, ast.JoinedStr):  # its literal parts are prose
        return [_skeleton(each) for each in part.values if isinstance(each, ast.FormattedValue)]
    if isinstance(part, ast.AST):
        fields = ((name, value) for name, value in ast.iter_fields(part) if name not in _UNNAMED)
        named = [(name, _skeleton(value)) for name, value in fields if value is not None and value != []]
        return [type(part).__name__, *named]
    return "" if _is_prose(part) else part


def _is_docstring(part: object) -> bool:
    constant = part.value if isinstance(part, ast.Expr) else None
    return isinstance(constant, ast.Constant) and isinstance(constant.value, str)


def _is_prose(value: object) -> bool:
    return isinstance(value, str) and (" " in value or not value.isascii())


def calling_cell(frame: FrameType | None) -> str:
    """Return the source of the cell from which a frame was called; empty if there is none.

    Without a cell that runs, as in a widget's callback, it is the cell that defined the callback.
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
    """Return what torch.onnx.export was given: the model, the example, the file, and the other options."""
    given = dict(zip(("model", "args", "f"), args, strict=False)) | options
    return given.pop("model", None), given.pop("args", None), given.pop("f", None), given


def facts(model: object, args: object, options: Mapping[str, Any]) -> dict[str, object]:
    """Return what a call is known by, as plain data that is the same on every machine."""
    modules = model.named_modules() if isinstance(model, torch.nn.Module) else ()
    return {
        "options": {
            key: _plain(value) for key, value in sorted(options.items()) if key not in _OUTPUT_OPTIONS
        },
        "args": _plain(args),
        "modules": [_described(name, module) for name, module in modules],
        "state": {name: _plain(tensor) for name, tensor in state(model).items()},
        "code": _Reached(model, options).listing(),
        "rules": sorted(
            f"{name} {opset} {_Reached(function).listing()}"
            for (name, opset), function in own_rules().items()
        ),
    }


def own_cells(model: object) -> set[str]:
    """Return the digests of the cells whose code a model reaches."""
    return _Reached(model).cells


def own_rules() -> dict[tuple[str, int], Any]:
    """Return the symbolic functions that the learner registered, by operator and opset."""
    try:  # private, and may be gone
        from torch.onnx._internal.torchscript_exporter.registration import registry
    except ImportError:
        return {}
    return {
        (name, opset): function
        for name, group in registry._registry.items()
        if not name.startswith("::")  # the exporter's own note of an autograd.Function with a symbolic method
        for opset, function in dict(group._functions._overrides).items()
    }


def state(model: object) -> dict[str, torch.Tensor]:
    """Return the parameters and buffers of a model that are ordinary tensors, by name."""
    try:
        tensors = model.state_dict()  # type: ignore[attr-defined]  # what has none is caught
    except Exception:  # quantised modules refuse in many ways
        return {}
    return {
        name: tensor
        for name, tensor in tensors.items()
        if type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and not tensor.is_quantized
    }


def _described(name: str, module: torch.nn.Module) -> list[object]:
    own = _script_words(module) if isinstance(module, torch.jit.ScriptModule) else vars(module)
    shown = {key: value for key, value in sorted(own.items()) if _is_plain(value) and key[0] != "_"}
    plain = {key: _plain(value) for key, value in shown.items()}
    kind = getattr(module, "original_name", type(module).__qualname__)
    return [name, kind, plain, getattr(module, "training", None)]


def _script_words(module: torch.jit.ScriptModule) -> dict[str, object]:
    """The plain attributes that a script reads; of a trace also its constants, and how often operators stand.

    A script's own operators are no facts: an export changes them in place. Its code is that of its class.
    """
    traced = type(module).__name__ == "TopLevelTracedModule"  # torch does not export the class
    found: Counter[str] = Counter()
    attributes: dict[str, object] = {}
    with suppress(Exception):  # a module without forward has no graph
        graph: Any = module.inlined_graph
        inside: list[Any] = list(module.modules())
        waiting = list(graph.nodes())
        while waiting:
            node = waiting.pop()
            waiting += [inner for block in node.blocks() for inner in block.nodes()]
            kind = node.kind()
            if kind == "prim::GetAttr" and (name := node.s("name")) != "training":
                values = [getattr(m, name) for m in inside if hasattr(m, "_c") and m._c.hasattr(name)]
                if plain := [_plain(value) for value in values if _is_plain(value)]:
                    attributes[name] = plain
            elif kind == "prim::Constant" and traced:
                with suppress(Exception):  # a constant of a kind that Python has not
                    found[repr(_plain(node.output().toIValue()))] = 1  # an export may pool or copy them
            elif traced and (kind.startswith("aten::") or kind in ("prim::Loop", "prim::If")):
                found[kind] += 1
    return {**attributes, **found}


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str | None)


def _plain(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bool | int | str | None) and not isinstance(value, Enum):
        return value
    if isinstance(value, torch.onnx.TrainingMode | torch.onnx.OperatorExportTypes):
        return str(value)
    return getattr(value, "__name__", type(value).__name__)


# The learner's own code


class _Reached:
    """The learner's own functions that objects lead to.

    Attributes:
        code: For each function the digest of its cell or file, its name and its place there; for one without
            source the names and numbers in it.
        cells: The digests that belong to cells, and not to files.
    """

    def __init__(self, *things: object) -> None:
        self.code: set[tuple[str, ...]] = set()
        self.cells: set[str] = set()
        self._seen: dict[int, object] = {}  # kept: a method is made anew at each look, with an id used before
        self._visit(things)

    def listing(self) -> list[str]:
        return sorted(map(repr, self.code))

    def _visit(self, thing: object) -> None:
        if id(thing) in self._seen:
            return
        self._seen[id(thing)] = thing
        if isinstance(thing, torch.nn.Module):
            self._visit_modules(thing)
        elif isinstance(thing, type):
            self._visit_class(thing)
        elif isinstance(thing, FunctionType):
            self._visit_function(thing)
        elif isinstance(thing, BuiltinFunctionType):
            self.code.add(("", thing.__name__))
        else:
            for inner in _inside(thing):
                self._visit(inner)

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
        else:  # it was made of a text, by eval
            names = {name for each in codes for name in each.co_names}
            values = (value for each in codes for value in each.co_consts if value is not None)
            constants = {repr(value) for value in values if _is_plain(value) and not _is_prose(value)}
            self.code.add(("", function.__qualname__, *sorted(names), *sorted(constants)))
        for closed in function.__closure__ or ():
            with suppress(ValueError):  # it has no value yet
                self._visit(closed.cell_contents)
        steps = (step for each in codes for step in dis.get_instructions(each))
        read = {step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        for name in read & function.__globals__.keys():
            value = function.__globals__[name]
            if _is_plain(value) and not _is_path(value):
                self.code.add(("", name, repr(_plain(value))))
            elif _is_own(getattr(value, "__module__", None)):
                self._visit(value)


def _inside(thing: object) -> Iterable[object]:
    if isinstance(thing, functools.partial):
        return [thing.func, *thing.args, *thing.keywords.values()]
    if isinstance(thing, dict):
        return thing.values()
    if isinstance(thing, list | tuple):
        return thing
    function = thing.fget if isinstance(thing, property) else getattr(thing, "__func__", None)
    return [function] if callable(function) else []


@functools.cache
def _first_lines(source: str) -> list[int]:
    """Where the functions of a source begin: with the first decorator."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    functions = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return [min([n.lineno, *(d.lineno for d in getattr(n, "decorator_list", ()))]) for n in functions]


def _nested(code: CodeType) -> list[CodeType]:
    """A function's code, and that of the functions inside it."""
    inner = [value for value in code.co_consts if isinstance(value, CodeType)]
    return [code, *(each for value in inner for each in _nested(value))]


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
