"""Exercise: a context manager that registers a symbolic function and leaves the registry as it was."""

from functools import partial

import numpy as np
import torch

from onnxlab.facts.nodes import op_types
from onnxlab.facts.symbolics import own_rules
from onnxlab.labs.exercise import Exercise, Part
from onnxlab.labs.judging import beside, expected_model, require_numbers, require_valid
from onnxlab.labs.lab04_asinh.block_scenes import MARKERS, Call, Questions, export_call, produce, refusal
from onnxlab.labs.outcome import Difference, Wrong
from onnxlab.labs.work import Work

__all__ = ["EXERCISE"]

_MARKED = """<ir_version: 8, opset_import: ["" : 9]> marked (float[n] x) => (float[n] y) {{ y = {} (x) }}"""

_REGISTRY = (
    "onnxlab.facts.symbolics.rule_opsets(operator) shows what the registry holds: look before and after."
)


def judge_inside(work: Work, random: np.random.Generator) -> None:
    """At the opset of the rule, at a later one, and instead of a rule of the exporter's own."""
    asked = Questions.drawn(work.questions())
    look = "Is the function registered before the block begins, for the operator and opset that were given?"
    _require_marker(
        work, "inside", asked.first, random, f"Inside the block, exporting {asked.unknown} at 9", look
    )
    _require_marker(work, "inside-later", asked.first, random, "Inside the block, at opset 13", look)
    _require_marker(work, "instead", asked.first, random, f"Inside a block for {asked.known}", look)
    _require_marker(work, "over-earlier", asked.first, random, "Inside a block over another rule", look)


def judge_after(work: Work, random: np.random.Generator) -> None:
    """An operator without a rule, and one with a rule of the exporter's own."""
    asked = Questions.drawn(work.questions())
    _require_as_before(work, "after", asked.unknown, random, "After the block")
    _require_as_before(work, "known-after", asked.known, random, f"After a block for {asked.known}")


def judge_earlier(work: Work, random: np.random.Generator) -> None:
    """A rule that somebody had registered before."""
    asked = Questions.drawn(work.questions())
    look = "Two rules had been registered before your block, at opsets 9 and 13. " + _REGISTRY
    for file, opset in (("earlier-after", 9), ("earlier-after-13", 13)):
        where = f"After the block, a rule registered before it no longer counts. Exporting at opset {opset}"
        _require_marker(work, file, asked.second, random, where, look)


def judge_error(work: Work, random: np.random.Generator) -> None:
    """What an exception inside the block leaves."""
    asked = Questions.drawn(work.questions())
    if work.json("came-out") is not True:
        msg = "An exception raised inside the block did not come out of it."
        raise Wrong(msg, "__exit__ that returns something true, or an except without raise, swallows it.")
    _require_as_before(work, "after-error", asked.unknown, random, "After an exception inside the block")


def judge_nested(work: Work, random: np.random.Generator) -> None:
    """One block inside another, for one operator."""
    asked = Questions.drawn(work.questions())
    look = "Where is kept what the registry held before? Each block needs a place of its own. " + _REGISTRY
    _require_marker(work, "inner", asked.second, random, "In the inner of two blocks", look)
    _require_marker(work, "outer", asked.first, random, "In the outer block, after the inner one", look)
    _require_as_before(work, "after-both", asked.unknown, random, "After two nested blocks")


def judge_below(work: Work, random: np.random.Generator) -> None:
    """An opset that the rule was not written for."""
    if work.has("below"):
        try:
            require_valid(work.model("below"))
        except Wrong as wrong:
            msg = f"Registered for opset 9, the rule was also used at opset 8. {wrong.message}"
            look = "For opsets 7 and 8 the exporter looks upwards. In a rule, g.opset is the opset asked for."
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
    id="safely-registered",
    title="Register a rule for the length of a block",
    points=4,
    answers=("safely_registered",),
    produce=produce,
    parts=(
        Part("inside the block the rule counts", judge_inside),
        Part("after the block the exporter is as before", judge_after),
        Part("a rule registered before comes back", judge_earlier),
        Part("an exception inside the block changes nothing of that", judge_error),
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
    holds_for="torch 2.13, onnx 1.23, onnxruntime 1.31",
)
