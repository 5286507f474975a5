"""Exercise: a context manager that registers a symbolic function and leaves the registry as it was."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

# The public name of torch.onnx.register_custom_op_symbolic is not typed.
from torch.onnx._internal.torchscript_exporter import utils

from onnxlab.exporters.export import Export, Exporter, export
from onnxlab.exporters.symbolics import own_rules, restored_rules
from onnxlab.labs.kit.exercise import Answers, Exercise, Part
from onnxlab.labs.kit.exporting import own_line
from onnxlab.labs.kit.judging import beside, expected_model, require_numbers, require_valid
from onnxlab.labs.kit.outcome import Difference, Wrong, trying
from onnxlab.labs.kit.work import Work
from onnxlab.model.graph import op_types

__all__ = ["EXERCISE"]

_MARKED = """<ir_version: 8, opset_import: ["" : 9]> marked (float[n] x) => (float[n] y) {{ y = {} (x) }}"""

_TWO_INPUTS = """<ir_version: 8, opset_import: ["" : 9]>
two_inputs (float[n] x, float[n] y) => (float[n] z) { z = Sub (x, y) }"""

_REGISTRY = (
    "onnxlab.exporters.symbolics.rule_opsets(operator) shows what the registry holds: look before and after."
)

# Functions whose operators have no rule, with the ONNX operator of each; and functions with a rule.
_WITHOUT_RULE = {"asinh": "Asinh", "sinh": "Sinh", "acosh": "Acosh", "atanh": "Atanh", "cosh": "Cosh"}
_WITH_RULE = ("relu", "sigmoid", "tanh", "exp", "sqrt")
# The operators that the rules write, wrong on purpose: the numbers show which rule an export has used.
_MARKERS = {"Neg": torch.neg, "Abs": torch.abs, "Floor": torch.floor, "Ceil": torch.ceil, "Sin": torch.sin}


class Call(torch.nn.Module):
    """The module that is exported: one operator, by its name in torch, as "asinh"."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """As many float32 inputs as the function has, of any shape."""
        result: torch.Tensor = getattr(torch, self.name)(*inputs)
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

    @classmethod
    def sample(cls, random: np.random.Generator) -> "Questions":
        """Draw the questions."""
        first, second = map(str, random.choice(list(_MARKERS), 2, replace=False))
        unknown, other = map(str, random.choice(list(_WITHOUT_RULE), 2, replace=False))
        with_rule = str(random.choice(_WITH_RULE))
        return cls(unknown, with_rule, first, second, other, int(random.integers(11, 15)))


class _Interruption(Exception):
    """An exception inside a block."""


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

    @contextmanager
    def safely(name: str, writes: str, opset: int = 9) -> Iterator[None]:
        with _block_for(name, writes, opset):
            block = answers["safely_registered"](f"aten::{name}", _writes(writes), opset)
            if not (hasattr(type(block), "__enter__") and hasattr(type(block), "__exit__")):
                msg = f"safely_registered() returned {type(block).__name__}; a context manager was expected."
                raise Wrong(
                    msg, "`with` needs __enter__ and __exit__; contextlib makes them from a generator."
                )
            with block:
                yield

    with restored_rules():
        with safely(questions.unknown, first):
            _attempt(work, "inside", questions.unknown, 9)
            _attempt(work, "inside-later", questions.unknown, 13)
        _attempt(work, "after", questions.unknown, 9)
    with restored_rules(), safely(questions.unknown, _WITHOUT_RULE[questions.unknown]):
        _attempt(work, "below", questions.unknown, 8, refused=True)
    with restored_rules():
        with safely(questions.known, first):
            _attempt(work, "instead", questions.known, 9)
        _attempt(work, "known-after", questions.known, 9)
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
    with restored_rules(), safely("hypot", "Sub"):
        _attempt(work, "two-inputs", "hypot", 9, inputs=2)
    came_out = {}
    for file, (_, kind) in _ENDS.items():
        with restored_rules():
            raised = kind()
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
    with restored_rules():
        with safely(questions.unknown, first):
            with safely(questions.unknown, second):
                _attempt(work, "inner", questions.unknown, 9)
            _attempt(work, "outer", questions.unknown, 9)
        _attempt(work, "after-both", questions.unknown, 9)


def _block_for(name: str, writes: str, opset: int = 9) -> AbstractContextManager[None]:
    """Attach a case to whatever is raised: a learner's block for a function of torch."""
    operator, rule = f"aten::{name}", partial(_write_node, writes)  # can be pickled
    return trying(f"a block for {operator} at opset {opset}", operator=operator, function=rule, opset=opset)


def _write_node(operator: str, g: Any, *inputs: Any) -> Any:  # noqa: ANN401 - the exporter's own types
    return g.op(operator, *inputs)


def _writes(operator: str) -> Callable[..., Any]:
    if operator == "Sub":
        return lambda g, x, y: g.op(operator, x, y)
    return lambda g, x: g.op(operator, x)


def _exported(name: str, opset: int, inputs: int = 1) -> Export:
    """Export a function of torch at an opset, with the rules that are registered now."""
    names = ["x", "y"][:inputs]
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
        where = f"Inside the block, exporting {questions.unknown} at 9"
        _require_marker(work, "inside", first, random, where, look_at)
        _require_marker(work, "inside-later", first, random, "Inside the block, at opset 13", look_at)
    with _block_for(questions.known, first):
        _require_marker(work, "instead", first, random, f"Inside a block for {questions.known}", look_at)
    with _block_for(questions.unknown, first):
        _require_marker(work, "over-earlier", first, random, "Inside a block over another rule", look_at)
    with _block_for(questions.known, first, questions.opset):
        where = f"Inside a block for {questions.known} from opset {questions.opset} on"
        _require_marker(work, "from-opset", first, random, where, look_at)
        _judge_before_opset(work, questions, random)
    with _block_for("hypot", "Sub"):
        _judge_two_inputs(work, random)


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


def _judge_two_inputs(work: Work, random: np.random.Generator) -> None:
    if not work.has("two-inputs"):
        msg = f"Inside the block, a rule of two inputs: no model. {_written_refusal(work, 'two-inputs')}"
        raise Wrong(msg, "What does your function hand on to the rule that it was given?")
    with beside(partial(expected_model, _TWO_INPUTS)):
        pairs = [(x, x.flip(0) * 2) for x in _inputs(random)]
        require_numbers(torch.sub, work.model("two-inputs"), pairs, look_at="The rule writes Sub (x, y).")


def judge_after(work: Work, random: np.random.Generator) -> None:
    """Exports are as before the block, for an operator without a rule and for one with the exporter's own."""
    questions = Questions.sample(work.questions())
    with _block_for(questions.unknown, questions.first):
        _require_as_before(work, "after", questions.unknown, random, "After the block")
    with _block_for(questions.known, questions.first):
        _require_as_before(
            work, "known-after", questions.known, random, f"After a block for {questions.known}"
        )


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
    if work.has("below"):
        try:
            require_valid(work.model("below"))
        except Wrong as wrong:
            questions = Questions.sample(work.questions())
            msg = f"Registered for opset 9, the rule was also used at opset 8. {wrong.message}"
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
def _require_as_before(work: Work, file: str, name: str, random: np.random.Generator, where: str) -> None:
    original = _exported(name, 9)
    if original.model is not None and work.has(file):
        try:
            require_numbers(Call(name), work.model(file), _inputs(random))
        except Wrong as wrong:
            msg = f"{where}, the exporter's own rule for {name} is not back."
            raise Wrong(msg, _REGISTRY, difference=wrong.difference, evidence=wrong.evidence) from None
        return
    expected = "a model" if original.model is not None else _refusal(original)
    if work.has(file):
        got = f"a model: {', '.join(op_types(work.model(file)))}"
        msg = f"{where}, exporting {name} still uses the rule."
    else:
        got = _written_refusal(work, file)
        msg = f"{where}, exporting {name} fails otherwise than before it: {got}"
    if got != expected:
        difference = Difference(f"{name}, opset 9", expected, got)
        raise Wrong(msg, _REGISTRY, difference=difference)


def _written_refusal(work: Work, file: str) -> str:
    return str(work.json(file))[:200]


def _inputs(random: np.random.Generator) -> list[torch.Tensor]:
    return [torch.from_numpy(random.normal(0, 2, shape).astype(np.float32)) for shape in [(2, 5), (4, 3)]]


EXERCISE = Exercise(
    order=4,
    id="safely-registered",
    title="Register a rule for the length of a block",
    points=6,
    answers=("safely_registered",),
    produce=produce,
    parts=(
        Part("inside the block the rule counts", judge_inside),
        Part("after the block the exporter is as before", judge_after),
        Part("a rule registered before comes back", judge_earlier),
        Part("an exception, Ctrl+C or exit() inside the block changes nothing of that", judge_error),
        Part("blocks can be nested", judge_nested),
        Part("no invalid model below the rule's opset", judge_below),
    ),
    hints=(
        "What the registry held before the block must be kept, and put back whatever happens inside: `try`, "
        "`yield`, `finally`. The same function that registers a rule also overwrites one.",
        "`registry._registry` is a dict from an operator's name to its group of rules; `copy.deepcopy` of a "
        "group keeps what it holds. For the last part, register a function that first looks at g.opset.",
        "`before = copy.deepcopy(registry._registry.get(operator))`, register, `yield`, and in `finally`: "
        "`registry._registry.pop(operator, None)`; if there was a group, put `before` in its place.",
    ),
)
