"""Exercise: a context manager that registers a symbolic function and leaves the registry as it was.

The statement as properties, each with what is drawn for it:

- the rule counts inside the block: in place of the exporter's rule, of one registered before, of none; for
  an operator of another namespace than PyTorch's; with one, two and three inputs
- from `opset` on: at several opsets above, and not below it. Where the operator has another rule that begins
  later, either may count from there on; what counts then is not asked
- nothing happens before the block begins: objects that were made before a block, two of them in turn
- afterwards exports go as before, at every opset: no rule, a rule of the exporter's own, several of its own,
  one that was registered before; not only with the same numbers, but with the same nodes
- rules of other operators that were registered before stay; what is registered inside is not asked about
- an exception, of whatever class, Ctrl+C and exit() come out as they are, and change nothing of that
- blocks can be nested
- an export below `opset` raises or gives a valid model: at opsets 7 and 8, where the exporter looks upwards
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import torch

# The public name of torch.onnx.register_custom_op_symbolic is not typed.
from torch.onnx._internal.torchscript_exporter import utils

from onnxlab.exporters.export import Export, Exporter, export
from onnxlab.exporters.symbolics import own_rules, restored_rules
from onnxlab.labs.kit.exercise import Answers, Judges
from onnxlab.labs.kit.exporting import own_line
from onnxlab.labs.kit.judging import beside, evidence, expected_model, require_numbers, require_valid
from onnxlab.labs.kit.outcome import Difference, Wrong, trying
from onnxlab.labs.kit.work import Work
from onnxlab.model.graph import op_types

__all__ = ["JUDGES", "produce"]

_MARKED = """<ir_version: 8, opset_import: ["" : 9]> marked (float[n] x) => (float[n] y) {{ y = {} (x) }}"""

# Rules of several inputs: the function that gets one, what the rule computes, a right model, how many inputs.
_SEVERAL_INPUTS = {
    "two-inputs": (
        "hypot",
        torch.sub,
        """<ir_version: 8, opset_import: ["" : 9]>
        two_inputs (float[n] x, float[n] y) => (float[n] a) { a = Sub (x, y) }""",
        2,
    ),
    "three-inputs": (
        "lerp",
        lambda x, y, z: x - y - z,
        """<ir_version: 8, opset_import: ["" : 9]>
        three_inputs (float[n] x, float[n] y, float[n] z) => (float[n] b)
        { a = Sub (x, y) b = Sub (a, z) }""",
        3,
    ),
}

_REGISTRY = (
    "onnxlab.exporters.symbolics.rule_opsets(operator) shows what the registry holds: look before and after."
)

# Functions whose operators have no rule, with the ONNX operator of each; and functions with a rule.
_WITHOUT_RULE = {"asinh": "Asinh", "sinh": "Sinh", "acosh": "Acosh", "atanh": "Atanh", "cosh": "Cosh"}
_WITH_RULE = ("relu", "sigmoid", "tanh", "exp", "sqrt")
# Functions whose operators have two rules, from 9 on and from another opset on, that write different nodes.
_TWO_RULES = {"hardswish": 14, "gelu": 20}
# An operator of another namespace than PyTorch's: the rows in reverse order.
_LIBRARY = torch.library.Library("onnxlab", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's is untyped
_LIBRARY.define("turned(Tensor x) -> Tensor")  # type: ignore[no-untyped-call]  # as above
_LIBRARY.impl("turned", lambda x: x.flip(0), "CPU")  # type: ignore[no-untyped-call]  # as above
_NAMESPACED = "onnxlab::turned"
_BELOW = (7, 8)
_LATER_OPSETS = (10, 11, 12, 16, 20)
# The operators that the rules write, wrong on purpose: the numbers show which rule an export has used.
_MARKERS = {"Neg": torch.neg, "Abs": torch.abs, "Floor": torch.floor, "Ceil": torch.ceil, "Sin": torch.sin}


class Call(torch.nn.Module):
    """The module that is exported: one operator, by its name in torch, as "asinh", or with its namespace."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """As many float32 inputs as the function has, of any shape."""
        namespace, _, name = self.name.rpartition("::")
        places = [torch.ops.onnxlab] if namespace else [torch, torch.nn.functional]
        function = next(getattr(place, name) for place in places if hasattr(place, name))
        result: torch.Tensor = function(*inputs)
        return result


@dataclass(frozen=True)
class Questions:
    """The functions, rules and opset of the blocks."""

    unknown: str  # a function whose operator has no rule
    known: str  # a function whose operator has a rule
    first: str  # the ONNX operator that the rule of a learner's block writes
    second: str  # the ONNX operator that another rule writes
    other: str  # another function whose operator has no rule
    opset: int  # the first opset of a rule that does not begin at 9
    two_rules: str  # a function whose operator has two rules

    @classmethod
    def sample(cls, random: np.random.Generator) -> "Questions":
        """Draw the questions."""
        first, second = map(str, random.choice(list(_MARKERS), 2, replace=False))
        unknown, other = map(str, random.choice(list(_WITHOUT_RULE), 2, replace=False))
        with_rule = str(random.choice(_WITH_RULE))
        opset = int(random.integers(11, 14))
        two_rules = str(random.choice(list(_TWO_RULES)))
        return cls(unknown, with_rule, first, second, other, opset, two_rules)


class _Interruption(ValueError, TypeError, RuntimeError, LookupError, ArithmeticError, AssertionError):
    """An exception inside a block, of every class that a block might treat in a way of its own."""


class _CtrlC(KeyboardInterrupt):
    """Ctrl+C inside a block; a class of its own, so that a learner's real one is not taken for it."""


class _Exit(SystemExit):
    """exit() inside a block."""


# How a block can end by an exception: its name in files, its name for a learner, the class.
_ENDS = {
    "error": ("an exception", _Interruption),
    "ctrl-c": ("Ctrl+C (KeyboardInterrupt)", _CtrlC),
    "exit": ("exit() (SystemExit)", _Exit),
}


@own_rules()  # without rules that the notebook left registered
def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export in, after and around blocks of the learner's context manager."""
    questions = Questions.sample(random)
    first, second = questions.first, questions.second

    def made(name: str, writes: str, opset: int = 9) -> AbstractContextManager[object]:
        with _block_for(name, writes, opset):
            block = answers["safely_registered"](_operator(name), _writes(writes), opset)
            if not (hasattr(type(block), "__enter__") and hasattr(type(block), "__exit__")):
                msg = f"safely_registered() returned {type(block).__name__}; a context manager was expected."
                raise Wrong(
                    msg, "`with` needs __enter__ and __exit__; contextlib makes them from a generator."
                )
        context: AbstractContextManager[object] = block
        return context

    @contextmanager
    def safely(name: str, writes: str, opset: int = 9) -> Iterator[None]:
        with _block_for(name, writes, opset), made(name, writes, opset):
            yield

    with restored_rules(), _block_for(questions.unknown, first):
        block = made(questions.unknown, first)
        _attempt(work, "made", questions.unknown, 9)
        with block:
            _attempt(work, "inside", questions.unknown, 9)
            for opset in _LATER_OPSETS:
                _attempt(work, f"inside-{opset}", questions.unknown, opset)
        for opset in (9, 13):
            _attempt(work, f"after-{opset}", questions.unknown, opset)
    with restored_rules(), safely(questions.unknown, _WITHOUT_RULE[questions.unknown]):
        for opset in _BELOW:
            _attempt(work, f"below-{opset}", questions.unknown, opset, refused=True)
    with restored_rules():
        with safely(questions.known, first):
            _attempt(work, "instead", questions.known, 9)
        _attempt(work, "known-after", questions.known, 9)
    with restored_rules():
        with safely(questions.two_rules, first, questions.opset):
            _attempt(work, "between-rules", questions.two_rules, questions.opset)
        with safely(questions.two_rules, first):
            pass
        for opset in (9, 13, 20):
            _attempt(work, f"two-rules-after-{opset}", questions.two_rules, opset)
    with restored_rules():
        for opset in (9, 13):
            utils.register_custom_op_symbolic(f"aten::{questions.unknown}", _writes(second), opset)
        with safely(questions.unknown, first):
            _attempt(work, "over-earlier", questions.unknown, 9)
        _attempt(work, "earlier-after", questions.unknown, 9)
        _attempt(work, "earlier-after-13", questions.unknown, 13)
    with restored_rules():
        utils.register_custom_op_symbolic(f"aten::{questions.other}", _writes(second), 9)
        with safely(questions.unknown, first):
            pass
        _attempt(work, "other-after", questions.other, 9)
    with restored_rules(), safely(questions.known, first, questions.opset):
        _attempt(work, "from-opset", questions.known, questions.opset)
        _attempt(work, "before-opset", questions.known, questions.opset - 1, refused=True)
    with restored_rules(), safely(_NAMESPACED, first):
        _attempt(work, "namespaced", _NAMESPACED, 9)
    for file, (name, _, _, inputs) in _SEVERAL_INPUTS.items():
        with restored_rules(), safely(name, "Sub"):
            _attempt(work, file, name, 9, inputs=inputs)
    came_out = {}
    for file, (_, kind) in _ENDS.items():
        with restored_rules():
            raised = kind("inside the block")
            try:
                with safely(questions.known, first), safely(questions.unknown, first):
                    raise raised
            except BaseException as error:
                if error is not raised and not isinstance(error, Exception):
                    raise  # a time limit, or the learner's own Ctrl+C
                came_out[file] = error is raised
            _attempt(work, f"after-{file}", questions.unknown, 9)
            _attempt(work, f"known-after-{file}", questions.known, 9)
    work.write_json("came-out", came_out)
    with restored_rules(), _block_for(questions.unknown, first):
        outer, inner = made(questions.unknown, first), made(questions.unknown, second)
        with outer:
            with inner:
                _attempt(work, "inner", questions.unknown, 9)
            _attempt(work, "outer", questions.unknown, 9)
        _attempt(work, "after-both", questions.unknown, 9)


def _block_for(name: str, writes: str, opset: int = 9) -> AbstractContextManager[None]:
    """Attach a case to whatever is raised: a learner's block for a function of torch."""
    operator, rule = _operator(name), partial(_write_node, writes)  # can be pickled
    return trying(f"a block for {operator} at opset {opset}", operator=operator, function=rule, opset=opset)


def _operator(name: str) -> str:
    return name if "::" in name else f"aten::{name}"


def _write_node(operator: str, g: Any, *inputs: Any) -> Any:  # noqa: ANN401 - the exporter's own types
    return g.op(operator, *inputs)


def _writes(operator: str) -> Callable[..., Any]:
    if operator == "Sub":
        return lambda g, *inputs: reduce(lambda x, y: g.op(operator, x, y), inputs)
    return lambda g, x, *others: g.op(operator, x)  # GELU has a second argument


def _exported(name: str, opset: int, inputs: int = 1) -> Export:
    """Export a function of torch at an opset, with the rules that are registered now."""
    names = ["x", "y", "z"][:inputs]
    example, axes = (torch.ones(2, 3),) * inputs, {x: [0, 1] for x in names}
    return export(
        Call(name),
        example,
        Exporter.TORCHSCRIPT,
        run=False,
        opset_version=opset,
        input_names=names,
        dynamic_axes=axes,
    )


def _attempt(work: Work, file: str, name: str, opset: int, *, refused: bool = False, inputs: int = 1) -> None:
    result = _exported(name, opset, inputs)
    if result.model is not None:
        work.write_model(file, result.model)
        return
    assert result.failure is not None
    if not refused and result.failure.exception is not None and own_line(result.failure.exception):
        raise result.failure.exception
    work.write_json(file, _refusal(result))


def _refusal(result: Export) -> str:
    """Return in one line why an export failed."""
    failure = result.failure
    return f"{failure.error}: {failure.message.partition(chr(10))[0]}" if failure else ""


def judge_inside(work: Work, random: np.random.Generator) -> None:
    """Exports use the rule: at its opset, at a later one, and in place of the exporter's own rule."""
    questions = Questions.sample(work.questions())
    look_at = (
        "Is the function registered before the block begins, for the operator and opset that were given?"
    )
    first = questions.first
    with _block_for(questions.unknown, first):
        _require_as_before(work, "made", questions.unknown, random, "Before the block begins")
        where = f"Inside the block, exporting {questions.unknown} at 9"
        _require_marker(work, "inside", first, random, where, look_at)
        for opset in _LATER_OPSETS:
            where = f"Inside the block, at opset {opset}"
            _require_marker(work, f"inside-{opset}", first, random, where, look_at)
    with _block_for(questions.known, first):
        _require_marker(work, "instead", first, random, f"Inside a block for {questions.known}", look_at)
    with _block_for(questions.unknown, first):
        _require_marker(work, "over-earlier", first, random, "Inside a block over another rule", look_at)
    with _block_for(questions.known, first, questions.opset):
        where = f"Inside a block for {questions.known} from opset {questions.opset} on"
        _require_marker(work, "from-opset", first, random, where, look_at)
        _judge_before_opset(work, questions, random)
    with _block_for(questions.two_rules, first, questions.opset):
        where = f"Inside a block for {questions.two_rules} from opset {questions.opset} on"
        _require_marker(work, "between-rules", first, random, where, look_at)
    with _block_for(_NAMESPACED, first):
        where = f"Inside a block for {_NAMESPACED}"
        _require_marker(work, "namespaced", first, random, where, look_at)
    for file, (name, *_) in _SEVERAL_INPUTS.items():
        with _block_for(name, "Sub"):
            _judge_several_inputs(work, file, random)


def _judge_before_opset(work: Work, questions: Questions, random: np.random.Generator) -> None:
    if work.has("before-opset"):
        model = work.model("before-opset")
        try:
            require_numbers(Call(questions.known), model, _inputs(random))
        except Wrong as wrong:
            msg = (
                f"The rule was registered for opset {questions.opset}, "
                f"and is used at opset {questions.opset - 1}: "
                f"the model has {', '.join(op_types(model))}."
            )
            look_at = "Which number does your function register the rule for?"
            raise Wrong(msg, look_at, difference=wrong.difference, evidence=wrong.evidence) from None


def _judge_several_inputs(work: Work, file: str, random: np.random.Generator) -> None:
    _, computes, expected, count = _SEVERAL_INPUTS[file]
    if not work.has(file):
        msg = f"Inside the block, a rule of {count} inputs: no model. {_written_refusal(work, file)}"
        raise Wrong(msg, "What does your function hand on to the rule that it was given?")
    with beside(partial(expected_model, expected)):
        sets = [tuple(x.flip(0) * number for number in range(1, count + 1)) for x in _inputs(random)]
        look_at = f"The rule writes {'Sub (x, y)' if count == 2 else 'Sub (Sub (x, y), z)'}."
        require_numbers(computes, work.model(file), sets, look_at=look_at)


def judge_after(work: Work, random: np.random.Generator) -> None:
    """Exports are as before the block, for an operator without a rule and for one with the exporter's own."""
    questions = Questions.sample(work.questions())
    with _block_for(questions.unknown, questions.first):
        for opset in (9, 13):
            _require_as_before(work, f"after-{opset}", questions.unknown, random, "After the block", opset)
    with _block_for(questions.known, questions.first):
        _require_as_before(
            work, "known-after", questions.known, random, f"After a block for {questions.known}"
        )
    with _block_for(questions.two_rules, questions.first):
        where = f"After a block for {questions.two_rules}"
        for opset in (9, 13, 20):
            file = f"two-rules-after-{opset}"
            _require_as_before(work, file, questions.two_rules, random, where, opset)


def judge_earlier(work: Work, random: np.random.Generator) -> None:
    """Rules that were registered before the block."""
    questions = Questions.sample(work.questions())
    with _block_for(questions.unknown, questions.first):
        look_at = "Two rules had been registered before your block, at opsets 9 and 13. " + _REGISTRY
        for file, opset in (("earlier-after", 9), ("earlier-after-13", 13)):
            where = (
                f"After the block, a rule registered before it no longer counts. Exporting at opset {opset}"
            )
            _require_marker(work, file, questions.second, random, where, look_at)
        other = f"a rule of another operator, {questions.other}, no longer counts"
        where = f"After a block for {questions.unknown}, {other}"
        _require_marker(work, "other-after", questions.second, random, where, _REGISTRY)


def judge_error(work: Work, random: np.random.Generator) -> None:
    """The registry after an exception, Ctrl+C and exit() inside the block."""
    questions, came_out = Questions.sample(work.questions()), work.json("came-out")
    for file, (name, _) in _ENDS.items():
        with _block_for(questions.unknown, questions.first):
            if not isinstance(came_out, dict) or came_out.get(file) is not True:
                msg = f"Raised inside the block, {name} did not come out of it as it was."
                look_at = "__exit__ that returns something true, or an except without raise, swallows it."
                raise Wrong(msg, look_at)
            where = f"After {name} inside the block"
            _require_as_before(work, f"after-{file}", questions.unknown, random, where)
        with _block_for(questions.known, questions.first):
            where = f"After {name} inside a block for {questions.known}"
            _require_as_before(work, f"known-after-{file}", questions.known, random, where)


def judge_nested(work: Work, random: np.random.Generator) -> None:
    """One block inside another, for the same operator."""
    questions = Questions.sample(work.questions())
    look_at = "Where is kept what the registry held before? Each block needs a place of its own. " + _REGISTRY
    with _block_for(questions.unknown, questions.second):
        _require_marker(work, "inner", questions.second, random, "In the inner of two blocks", look_at)
    with _block_for(questions.unknown, questions.first):
        where = "In the outer block, after the inner one"
        _require_marker(work, "outer", questions.first, random, where, look_at)
        _require_as_before(work, "after-both", questions.unknown, random, "After two nested blocks")


def judge_below(work: Work, random: np.random.Generator) -> None:
    """At an opset below the rule's, no invalid model is written."""
    questions = Questions.sample(work.questions())
    for opset in _BELOW:
        if not work.has(f"below-{opset}"):
            continue
        try:
            require_valid(work.model(f"below-{opset}"))
        except Wrong as wrong:
            msg = f"Registered for opset 9, the rule was also used at opset {opset}. {wrong.message}"
            look_at = (
                "For opsets 7 and 8 the exporter looks upwards. In a rule, g.opset is the opset asked for."
            )
            with _block_for(questions.unknown, _WITHOUT_RULE[questions.unknown]):
                raise Wrong(msg, look_at, evidence=wrong.evidence) from None


def _require_marker(
    work: Work, file: str, marker: str, random: np.random.Generator, where: str, look_at: str
) -> None:
    if not work.has(file):
        msg = f"{where}: no model. {_written_refusal(work, file)}"
        raise Wrong(msg, look_at)
    model = work.model(file)
    try:
        with beside(partial(expected_model, _MARKED.format(marker))):
            require_numbers(_MARKERS[marker], model, _inputs(random))
    except Wrong as wrong:
        msg = f"{where}: the rule writes {marker}; the model has {', '.join(op_types(model)) or 'no node'}."
        raise Wrong(msg, look_at, difference=wrong.difference, evidence=wrong.evidence) from None


@own_rules()
def _require_as_before(
    work: Work, file: str, name: str, random: np.random.Generator, where: str, opset: int = 9
) -> None:
    original = _exported(name, opset)
    if original.model is not None and work.has(file):
        model, operators = work.model(file), op_types(original)
        msg = f"{where}, the exporter's own rule for {name} is not back at opset {opset}."
        try:
            require_numbers(Call(name), model, _inputs(random))
        except Wrong as wrong:
            raise Wrong(msg, _REGISTRY, difference=wrong.difference, evidence=wrong.evidence) from None
        if op_types(model) != operators:
            nodes = ", ".join(operators), ", ".join(op_types(model))
            difference = Difference(f"{name}, opset {opset}", *nodes)
            raise Wrong(msg, _REGISTRY, difference=difference, evidence=evidence(model))
        return
    expected = "a model" if original.model is not None else _refusal(original)
    if work.has(file):
        got = f"a model: {', '.join(op_types(work.model(file)))}"
        msg = f"{where}, exporting {name} still uses the rule."
        if file == "made":
            msg = f"{where}, exporting {name} uses the rule already."
    else:
        got = _written_refusal(work, file)
        msg = f"{where}, exporting {name} fails otherwise than before it: {got}"
    if got != expected:
        difference = Difference(f"{name}, opset {opset}", expected, got)
        raise Wrong(msg, _REGISTRY, difference=difference)


def _written_refusal(work: Work, file: str) -> str:
    return str(work.json(file))[:200]


def _inputs(random: np.random.Generator) -> list[torch.Tensor]:
    return [torch.from_numpy(random.normal(0, 2, shape).astype(np.float32)) for shape in [(2, 5), (4, 3)]]


JUDGES = Judges((judge_inside, judge_after, judge_earlier, judge_error, judge_nested, judge_below))
