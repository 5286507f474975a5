"""What is right in safely-registered, part by part."""

from functools import partial

import numpy as np
import torch

# The public name of torch.onnx.register_custom_op_symbolic is not typed.
from onnxlab.exporters.symbolics import own_rules
from onnxlab.kit.exercise import Judges
from onnxlab.kit.judging import evidence, expected_model, expecting, require_numbers, require_valid
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.work import Work
from onnxlab.labs.lab04_asinh.safely_registered import (
    BELOW,
    ENDS,
    LATER_OPSETS,
    MARKERS,
    NAMESPACED,
    SEVERAL_INPUTS,
    WITHOUT_RULE,
    Call,
    Questions,
    block_for,
    exported,
    refusal,
)
from onnxlab.message import Message
from onnxlab.model.graph import op_types

_MARKED = """<ir_version: 8, opset_import: ["" : 9]> marked (float[n] x) => (float[n] y) {{ y = {} (x) }}"""

_REGISTRY = (
    "onnxlab.exporters.symbolics.rule_opsets(operator) shows what the registry holds: look before and after."
)


def judge_inside(work: Work, random: np.random.Generator) -> None:
    """Exports use the rule: at its opset, at a later one, and in place of the exporter's own rule."""
    questions = Questions.sample(work.questions())
    look_at = (
        "Is the function registered before the block begins, for the operator and opset that were given?"
    )
    first = questions.first
    with block_for(questions.unknown, first):
        _require_as_before(work, "made", questions.unknown, random, Message("Before the block begins"))
        where = Message("Inside the block, exporting {questions.unknown} at 9", questions=questions)
        _require_marker(work, "inside", first, random, where, look_at)
        for opset in LATER_OPSETS:
            where = Message("Inside the block, at opset {opset}", opset=opset)
            _require_marker(work, f"inside-{opset}", first, random, where, look_at)
    with block_for(questions.known, first):
        _require_marker(
            work,
            "instead",
            first,
            random,
            Message("Inside a block for {questions.known}", questions=questions),
            look_at,
        )
    with block_for(questions.unknown, first):
        _require_marker(
            work, "over-earlier", first, random, Message("Inside a block over another rule"), look_at
        )
    with block_for(questions.known, first, questions.opset):
        where = Message(
            "Inside a block for {questions.known} from opset {questions.opset} on", questions=questions
        )
        _require_marker(work, "from-opset", first, random, where, look_at)
        _judge_before_opset(work, questions, random)
    with block_for(questions.two_rules, first, questions.opset):
        where = Message(
            "Inside a block for {questions.two_rules} from opset {questions.opset} on", questions=questions
        )
        _require_marker(work, "between-rules", first, random, where, look_at)
    with block_for(NAMESPACED, first):
        where = Message("Inside a block for {namespaced}", namespaced=NAMESPACED)
        _require_marker(work, "namespaced", first, random, where, look_at)
    for file, (name, *_) in SEVERAL_INPUTS.items():
        with block_for(name, "Sub"):
            _judge_several_inputs(work, file, random)


def _judge_before_opset(work: Work, questions: Questions, random: np.random.Generator) -> None:
    if work.has("before-opset"):
        model = work.model("before-opset")
        try:
            require_numbers(Call(questions.known), model, _inputs(random))
        except Wrong as wrong:
            msg = Message(
                "The rule was registered for opset {questions.opset}, "
                "and is used at opset {opset}: "
                "the model has {op_types}.",
                questions=questions,
                opset=questions.opset - 1,
                op_types=", ".join(op_types(model)),
            )
            look_at = "Which number does your function register the rule for?"
            raise Wrong(msg, look_at, difference=wrong.difference, evidence=wrong.evidence) from None


def _judge_several_inputs(work: Work, file: str, random: np.random.Generator) -> None:
    _, computes, expected, count = SEVERAL_INPUTS[file]
    if not work.has(file):
        msg = Message(
            "Inside the block, a rule of {count} inputs: no model. {written_refusal}",
            count=count,
            written_refusal=_written_refusal(work, file),
        )
        raise Wrong(msg, "What does your function hand on to the rule that it was given?")
    with expecting(partial(expected_model, expected)):
        sets = [tuple(x.flip(0) * number for number in range(1, count + 1)) for x in _inputs(random)]
        look_at = Message(
            "The rule writes {value}.", value="Sub (x, y)" if count == 2 else "Sub (Sub (x, y), z)"
        )
        require_numbers(computes, work.model(file), sets, look_at=look_at)


def judge_after(work: Work, random: np.random.Generator) -> None:
    """Exports are as before the block, for an operator without a rule and for one with the exporter's own."""
    questions = Questions.sample(work.questions())
    with block_for(questions.unknown, questions.first):
        for opset in (9, 13):
            _require_as_before(
                work, f"after-{opset}", questions.unknown, random, Message("After the block"), opset
            )
    with block_for(questions.known, questions.first):
        _require_as_before(
            work,
            "known-after",
            questions.known,
            random,
            Message("After a block for {questions.known}", questions=questions),
        )
    with block_for(questions.two_rules, questions.first):
        where = Message("After a block for {questions.two_rules}", questions=questions)
        for opset in (9, 13, 20):
            file = f"two-rules-after-{opset}"
            _require_as_before(work, file, questions.two_rules, random, where, opset)


def judge_earlier(work: Work, random: np.random.Generator) -> None:
    """Rules that were registered before the block."""
    questions = Questions.sample(work.questions())
    with block_for(questions.unknown, questions.first):
        look_at = Message("Two rules had been registered before your block, at opsets 9 and 13. ") + _REGISTRY
        for file, opset in (("earlier-after", 9), ("earlier-after-13", 13)):
            where = Message(
                "After the block, a rule registered before it no longer counts. Exporting at opset {opset}",
                opset=opset,
            )
            _require_marker(work, file, questions.second, random, where, look_at)
        other = Message(
            "a rule of another operator, {questions.other}, no longer counts", questions=questions
        )
        where = Message("After a block for {questions.unknown}, {other}", questions=questions, other=other)
        _require_marker(work, "other-after", questions.second, random, where, _REGISTRY)


def judge_error(work: Work, random: np.random.Generator) -> None:
    """The registry after an exception, Ctrl+C and exit() inside the block."""
    questions, came_out = Questions.sample(work.questions()), work.json("came-out")
    for file, (name, _) in ENDS.items():
        with block_for(questions.unknown, questions.first):
            if not isinstance(came_out, dict) or came_out.get(file) is not True:
                msg = Message("Raised inside the block, {name} did not come out of it as it was.", name=name)
                look_at = "__exit__ that returns something true, or an except without raise, swallows it."
                raise Wrong(msg, look_at)
            where = Message("After {name} inside the block", name=name)
            _require_as_before(work, f"after-{file}", questions.unknown, random, where)
        with block_for(questions.known, questions.first):
            where = Message(
                "After {name} inside a block for {questions.known}", name=name, questions=questions
            )
            _require_as_before(work, f"known-after-{file}", questions.known, random, where)


def judge_nested(work: Work, random: np.random.Generator) -> None:
    """One block inside another, for the same operator."""
    questions = Questions.sample(work.questions())
    look_at = (
        Message("Where do you keep what the registry held before? Each block needs its own copy. ")
        + _REGISTRY
    )
    with block_for(questions.unknown, questions.second):
        _require_marker(
            work, "inner", questions.second, random, Message("In the inner of two blocks"), look_at
        )
    with block_for(questions.unknown, questions.first):
        where = Message("In the outer block, after the inner one")
        _require_marker(work, "outer", questions.first, random, where, look_at)
        _require_as_before(work, "after-both", questions.unknown, random, Message("After two nested blocks"))


def judge_below(work: Work, random: np.random.Generator) -> None:
    """At an opset below the rule's, no invalid model is written."""
    questions = Questions.sample(work.questions())
    for opset in BELOW:
        if not work.has(f"below-{opset}"):
            continue
        try:
            require_valid(work.model(f"below-{opset}"))
        except Wrong as wrong:
            msg = Message(
                "Registered for opset 9, the rule was also used at opset {opset}. {wrong.message}",
                opset=opset,
                wrong=wrong,
            )
            look_at = (
                "For opsets 7 and 8 the exporter looks upwards. In a rule, g.opset is the opset asked for."
            )
            with block_for(questions.unknown, WITHOUT_RULE[questions.unknown]):
                raise Wrong(msg, look_at, evidence=wrong.evidence) from None


def _require_marker(
    work: Work, file: str, marker: str, random: np.random.Generator, where: str, look_at: str
) -> None:
    if not work.has(file):
        raise Wrong("{where}: no model. {why}", look_at, where=where, why=_written_refusal(work, file))
    model = work.model(file)
    try:
        with expecting(partial(expected_model, _MARKED.format(marker))):
            require_numbers(MARKERS[marker], model, _inputs(random))
    except Wrong as wrong:
        msg = Message(
            "{where}: the rule writes {marker}; the model has {op_types}.",
            where=where,
            marker=marker,
            op_types=", ".join(op_types(model)) or "no node",
        )
        raise Wrong(msg, look_at, difference=wrong.difference, evidence=wrong.evidence) from None


@own_rules()
def _require_as_before(
    work: Work, file: str, name: str, random: np.random.Generator, where: str, opset: int = 9
) -> None:
    original = exported(name, opset)
    if original.model is not None and work.has(file):
        model, operators = work.model(file), op_types(original)
        msg = Message(
            "{where}, the exporter's own rule for {name} is not back at opset {opset}.",
            where=where,
            name=name,
            opset=opset,
        )
        try:
            require_numbers(Call(name), model, _inputs(random))
        except Wrong as wrong:
            raise Wrong(msg, _REGISTRY, difference=wrong.difference, evidence=wrong.evidence) from None
        if op_types(model) != operators:
            nodes = ", ".join(operators), ", ".join(op_types(model))
            difference = Difference(Message("{name}, opset {opset}", name=name, opset=opset), *nodes)
            raise Wrong(msg, _REGISTRY, difference=difference, evidence=evidence(model))
        return
    expected = Message("a model") if original.model is not None else refusal(original)
    if work.has(file):
        got: str = Message("a model: {op_types}", op_types=", ".join(op_types(work.model(file))))
        msg = Message("{where}, exporting {name} still uses the rule.", where=where, name=name)
        if file == "made":
            msg = Message("{where}, exporting {name} uses the rule already.", where=where, name=name)
    else:
        got = _written_refusal(work, file)
        msg = Message(
            "{where}, exporting {name} fails otherwise than before it: {got}", where=where, name=name, got=got
        )
    if got != expected:
        difference = Difference(Message("{name}, opset {opset}", name=name, opset=opset), expected, got)
        raise Wrong(msg, _REGISTRY, difference=difference)


def _written_refusal(work: Work, file: str) -> str:
    return str(work.json(file))[:200]


def _inputs(random: np.random.Generator) -> list[torch.Tensor]:
    return [torch.from_numpy(random.normal(0, 2, shape).astype(np.float32)) for shape in [(2, 5), (4, 3)]]


JUDGES = Judges((judge_inside, judge_after, judge_earlier, judge_error, judge_nested, judge_below))
