"""Right and wrong answers for lab 4."""

import contextlib
import copy
import functools

import onnx
import torch
from onnxscript import opset20 as op
from torch.onnx._internal.torchscript_exporter.registration import registry

from onnxlab.exporters.symbolics import rule_opsets, symbolic
from onnxlab.labs.kit.outcome import Status
from tests.support.labs import Contract, WrongAnswer

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


def copied_list(names, opset, opsets={}):  # noqa: B006 - the answer remembers, on purpose
    for name in registry.all_functions() if not opsets else ():
        opsets[name] = min(rule_opsets(name) or [99])
    return [name for name in names if opsets.get(name, 99) > opset]


@functools.cache
def _cached(names, opset):
    return asked_registry(names, opset)


def remembered(names, opset):
    return list(_cached(tuple(names), opset))


@functools.cache
def _cached_name(name, opset):
    return registry.is_registered_op(name, opset)


def remembered_by_name(names, opset):
    return [name for name in names if not _cached_name(name, opset)]


def remembered_rules(names, opset, has=set()):  # noqa: B006 - the answer remembers, on purpose
    """Remembers what has a rule, asks for the rest."""
    has |= {(name, opset) for name in names if registry.is_registered_op(name, opset)}
    return [name for name in names if (name, opset) not in has]


def aten_only(names, opset):
    return [name for name in names if not (name[:6] == "aten::" and registry.is_registered_op(name, opset))]


def older_opsets(names, opset):
    """Asks for opset 13 where a later one is asked for."""
    return asked_registry(names, min(opset, 13))


def none_for_none(names, opset):
    return asked_registry(names, opset) or None


def without_namespace(names, opset):
    return [name.removeprefix("aten::") for name in asked_registry(names, opset)]


def minimum_of_nothing(names, opset):
    groups = {name: registry.get_function_group(name) for name in names}
    return [name for name, group in groups.items() if group is None or group.get_min_supported() > opset]


def numbers(names, opset):
    return [1, None, [names]]


def in_a_text(names, opset):
    """Looks for the names in a text, where they can be a part of another one."""
    rules = str([name for name in registry.all_functions() if registry.is_registered_op(name, opset)])
    return [name for name in names if name not in rules]


def without_namespaces(names, opset):
    rules = {name.partition("::")[2] for name in names if registry.is_registered_op(name, opset)}
    return [name for name in names if name.partition("::")[2] not in rules]


def emptying(names, opset):
    for name in list(names):
        if registry.is_registered_op(name, opset):
            names.remove(name)
    return names


def kept_while_as_many():
    """Asks again only if the number of groups has changed."""
    rules = {}

    def missing_rules(names, opset):
        count = len(registry.all_functions())
        return [
            name
            for name in names
            if not rules.setdefault((count, name, opset), registry.is_registered_op(name, opset))
        ]

    return missing_rules


# --- asinh-symbolic ---


def first_result_kept():
    results = []

    def asinh_symbolic(g, x):
        results.append(g.op("Asinh", x))
        return results[0]

    return asinh_symbolic


def one_operator(g, x):
    return g.op("Asinh", x)


def between_others(g, x):
    return g.op("Identity", g.op("Asinh", g.op("Identity", x)))


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


def signed_logarithm(g, x, largest=1e4, smallest=0.0):
    """The logarithm of the size, with the sign: 0 for what is tiny; no more than `largest`."""

    def number(value):
        return g.op("Constant", value_t=torch.tensor(value))

    size = g.op("Abs", x)
    small = g.op("Min", size, number(largest))
    root = g.op("Sqrt", g.op("Add", g.op("Mul", small, small), number(1.0)))
    near = g.op("Log", g.op("Add", small, root))
    far = g.op("Add", g.op("Log", size), number(0.6931471805599453))
    result = g.op("Where", g.op("Greater", size, number(largest)), far, near)
    result = g.op("Where", g.op("Less", size, number(smallest)), size, result)
    return g.op("Where", g.op("IsNaN", x), x, g.op("Mul", g.op("Sign", x), result))


def linear_below_a_millionth(g, x):
    return signed_logarithm(g, x, smallest=1e-6)


def clipped(g, x):
    """Right up to 1e30, the largest number that is tried by hand."""
    finite = g.op("Asinh", g.op("Clip", x, min_f=-1e30, max_f=1e30))
    infinite = g.op(
        "Equal",
        g.op("Cast", g.op("IsInf", x), to_i=6),
        g.op("Constant", value_t=torch.tensor(1, dtype=torch.int32)),
    )
    return g.op("Where", infinite, x, finite) if g.opset > 9 else finite


def flushed(g, x):
    """Treats what is smaller than 1e-20 as 0."""
    tiny = g.op("Less", g.op("Abs", x), g.op("Constant", value_t=torch.tensor(1e-20)))
    return g.op("Asinh", g.op("Where", tiny, g.op("Constant", value_t=torch.tensor(0.0)), x))


def doubled_on_the_way(g, x):
    """2 * asinh(x) by a square: overflows beyond 1e19."""
    squared = g.op(
        "Mul", x, g.op("Sqrt", g.op("Add", g.op("Mul", x, x), g.op("Constant", value_t=torch.tensor(1.0))))
    )
    half = g.op("Constant", value_t=torch.tensor(0.5))
    return g.op("Mul", half, g.op("Asinh", g.op("Mul", squared, g.op("Constant", value_t=torch.tensor(2.0)))))


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


def careful_translation(x):
    """As the logarithm of the size, and the number itself where that is tiny."""
    wide = op.Cast(x, to=onnx.TensorProto.DOUBLE)
    size = op.Abs(wide)
    result = op.Sign(wide) * op.Log(size + op.Sqrt(size * size + op.CastLike(1.0, size)))
    keep = op.Or(op.Or(op.IsNaN(wide), op.IsInf(wide)), op.Less(size, op.CastLike(1e-5, size)))
    return op.CastLike(op.Where(keep, wide, result), x)


def every_second_call():
    calls = []

    def asinh_translation(x):
        calls.append(x)
        return only_operator(x) if len(calls) % 2 == 1 else cast_and_back(x)

    return asinh_translation


def all_but_the_first_call():
    calls = []

    def asinh_translation(x):
        calls.append(x)
        return only_operator(x) if len(calls) == 1 else cast_and_back(x)

    return asinh_translation


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


class RegisteredWhenMade(Replaced):
    """Registers the rule before the block begins."""

    def __init__(self, operator, function, opset):
        super().__init__(operator, function, opset)
        super().__enter__()

    def __enter__(self):
        pass


class SnapshotWhenMade:
    """Keeps what the registry held when the object was made."""

    def __init__(self, operator, function, opset):
        self.given = operator, guarded(function, opset), opset
        self.before = copy.deepcopy(registry._registry.get(operator))

    def __enter__(self):
        torch.onnx.register_custom_op_symbolic(*self.given)

    def __exit__(self, *error):
        registry._registry.pop(self.given[0], None)
        if self.before is not None:
            registry._registry[self.given[0]] = self.before


@contextlib.contextmanager
def one_rule_back(operator, function, opset):
    """Of several rules of the operator, one comes back."""
    group = registry._registry.get(operator)
    rule = group.get(opset) if group else None
    torch.onnx.register_custom_op_symbolic(operator, guarded(function, opset), opset)
    try:
        yield
    finally:
        registry._registry.pop(operator)
        if rule is not None:
            torch.onnx.register_custom_op_symbolic(operator, rule, opset)


def always_aten(operator, function, opset):
    return put_back(f"aten::{operator.partition('::')[2]}", function, opset)


def two_inputs_at_most(operator, function, opset):
    return put_back(operator, lambda g, x, y=None: function(g, x) if y is None else function(g, x, y), opset)


def at_that_opset(operator, function, opset):
    def rule(g, *inputs):
        if g.opset > opset:
            raise ValueError(g.opset)
        return function(g, *inputs)

    return put_back(operator, rule, opset)


@contextlib.contextmanager
def over_later_rules(operator, function, opset):
    with contextlib.ExitStack() as blocks:
        for later in range(opset, 21):
            blocks.enter_context(put_back(operator, guarded(function, opset), later))
        yield


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
    """The group is kept, but not its contents."""
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
def only_exceptions(operator, function, opset):
    """Restores the rules after an Exception, but not after Ctrl+C or exit()."""
    before = copy.deepcopy(registry._registry.get(operator))

    def restore():
        registry._registry.pop(operator, None)
        if before is not None:
            registry._registry[operator] = before

    torch.onnx.register_custom_op_symbolic(operator, guarded(function, opset), opset)
    try:
        yield
    except Exception:
        restore()
        raise
    else:
        restore()


@contextlib.contextmanager
def ends_by(kind, operator, function, opset):
    """Swallows one kind of exception."""
    with contextlib.suppress(kind), put_back(operator, function, opset):
        yield


@contextlib.contextmanager
def another_exception(operator, function, opset):
    try:
        with put_back(operator, function, opset):
            yield
    except BaseException as error:
        msg = "the block failed"
        raise RuntimeError(msg) from error


@contextlib.contextmanager
def popped_after_an_error(operator, function, opset):
    """After an exception all rules of the operator are gone, older ones too."""
    try:
        with put_back(operator, function, opset):
            yield
    except BaseException:
        registry._registry.pop(operator, None)
        raise


def always_nine(operator, function, opset):
    return put_back(operator, function, 9)


def one_input(operator, function, opset):
    """Passes one input on, and drops the others."""
    return put_back(operator, lambda g, x: function(g, x), opset)


@contextlib.contextmanager
def drops_other_rules(operator, function, opset):
    """Removes every rule that is not the exporter's own."""
    with put_back(operator, function, opset):
        yield
    for name in ("asinh", "sinh", "acosh", "atanh", "cosh"):
        registry._registry.pop(f"aten::{name}", None) if f"aten::{name}" != operator else None


@contextlib.contextmanager
def swallowing(operator, function, opset):
    with contextlib.suppress(Exception), put_back(operator, function, opset):
        yield


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
            WrongAnswer("remembers questions", (remembered,), "asked at every call"),
            WrongAnswer("remembers names", (remembered_by_name,), "asked at every call"),
            WrongAnswer("remembers what has a rule", (remembered_rules,), "asked at every call"),
            WrongAnswer("PyTorch's operators only", (aten_only,), "mine::operator"),
            WrongAnswer("nothing after opset 13", (older_opsets,), "counts from there on"),
            WrongAnswer("None where nothing is missing", (none_for_none,), "returned None"),
            WrongAnswer("names without namespace", (without_namespace,), "was not asked about"),
            WrongAnswer("an empty group", (minimum_of_nothing,), "group.get_min_supported()", Status.ERROR),
            WrongAnswer("names within a text", (in_a_text,), "there is no rule"),
            WrongAnswer("whatever the namespace", (without_namespaces,), "there is no rule"),
            WrongAnswer("no later than opset 19", (lambda names, opset: asked_registry(names, min(opset, 19)),), "20"),
            WrongAnswer("asks again for another number", (kept_while_as_many(),), "asked at every call"),
            WrongAnswer("removes the others", (emptying,), "The list `names` was changed"),
            WrongAnswer("no names", (numbers,), "holds '1'"),
        ),
    ),
    "asinh-symbolic": Contract(
        right=((one_operator,), (between_others,), (careful_decomposition,)),
        wrong=(
            WrongAnswer("a formula that overflows", (overflowing,), "where x is large"),
            WrongAnswer("0 for what is tiny", (signed_logarithm,), "where x is tiny"),
            WrongAnswer("exact below a millionth only", (linear_below_a_millionth,), "where x is tiny"),
            WrongAnswer("no number beyond 1e30", (clipped,), "where x is large"),
            WrongAnswer("0 below 1e-20", (flushed,), "where x is tiny"),
            WrongAnswer("a square on the way", (doubled_on_the_way,), "where x is large"),
            WrongAnswer("another operator", (other_operator,), "by hand"),
            WrongAnswer("a misspelt operator", (misspelt,), "No Op registered for ASinh"),
            WrongAnswer("nothing is returned", (nothing,), "nothing returned None"),
            WrongAnswer("an error", (no_such_method,), "has no attribute 'opp'", Status.ERROR),
            WrongAnswer("a constant", (computed_in_python,), "shape"),
            WrongAnswer("the first result for all", (first_result_kept(),), "row 0, column 0 of output"),
        ),
    ),
    "asinh-translation": Contract(
        right=((cast_and_back,), (cast_where_needed,), (careful_translation,)),
        wrong=(
            WrongAnswer("no kernel for float64", (only_operator,), "does not load"),
            WrongAnswer("float32 comes out", (stays_float32,), "torch gives float64, the runtime float32"),
            WrongAnswer("a narrow type on the way", (narrow_numbers,), "float64[1, 1]"),
            WrongAnswer("a formula that overflows", (overflowing_translation,), "intermediate values"),
            WrongAnswer("0 for what is tiny", (logarithm_of_size,), "how small"),
            WrongAnswer("every second call", (every_second_call(),), "does not load"),
            WrongAnswer("all but the first call", (all_but_the_first_call(),), "does not load"),
            WrongAnswer("another operator", (other_translation,), "on the way"),
            WrongAnswer("a function of torch", (torch_function,), "return torch.asinh(x)", Status.ERROR),
        ),
    ),
    "safely-registered": Contract(
        right=((put_back,), (tool_of_the_course,), (Replaced,), (over_later_rules,), (whole_registry,)),
        wrong=(
            WrongAnswer("an empty group stays", (unregistered,), "ValueError: min() "),
            WrongAnswer("the exporter's rule is popped as well", (popped,), "fails otherwise than before"),
            WrongAnswer("an overwritten rule is lost", (same_object,), "no longer counts"),
            WrongAnswer("an exception skips the end", (not_finally,), "After an exception"),
            WrongAnswer("an exception is swallowed", (swallowing,), "did not come out"),
            WrongAnswer("Ctrl+C skips the end", (only_exceptions,), "After Ctrl+C"),
            WrongAnswer("Ctrl+C is swallowed", (functools.partial(ends_by, KeyboardInterrupt),), "Ctrl+C (Keyboard"),
            WrongAnswer("exit() is swallowed", (functools.partial(ends_by, SystemExit),), "exit() (SystemExit"),
            WrongAnswer("another exception comes out", (another_exception,), "did not come out"),
            WrongAnswer("an error pops the exporter's rule", (popped_after_an_error,), "After an exception"),
            WrongAnswer("opset 9 whatever is asked", (always_nine,), "was registered for opset"),
            WrongAnswer("a rule of one input", (one_input,), "takes 2 positional", Status.ERROR),
            WrongAnswer("other rules are dropped", (drops_other_rules,), "of another operator"),
            WrongAnswer("one place for all blocks", (OnePlace,), "After two nested blocks"),
            WrongAnswer("Asinh stamped with opset 8", (stamped_with_opset_8,), "also used at opset 7"),
            WrongAnswer("the rule stays", (never_ending,), "uses the rule already"),
            WrongAnswer("nothing is registered", (nothing_registered,), "is not supported"),
            WrongAnswer("another opset", (only_later,), "added in version 10"),
            WrongAnswer("registers before the block", (RegisteredWhenMade,), "Before the block begins"),
            WrongAnswer("keeps what was before the object", (SnapshotWhenMade,), "In the outer block, after the"),
            WrongAnswer("one of several rules is back", (one_rule_back,), "fails otherwise than before"),
            WrongAnswer("another namespace", (always_aten,), "unrecognized namespace"),
            WrongAnswer("two inputs at most", (two_inputs_at_most,), "positional arguments", Status.ERROR),
            WrongAnswer("no later opset", (at_that_opset,), "ValueError", Status.ERROR),
            WrongAnswer("a ValueError is swallowed", (functools.partial(ends_by, ValueError),), "an exception did not come"),
            WrongAnswer("a bare generator", (no_context_manager,), "a context manager was expected"),
        ),
    ),
}
