"""What is right in missing-rules, part by part."""

from collections.abc import Callable, Sequence

import numpy as np

# torch has no public view of this registry.
from torch.onnx._internal.torchscript_exporter import registration

from onnxlab.exporters.symbolics import own_rules
from onnxlab.kit.exercise import Judges
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.work import Work
from onnxlab.labs.lab04_asinh.missing_rules import (
    EVERYDAY,
    Live,
    Question,
    case_of,
    draw_questions,
    first_opset,
)
from onnxlab.message import Message

REFUSING = {
    "aten::_sample_dirichlet": 20,
    "aten::_standard_gamma": 20,
    "aten::_unique": 20,
    "aten::_unique2": 10,
    "aten::cumsum": 10,
    "aten::scan": 20,
}
"""Operators whose rule only raises, up to this opset: it counts as a rule or as none."""


def judge_names(work: Work, random: np.random.Generator) -> None:
    """Only names that were asked about."""
    for (names, opset), answer in _given(work):
        for name in answer:
            if not isinstance(name, str) or name not in names:
                msg = Message(
                    "For opset {opset} the answer holds {name!r}, which was not asked about.",
                    opset=opset,
                    name=str(name)[:80],
                )
                with case_of(names, opset):
                    raise Wrong(msg, "Return some of the names, spelt as they were given: 'aten::asinh'.")


@own_rules()
def judge_without(work: Work, random: np.random.Generator) -> None:
    """Operators without a rule at any opset."""
    look_at = "Does registry.get_function_group(name) know this operator? What does it return if it does not?"
    _judge(work, lambda since: since is None, look_at)


@own_rules()
def judge_opset(work: Work, random: np.random.Generator) -> None:
    """Operators whose rule begins at some opset."""
    look_at = "A rule written for one opset counts from there on. Compare the opset asked for with that one."
    _judge(work, lambda since: since is not None, look_at)


@own_rules()
def judge_live(work: Work, random: np.random.Generator) -> None:
    """The registry at the time of each call, also for a question that was asked before."""
    look_at = (
        "The same was asked before a rule was registered or taken back, while it was, and after. Is the "
        "registry asked at every call, and what if its group is empty?"
    )
    questions = work.questions()
    draw_questions(questions)  # they are drawn before
    live = Live.sample(questions)
    answers = iter(_read(work, "live", len(live.states) * len(live.questions)))
    for _, (names, opset) in live.asked():
        _compare(names, opset, next(answers), look_at)


def _read(work: Work, file: str, count: int) -> list[list[object]]:
    answers = work.answers(file, count)
    if not all(isinstance(answer, list) for answer in answers):
        raise Wrong("{file}.json holds something other than lists of names.", file=file)
    return answers


@own_rules()
def _given(work: Work) -> list[tuple[Question, list[object]]]:
    """Return the questions about the registry as it is, with their answers."""
    questions = draw_questions(work.questions())
    return list(zip(questions, _read(work, "given", len(questions)), strict=True))


def _judge(work: Work, selects: Callable[[int | None], bool], look_at: str) -> None:
    for (names, opset), answer in _given(work):
        _compare([name for name in names if selects(first_opset(name))], opset, answer, look_at)


def _compare(names: Sequence[str], opset: int, answer: list[object], look_at: str) -> None:
    everyday_first = sorted(names, key=lambda name: (name.removeprefix("aten::") not in EVERYDAY, name))
    for name in everyday_first:  # they are the clearer examples
        missing = not registration.registry.is_registered_op(name, opset)
        either_way = opset <= REFUSING.get(name.removesuffix("_"), 0)
        if (name in answer) != missing and not either_way:
            since = first_opset(name)
            fact = (
                Message("there is no rule")
                if since is None
                else Message("its first rule is for opset {since}", since=since)
            )
            msg = Message(
                "{name} at opset {opset} is {ending}in the answer: {fact}.",
                name=name,
                opset=opset,
                ending="not " if missing else "",
                fact=fact,
            )
            states = [
                Message("missing") if state else Message("not missing") for state in (missing, not missing)
            ]
            with case_of([name], opset):
                raise Wrong(
                    msg,
                    look_at,
                    difference=Difference(
                        Message("{name} at opset {opset}", name=name, opset=opset), *states
                    ),
                )


JUDGES = Judges((judge_names, judge_without, judge_opset, judge_live))
