"""Exercise: a context manager that registers a symbolic function and leaves the registry as it was."""

from functools import partial

import numpy as np
import torch

from onnxlab.exporters.symbolics import own_rules
from onnxlab.labs.kit.exercise import Exercise, Part
from onnxlab.labs.kit.judging import beside, expected_model, require_numbers, require_valid
from onnxlab.labs.kit.outcome import Difference, Wrong
from onnxlab.labs.kit.work import Work
from onnxlab.labs.lab04_asinh.block_scenes import (
    ENDS,
    MARKERS,
    WITHOUT_RULE,
    Call,
    Questions,
    block_of,
    export_call,
    produce,
    refusal,
)
from onnxlab.model.graph import op_types

__all__ = ["EXERCISE"]

_MARKED = """<ir_version: 8, opset_import: ["" : 9]> marked (float[n] x) => (float[n] y) {{ y = {} (x) }}"""

_TWO_INPUTS = """<ir_version: 8, opset_import: ["" : 9]>
two_inputs (float[n] x, float[n] y) => (float[n] z) { z = Sub (x, y) }"""

_REGISTRY = (
    "onnxlab.exporters.symbolics.rule_opsets(operator) shows what the registry holds: look before and after."
)


def judge_inside(work: Work, random: np.random.Generator) -> None:
    """At the opset of the rule, at a later one, and instead of a rule of the exporter's own."""
    asked = Questions.drawn(work.questions())
    look = "Is the function registered before the block begins, for the operator and opset that were given?"
    first, known = asked.first, f"aten::{asked.known}"
    with block_of(f"aten::{asked.unknown}", first):
        where = f"Inside the block, exporting {asked.unknown} at 9"
        _require_marker(work, "inside", first, random, where, look)
        _require_marker(work, "inside-later", first, random, "Inside the block, at opset 13", look)
    with block_of(known, first):
        _require_marker(work, "instead", first, random, f"Inside a block for {asked.known}", look)
    with block_of(f"aten::{asked.unknown}", first):
        _require_marker(work, "over-earlier", first, random, "Inside a block over another rule", look)
    with block_of(known, first, asked.opset):
        where = f"Inside a block for {asked.known} from opset {asked.opset} on"
        _require_marker(work, "from-opset", first, random, where, look)
        _judge_before_opset(work, asked, random)
    with block_of("aten::hypot", "Sub"):
        _judge_two_inputs(work, random)


def _judge_before_opset(work: Work, asked: Questions, random: np.random.Generator) -> None:
    if work.has("before-opset"):
        model = work.model("before-opset")
        try:
            require_numbers(Call(asked.known), model, _inputs(random))
        except Wrong as wrong:
            msg = (
                f"The rule was registered for opset {asked.opset}, and is used at opset {asked.opset - 1}: "
                f"the model has {', '.join(op_types(model))}."
            )
            look = "Which number does your function register the rule for?"
            raise Wrong(msg, look, difference=wrong.difference, evidence=wrong.evidence) from None


def _judge_two_inputs(work: Work, random: np.random.Generator) -> None:
    if not work.has("two-inputs"):
        msg = f"Inside the block, a rule of two inputs: no model. {_written_refusal(work, 'two-inputs')}"
        raise Wrong(msg, "What does your function hand on to the rule that it was given?")
    with beside(partial(expected_model, _TWO_INPUTS)):
        pairs = [(x, x.flip(0) * 2) for x in _inputs(random)]
        require_numbers(torch.sub, work.model("two-inputs"), pairs, look_at="The rule writes Sub (x, y).")


def judge_after(work: Work, random: np.random.Generator) -> None:
    """An operator without a rule, and one with a rule of the exporter's own."""
    asked = Questions.drawn(work.questions())
    with block_of(f"aten::{asked.unknown}", asked.first):
        _require_as_before(work, "after", asked.unknown, random, "After the block")
    with block_of(f"aten::{asked.known}", asked.first):
        _require_as_before(work, "known-after", asked.known, random, f"After a block for {asked.known}")


def judge_earlier(work: Work, random: np.random.Generator) -> None:
    """A rule that somebody had registered before."""
    asked = Questions.drawn(work.questions())
    with block_of(f"aten::{asked.unknown}", asked.first):
        look = "Two rules had been registered before your block, at opsets 9 and 13. " + _REGISTRY
        for file, opset in (("earlier-after", 9), ("earlier-after-13", 13)):
            where = (
                f"After the block, a rule registered before it no longer counts. Exporting at opset {opset}"
            )
            _require_marker(work, file, asked.second, random, where, look)
        other = f"a rule of another operator, {asked.other}, no longer counts"
        where = f"After a block for {asked.unknown}, {other}"
        _require_marker(work, "other-after", asked.second, random, where, _REGISTRY)


def judge_error(work: Work, random: np.random.Generator) -> None:
    """What an exception, Ctrl+C and exit() inside the block leave."""
    asked, came_out = Questions.drawn(work.questions()), work.json("came-out")
    for file, (name, _) in ENDS.items():
        with block_of(f"aten::{asked.unknown}", asked.first):
            if not isinstance(came_out, dict) or came_out.get(file) is not True:
                msg = f"Raised inside the block, {name} did not come out of it as it was."
                look = "__exit__ that returns something true, or an except without raise, swallows it."
                raise Wrong(msg, look)
            where = f"After {name} inside the block"
            _require_as_before(work, f"after-{file}", asked.unknown, random, where)
        with block_of(f"aten::{asked.known}", asked.first):
            where = f"After {name} inside a block for {asked.known}"
            _require_as_before(work, f"known-after-{file}", asked.known, random, where)


def judge_nested(work: Work, random: np.random.Generator) -> None:
    """One block inside another, for one operator."""
    asked = Questions.drawn(work.questions())
    look = "Where is kept what the registry held before? Each block needs a place of its own. " + _REGISTRY
    with block_of(f"aten::{asked.unknown}", asked.second):
        _require_marker(work, "inner", asked.second, random, "In the inner of two blocks", look)
    with block_of(f"aten::{asked.unknown}", asked.first):
        where = "In the outer block, after the inner one"
        _require_marker(work, "outer", asked.first, random, where, look)
        _require_as_before(work, "after-both", asked.unknown, random, "After two nested blocks")


def judge_below(work: Work, random: np.random.Generator) -> None:
    """An opset that the rule was not written for."""
    if work.has("below"):
        try:
            require_valid(work.model("below"))
        except Wrong as wrong:
            asked = Questions.drawn(work.questions())
            msg = f"Registered for opset 9, the rule was also used at opset 8. {wrong.message}"
            look = "For opsets 7 and 8 the exporter looks upwards. In a rule, g.opset is the opset asked for."
            with block_of(f"aten::{asked.unknown}", WITHOUT_RULE[asked.unknown]):
                raise Wrong(msg, look, evidence=wrong.evidence) from None


def _require_marker(
    work: Work, file: str, marker: str, random: np.random.Generator, where: str, look_at: str
) -> None:
    if not work.has(file):
        msg = f"{where}: no model. {_written_refusal(work, file)}"
        raise Wrong(msg, look_at)
    model = work.model(file)
    try:
        with beside(partial(expected_model, _MARKED.format(marker))):
            require_numbers(MARKERS[marker], model, _inputs(random))
    except Wrong as wrong:
        msg = f"{where}: the rule writes {marker}; the model has {', '.join(op_types(model)) or 'no node'}."
        raise Wrong(msg, look_at, difference=wrong.difference, evidence=wrong.evidence) from None


@own_rules()
def _require_as_before(work: Work, file: str, name: str, random: np.random.Generator, where: str) -> None:
    before = export_call(name, 9)
    if before.model is not None and work.has(file):
        try:
            require_numbers(Call(name), work.model(file), _inputs(random))
        except Wrong as wrong:
            msg = f"{where}, the exporter's own rule for {name} is not back."
            raise Wrong(msg, _REGISTRY, difference=wrong.difference, evidence=wrong.evidence) from None
        return
    expected = "a model" if before.model is not None else refusal(before)
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
