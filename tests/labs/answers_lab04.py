"""Right and wrong answers for lab 4."""

import contextlib
import copy

import onnx
import torch
from lab_answers import Contract, WrongAnswer
from onnxscript import opset20 as op
from torch.onnx._internal.torchscript_exporter.registration import registry

from onnxlab.facts.symbolics import rule_opsets, symbolic
from onnxlab.labs.outcome import Status

# --- missing-rules ---


def asked_registry(names, opset):
    return [name for name in names if not registry.is_registered_op(name, opset)]


def asked_opsets(names, opset):
    return {name for name in names if min(rule_opsets(name) or [99]) > opset}


def asked_group(names, opset):
    groups = {name: registry.get_function_group(name) for name in names}
    return tuple(name for name, group in groups.items() if group is None or group.get(opset) is None)


def any_opset(names, opset):
    return [name for name in names if name not in registry.all_functions()]


def that_very_opset(names, opset):
    return [name for name in names if opset not in (rule_opsets(name) or ())]


def other_way_round(names, opset):
    return [name for name in names if registry.is_registered_op(name, opset)]


def copied_list(names, opset, known={}):  # noqa: B006 - the answer remembers, on purpose
    for name in registry.all_functions() if not known else ():
        known[name] = min(rule_opsets(name) or [99])
    return [name for name in names if known.get(name, 99) > opset]


def without_namespace(names, opset):
    return [name.removeprefix("aten::") for name in asked_registry(names, opset)]


def minimum_of_nothing(names, opset):
    groups = {name: registry.get_function_group(name) for name in names}
    return [name for name, group in groups.items() if group is None or group.get_min_supported() > opset]


def numbers(names, opset):
    return [1, None, [names]]


# --- asinh-symbolic ---


def one_operator(g, x):
    return g.op("Asinh", x)


def between_others(g, x):
    return g.op("Identity", g.op("Asinh", g.op("Identity", x)))


def careful_decomposition(g, x):
    """Sign(x) * log(|x| + sqrt(x^2 + 1)), and log(2|x|) where the square would overflow."""

    def number(value):
        return g.op("Constant", value_t=torch.tensor(value))

    size = g.op("Abs", x)
    small = g.op("Min", size, number(1e4))
    root = g.op("Sqrt", g.op("Add", g.op("Mul", small, small), number(1.0)))
    near = g.op("Log", g.op("Add", small, root))
    far = g.op("Add", g.op("Log", size), number(0.6931471805599453))
    result = g.op("Where", g.op("Greater", size, number(1e4)), far, near)
    signed = g.op("Mul", g.op("Sign", x), result)
    return g.op("Where", g.op("IsNaN", x), x, signed)


def overflowing(g, x):
    one = g.op("Constant", value_t=torch.tensor(1.0))
    return g.op("Log", g.op("Add", x, g.op("Sqrt", g.op("Add", g.op("Mul", x, x), one))))


def other_operator(g, x):
    return g.op("Atan", x)


def misspelt(g, x):
    return g.op("ASinh", x)


def nothing(g, x):
    g.op("Asinh", x)


def no_such_method(g, x):
    return g.opp("Asinh", x)


def computed_in_python(g, x):
    return g.op("Constant", value_t=torch.asinh(torch.ones(2, 3)))


# --- asinh-translation ---


def cast_and_back(x):
    return op.CastLike(op.Asinh(op.Cast(x, to=onnx.TensorProto.FLOAT)), x)


def cast_where_needed(x):
    if x.dtype.value == onnx.TensorProto.DOUBLE:
        return op.Cast(op.Asinh(op.Cast(x, to=onnx.TensorProto.FLOAT)), to=onnx.TensorProto.DOUBLE)
    return op.Asinh(x)


def logarithm_of_size(x):
    wide = op.Cast(x, to=onnx.TensorProto.DOUBLE)
    size = op.Abs(wide)
    signed = op.Sign(wide) * op.Log(size + op.Sqrt(size * size + op.CastLike(1.0, size)))
    edge = op.Or(op.IsNaN(wide), op.IsInf(wide))
    return op.CastLike(op.Where(edge, wide, signed), x)


def only_operator(x):
    return op.Asinh(x)


def stays_float32(x):
    return op.Asinh(op.Cast(x, to=onnx.TensorProto.FLOAT))


def narrow_numbers(x):
    return op.CastLike(op.Cast(op.Asinh(op.Cast(x, to=1)), to=onnx.TensorProto.BFLOAT16), x)


def overflowing_translation(x):
    return op.Log(x + op.Sqrt(x * x + op.CastLike(1.0, x)))


def other_translation(x):
    return op.CastLike(op.Sinh(op.Cast(x, to=onnx.TensorProto.FLOAT)), x)


def torch_function(x):
    return torch.asinh(x)


# --- safely-registered ---


def guarded(function, opset):
    def rule(g, *inputs, **attributes):
        if g.opset < opset:
            msg = f"the rule was written for opset {opset}"
            raise ValueError(msg)
        return function(g, *inputs, **attributes)

    return rule


@contextlib.contextmanager
def put_back(operator, function, opset):
    groups = registry._registry
    before = copy.deepcopy(groups.get(operator))
    torch.onnx.register_custom_op_symbolic(operator, guarded(function, opset), opset)
    try:
        yield
    finally:
        groups.pop(operator, None)
        if before is not None:
            groups[operator] = before


def tool_of_the_course(operator, function, opset):
    return symbolic(operator, guarded(function, opset), opset)


class Replaced:
    """A group of its own for the length of the block; the old object is never touched."""

    def __init__(self, operator, function, opset):
        self.operator, self.rule, self.opset = operator, guarded(function, opset), opset

    def __enter__(self):
        self.before = registry._registry.pop(self.operator, None)
        if self.before is not None:
            registry._registry[self.operator] = copy.deepcopy(self.before)
        torch.onnx.register_custom_op_symbolic(self.operator, self.rule, self.opset)

    def __exit__(self, *error):
        del registry._registry[self.operator]
        if self.before is not None:
            registry._registry[self.operator] = self.before


@contextlib.contextmanager
def unregistered(operator, function, opset):
    torch.onnx.register_custom_op_symbolic(operator, guarded(function, opset), opset)
    try:
        yield
    finally:
        torch.onnx.unregister_custom_op_symbolic(operator, opset)


@contextlib.contextmanager
def popped(operator, function, opset):
    torch.onnx.register_custom_op_symbolic(operator, guarded(function, opset), opset)
    try:
        yield
    finally:
        registry._registry.pop(operator, None)


@contextlib.contextmanager
def same_object(operator, function, opset):
    """The group is kept, but not what is in it."""
    before = registry._registry.get(operator)
    torch.onnx.register_custom_op_symbolic(operator, guarded(function, opset), opset)
    try:
        yield
    finally:
        torch.onnx.unregister_custom_op_symbolic(operator, opset)
        registry._registry.pop(operator)
        if before is not None:
            registry._registry[operator] = before


@contextlib.contextmanager
def not_finally(operator, function, opset):
    before = copy.deepcopy(registry._registry.get(operator))
    torch.onnx.register_custom_op_symbolic(operator, guarded(function, opset), opset)
    yield
    registry._registry.pop(operator)
    if before is not None:
        registry._registry[operator] = before


@contextlib.contextmanager
def swallowing(operator, function, opset):
    with contextlib.suppress(Exception), put_back(operator, function, opset):
        yield


class OnePlace:
    """What was there before is kept in one place for all blocks."""

    def __init__(self, operator, function, opset):
        self.given = operator, guarded(function, opset), opset

    def __enter__(self):
        OnePlace.before = copy.deepcopy(registry._registry.get(self.given[0]))
        torch.onnx.register_custom_op_symbolic(*self.given)

    def __exit__(self, *error):
        registry._registry.pop(self.given[0], None)
        if OnePlace.before is not None:
            registry._registry[self.given[0]] = OnePlace.before


def stamped_with_opset_8(operator, function, opset):
    return symbolic(operator, function, opset)


def never_ending(operator, function, opset):
    torch.onnx.register_custom_op_symbolic(operator, guarded(function, opset), opset)
    return contextlib.nullcontext()


def nothing_registered(operator, function, opset):
    return contextlib.nullcontext()


def only_later(operator, function, opset):
    return symbolic(operator, guarded(function, opset), opset + 1)


def no_context_manager(operator, function, opset):
    torch.onnx.register_custom_op_symbolic(operator, function, opset)
    yield


CONTRACTS = {
    "missing-rules": Contract(
        right=((asked_registry,), (asked_opsets,), (asked_group,)),
        wrong=(
            WrongAnswer("at any opset", (any_opset,), "its first rule is for opset"),
            WrongAnswer("at that very opset", (that_very_opset,), "counts from there on"),
            WrongAnswer("those with a rule", (other_way_round,), "there is no rule"),
            WrongAnswer("a list made once", (copied_list,), "asked at every call"),
            WrongAnswer("names without namespace", (without_namespace,), "was not asked about"),
            WrongAnswer("an empty group", (minimum_of_nothing,), "group.get_min_supported()", Status.ERROR),
            WrongAnswer("no names", (numbers,), "holds '1'"),
        ),
    ),
    "asinh-symbolic": Contract(
        right=((one_operator,), (between_others,), (careful_decomposition,)),
        wrong=(
            WrongAnswer("a formula that overflows", (overflowing,), "large and negative"),
            WrongAnswer("another operator", (other_operator,), "by hand"),
            WrongAnswer("a misspelt operator", (misspelt,), "No Op registered for ASinh"),
            WrongAnswer("nothing is returned", (nothing,), "stage translate"),
            WrongAnswer("an error", (no_such_method,), "has no attribute 'opp'", Status.ERROR),
            WrongAnswer("a constant", (computed_in_python,), "shape"),
        ),
    ),
    "asinh-translation": Contract(
        right=((cast_and_back,), (cast_where_needed,), (logarithm_of_size,)),
        wrong=(
            WrongAnswer("no kernel for float64", (only_operator,), "does not load"),
            WrongAnswer("float32 comes out", (stays_float32,), "torch gives float64, the runtime float32"),
            WrongAnswer("a narrow type on the way", (narrow_numbers,), "float64[1, 1]"),
            WrongAnswer("a formula that overflows", (overflowing_translation,), "intermediate values"),
            WrongAnswer("another operator", (other_translation,), "on the way"),
            WrongAnswer("a function of torch", (torch_function,), "return torch.asinh(x)", Status.ERROR),
        ),
    ),
    "safely-registered": Contract(
        right=((put_back,), (tool_of_the_course,), (Replaced,)),
        wrong=(
            WrongAnswer("an empty group stays", (unregistered,), "ValueError: min() "),
            WrongAnswer("the exporter's rule is popped as well", (popped,), "fails otherwise than before"),
            WrongAnswer("an overwritten rule is lost", (same_object,), "no longer counts"),
            WrongAnswer("an exception skips the end", (not_finally,), "After an exception"),
            WrongAnswer("an exception is swallowed", (swallowing,), "did not come out"),
            WrongAnswer("one place for all blocks", (OnePlace,), "After two nested blocks"),
            WrongAnswer("Asinh stamped with opset 8", (stamped_with_opset_8,), "also used at opset 8"),
            WrongAnswer("the rule stays", (never_ending,), "still uses the rule"),
            WrongAnswer("nothing is registered", (nothing_registered,), "is not supported"),
            WrongAnswer("another opset", (only_later,), "added in version 10"),
            WrongAnswer("a bare generator", (no_context_manager,), "a context manager was expected"),
        ),
    ),
}
