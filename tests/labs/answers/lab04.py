"""Right and wrong answers for lab 4."""

import contextlib
import copy
from functools import partial

import onnx
import torch
from onnxscript import opset20 as op
from torch.onnx._internal.torchscript_exporter.registration import registry

from onnxlab.exporters.symbolics import rule_opsets, symbolic
from onnxlab.kit.status import Status
from tests.support.labs import Contract, WrongAnswer, solution

missing, asinh, translation, register = (
    partial(solution, name) for name in ("missing-rules", "asinh-symbolic", "asinh-translation", "safely-registered")
)
(asked_registry,), (cast_and_back,), (put_back,) = missing(), translation(), register()

# --- missing-rules ---


def asked_opsets(names, opset):
    return {name for name in names if min(rule_opsets(name) or [99]) > opset}


def asked_group(names, opset):
    groups = {name: registry.get_function_group(name) for name in names}
    return tuple(name for name, group in groups.items() if group is None or group.get(opset) is None)


def copied_list(names, opset, opsets={}):  # noqa: B006 - the answer remembers, on purpose
    for name in registry.all_functions() if not opsets else ():
        opsets[name] = min(rule_opsets(name) or [99])
    return [name for name in names if opsets.get(name, 99) > opset]


def minimum_of_nothing(names, opset):
    groups = {name: registry.get_function_group(name) for name in names}
    return [name for name, group in groups.items() if group is None or group.get_min_supported() > opset]


def emptying(names, opset):
    for name in list(names):
        if registry.is_registered_op(name, opset):
            names.remove(name)
    return names


# --- asinh-symbolic ---


def careful_decomposition(g, x):
    """Sign(x) * log(|x| + sqrt(x^2 + 1)); log(2|x|) where the square would overflow, a series near 0."""

    def number(value):
        return g.op("Constant", value_t=torch.tensor(value))

    size = g.op("Abs", x)
    square = g.op("Mul", g.op("Min", size, number(0.2)), g.op("Min", size, number(0.2)))
    inner = g.op("Sub", number(1 / 6), g.op("Mul", square, number(3 / 40)))
    series = g.op("Mul", size, g.op("Sub", number(1.0), g.op("Mul", square, inner)))
    small = g.op("Min", size, number(1e4))
    root = g.op("Sqrt", g.op("Add", g.op("Mul", small, small), number(1.0)))
    near = g.op("Log", g.op("Add", small, root))
    far = g.op("Add", g.op("Log", size), number(0.6931471805599453))
    result = g.op("Where", g.op("Greater", size, number(1e4)), far, near)
    result = g.op("Where", g.op("Less", size, number(0.1)), series, result)
    signed = g.op("Mul", g.op("Sign", x), result)
    return g.op("Where", g.op("IsNaN", x), x, signed)


def overflowing(g, x):
    one = g.op("Constant", value_t=torch.tensor(1.0))
    return g.op("Log", g.op("Add", x, g.op("Sqrt", g.op("Add", g.op("Mul", x, x), one))))


def nothing(g, x):
    g.op("Asinh", x)


# --- asinh-translation ---


def cast_where_needed(x):
    if x.dtype.value == onnx.TensorProto.DOUBLE:
        return op.Cast(op.Asinh(op.Cast(x, to=onnx.TensorProto.FLOAT)), to=onnx.TensorProto.DOUBLE)
    return op.Asinh(x)


def careful_translation(x):
    """As the logarithm of the size, and the number itself where that is tiny."""
    wide = op.Cast(x, to=onnx.TensorProto.DOUBLE)
    size = op.Abs(wide)
    result = op.Sign(wide) * op.Log(size + op.Sqrt(size * size + op.CastLike(1.0, size)))
    keep = op.Or(op.Or(op.IsNaN(wide), op.IsInf(wide)), op.Less(size, op.CastLike(1e-5, size)))
    return op.CastLike(op.Where(keep, wide, result), x)


def only_operator(x):
    return op.Asinh(x)


def overflowing_translation(x):
    return op.Log(x + op.Sqrt(x * x + op.CastLike(1.0, x)))


# --- safely-registered ---


def guarded(function, opset):
    def rule(g, *inputs, **attributes):
        if g.opset < opset:
            msg = f"the rule was written for opset {opset}"
            raise ValueError(msg)
        return function(g, *inputs, **attributes)

    return rule


def tool_of_the_course(operator, function, opset):
    return symbolic(operator, guarded(function, opset), opset)


def always_aten(operator, function, opset):
    return put_back(f"aten::{operator.partition('::')[2]}", function, opset)


@contextlib.contextmanager
def whole_registry(operator, function, opset):
    before = copy.deepcopy(registry._registry)
    torch.onnx.register_custom_op_symbolic(operator, guarded(function, opset), opset)
    try:
        yield
    finally:
        registry._registry.clear()
        registry._registry.update(before)


@contextlib.contextmanager
def ends_by(kind, operator, function, opset):
    """Swallows one kind of exception."""
    with contextlib.suppress(kind), put_back(operator, function, opset):
        yield


@contextlib.contextmanager
def drops_other_rules(operator, function, opset):
    """Removes every rule that is not the exporter's own."""
    with put_back(operator, function, opset):
        yield
    for name in ("asinh", "sinh", "acosh", "atanh", "cosh"):
        registry._registry.pop(f"aten::{name}", None) if f"aten::{name}" != operator else None


class OnePlace:
    """The earlier rules are kept in one place for all blocks."""

    def __init__(self, operator, function, opset):
        self.given = operator, guarded(function, opset), opset

    def __enter__(self):
        OnePlace.before = copy.deepcopy(registry._registry.get(self.given[0]))
        torch.onnx.register_custom_op_symbolic(*self.given)

    def __exit__(self, *error):
        registry._registry.pop(self.given[0], None)
        if OnePlace.before is not None:
            registry._registry[self.given[0]] = OnePlace.before


def no_context_manager(operator, function, opset):
    torch.onnx.register_custom_op_symbolic(operator, function, opset)
    yield


def never_ending(operator, function, opset):
    torch.onnx.register_custom_op_symbolic(operator, guarded(function, opset), opset)
    return contextlib.nullcontext()


# Pieces of the solutions, and what stands in their place.
_RULE, _NODE, _RESULT = "registry.is_registered_op(name, opset)", 'g.op("Asinh", x)', "op.CastLike(op.Asinh(single), x)"
_BEFORE, _RESTORED = "copy.deepcopy(registry._registry.get(operator))", "registry._registry[operator] = before"
_NOT_RESTORED = {"if before is not None": "if False"}
_POPPED, _UNREGISTERED = "registry._registry.pop(operator, None)", "torch.onnx.unregister_custom_op_symbolic(operator, opset)"

CONTRACTS = {
    "missing-rules": Contract(
        right=((asked_registry,), (asked_opsets,), (asked_group,)),
        wrong=(
            WrongAnswer("at any opset", missing({_RULE: "name in registry.all_functions()"}), "its first rule is for opset"),
            WrongAnswer("those with a rule", missing({"if not ": "if "}), "there is no rule"),
            WrongAnswer("a list made once", (copied_list,), "asked at every call"),
            WrongAnswer("PyTorch's operators only", missing({_RULE: f'(name[:6] == "aten::" and {_RULE})'}), "mine::operator"),
            WrongAnswer("nothing after opset 13", missing({"(name, opset)": "(name, min(opset, 13))"}), "counts from there on"),
            WrongAnswer("None where nothing is missing", missing({"opset)]": "opset)] or None"}), "returned None"),
            WrongAnswer("names without namespace", missing({"[name for": "[name.removeprefix('aten::') for"}), "was not asked about"),
            WrongAnswer("an empty group", (minimum_of_nothing,), "group.get_min_supported()", Status.ERROR),
            WrongAnswer("names within a text", missing({_RULE: f"name in str([name for name in registry.all_functions() if {_RULE}])"}), "there is no rule"),
            WrongAnswer("no later than opset 19", missing({"(name, opset)": "(name, min(opset, 19))"}), "20"),
            WrongAnswer("removes the others", (emptying,), "The list `names` was changed"),
            WrongAnswer("no names", (lambda names, opset: [1, None, [names]],), "holds '1'"),
        ),
    ),
    "asinh-symbolic": Contract(
        right=(asinh(), asinh({_NODE: "g.op('Identity', g.op('Asinh', g.op('Identity', x)))"}), (careful_decomposition,)),
        wrong=(
            WrongAnswer("a formula that overflows", (overflowing,), "where x is large"),
            WrongAnswer("another operator", asinh({"Asinh": "Atan"}), "by hand"),
            WrongAnswer("a misspelt operator", asinh({"Asinh": "ASinh"}), "No Op registered for ASinh"),
            WrongAnswer("nothing is returned", (nothing,), "nothing returned None"),
            WrongAnswer("an error", asinh({"g.op(": "g.opp("}), "has no attribute 'opp'", Status.ERROR),
            WrongAnswer("a constant", asinh({_NODE: "g.op('Constant', value_t=torch.asinh(torch.ones(2, 3)))"}), "shape"),
        ),
    ),
    "asinh-translation": Contract(
        right=((cast_and_back,), (cast_where_needed,), (careful_translation,)),
        wrong=(
            WrongAnswer("no kernel for float64", (only_operator,), "does not load"),
            WrongAnswer("float32 comes out", translation({_RESULT: "op.Asinh(single)"}), "torch gives float64, the runtime float32"),
            WrongAnswer("a formula that overflows", (overflowing_translation,), "intermediate values"),
            WrongAnswer("another operator", translation({"op.Asinh": "op.Sinh"}), "on the way"),
            WrongAnswer("a function of torch", translation({_RESULT: "torch.asinh(x)"}), "return torch.asinh(x)", Status.ERROR),
        ),
    ),
    "safely-registered": Contract(
        right=((put_back,), (tool_of_the_course,), (whole_registry,)),
        wrong=(
            WrongAnswer("an empty group stays", register({_POPPED: _UNREGISTERED, **_NOT_RESTORED}), "ValueError: min() "),
            WrongAnswer("the exporter's rule is popped as well", register(_NOT_RESTORED), "fails otherwise than before"),
            WrongAnswer("an overwritten rule is lost", register({_BEFORE: "registry._registry.get(operator)", _POPPED: f"{_UNREGISTERED}; {_POPPED}"}), "no longer counts"),
            WrongAnswer("an exception skips the end", register({"try:": "if True:", "finally:": "if True:"}), "After an exception"),
            WrongAnswer("exit() is swallowed", (partial(ends_by, SystemExit),), "exit() (SystemExit"),
            WrongAnswer("opset 9 whatever is asked", register({"rule, opset)": "rule, 9)", "g.opset < opset": "g.opset < 9"}), "was registered for opset"),
            WrongAnswer("other rules are dropped", (drops_other_rules,), "of another operator"),
            WrongAnswer("one place for all blocks", (OnePlace,), "After two nested blocks"),
            WrongAnswer("Asinh stamped with opset 8", register({"g.opset < opset": "False"}), "also used at opset 7"),
            WrongAnswer("the rule stays", (never_ending,), "uses the rule already"),
            WrongAnswer("nothing is registered", register({"torch.onnx.register_custom_op_symbolic(operator, rule, opset)": "pass"}), "is not supported"),
            WrongAnswer("another opset", register({"rule, opset)": "rule, opset + 1)"}), "added in version 10"),
            WrongAnswer("one of several rules is back", register({_BEFORE: "registry._registry[operator].get(opset) if operator in registry._registry else None", _RESTORED: "torch.onnx.register_custom_op_symbolic(operator, before, opset)"}), "fails otherwise than before"),
            WrongAnswer("another namespace", (always_aten,), "unrecognized namespace"),
            WrongAnswer("no later opset", register({"g.opset < opset": "g.opset != opset"}), "ValueError", Status.ERROR),
            WrongAnswer("a bare generator", (no_context_manager,), "a context manager was expected"),
        ),
    ),
}
