"""Exercise: find the operators without a rule in the TorchScript exporter's live registry."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

# torch has no public view of this registry.
from torch.onnx._internal.torchscript_exporter import registration, utils

from onnxlab.exporters.symbolics import own_rules, restored_rules
from onnxlab.labs.kit.exercise import Answers, Exercise, Part
from onnxlab.labs.kit.exporting import require_type
from onnxlab.labs.kit.outcome import Difference, Wrong, trying
from onnxlab.labs.kit.work import Work
from onnxlab.operators.rules import torchscript_rule
from onnxlab.operators.support import known_operators

__all__ = ["EXERCISE"]

# Everyday operators: some have a rule from 9 on, some from a later opset, some have none.
_EVERYDAY = """
    relu sigmoid silu softmax conv2d add asinh acosh atanh sinh cosh sin erf gelu layer_norm einsum triu tril
    celu hardswish grid_sampler upsample_bicubic2d upsample_bilinear2d scaled_dot_product_attention round
    lgamma digamma huber_loss bitwise_and bitwise_right_shift logdet max_pool2d unfold im2col cumsum
""".split()  # noqa: SIM905 - as a list it would be a line for each
_WITHOUT = ("asinh", "acosh", "atanh", "sinh", "cosh", "lgamma", "digamma", "expm1", "erfc", "hypot")
_LATER = ("triu", "tril", "einsum", "bitwise_and")


Question: TypeAlias = tuple[list[str], int]
"""Names and an opset."""


@dataclass(frozen=True)
class _Change:
    """The rules that are registered and taken back between calls of the answer."""

    registered: str  # an operator without a rule; it gets one
    taken_back: str  # an operator without a rule; it gets one that is taken back: an empty group is left
    earlier: str  # an operator whose first rule is for a later opset; it gets one for `opset`
    own: str  # a custom operator; it gets a rule
    opset: int  # of these rules

    @classmethod
    def sample(cls, random: np.random.Generator) -> "_Change":
        registered, taken_back = (f"aten::{name}" for name in random.choice(_WITHOUT, 2, replace=False))
        own = f"mine::operator_{random.integers(1000)}"
        return cls(
            registered, taken_back, f"aten::{random.choice(_LATER)}", own, int(random.integers(10, 14))
        )

    def questions(self) -> list[Question]:
        names = ["aten::relu", self.registered, self.taken_back, self.earlier, self.own]
        return [(names, self.opset), (names, self.opset - 1)]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Change the registry for a block."""
        with restored_rules():
            for name in (self.registered, self.taken_back, self.earlier, self.own):
                utils.register_custom_op_symbolic(name, lambda g, x: g.op("Identity", x), self.opset)
            utils.unregister_custom_op_symbolic(self.taken_back, self.opset)
            yield


def _questions(random: np.random.Generator) -> list[Question]:
    """Return five questions; for the last one the right answer is empty."""
    registered = [
        name for name in known_operators() if not name.endswith("_") and not name[6:].startswith("_")
    ]
    questions = []
    for opset in (9, int(random.integers(10, 14)), int(random.integers(14, 20)), 20):
        names = {f"aten::{name}" for name in random.choice(_EVERYDAY, 24, replace=False)}
        names |= {
            *map(str, random.choice(registered, 16, replace=False)),
            "aten::asinh",
            "aten::upsample_bicubic2d",
        }
        questions.append((list(map(str, random.permutation(sorted(names)))), opset))
    return [*questions, (["aten::relu", "aten::add", "aten::sigmoid"], int(random.integers(9, 21)))]


@own_rules()  # without rules that the notebook left registered
def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Ask before the registry is changed, while it is changed, and after it was restored."""

    def ask(questions: list[Question]) -> list[list[object]]:
        answered = []
        for names, opset in questions:
            with _case_of(names, opset):
                value = answers["missing_rules"](list(names), opset)
                call = f"missing_rules([{names[0]!r}, ...], {opset})"
                require_type(value, (list, tuple, set, frozenset), call)
            answered.append(list(value))
        return answered

    questions, change = _questions(random), _Change.sample(random)
    work.write_json("given", ask(questions))
    work.write_json("before", ask(change.questions()))
    with change.applied():
        work.write_json("changed", ask(change.questions()))
    work.write_json("after", ask(change.questions()))


def _case_of(names: Sequence[str], opset: int) -> AbstractContextManager[None]:
    return trying(f"{len(names)} names at opset {opset}", names=list(names), opset=opset)


def _drawn_questions(work: Work) -> tuple[list[Question], _Change]:
    random = work.questions()
    return _questions(random), _Change.sample(random)


def judge_names(work: Work, random: np.random.Generator) -> None:
    """Only names that were asked about."""
    for (names, opset), answer in zip(_drawn_questions(work)[0], _read(work, "given", 5), strict=True):
        for name in answer:
            if not isinstance(name, str) or name not in names:
                msg = f"For opset {opset} the answer holds {str(name)[:80]!r}, which was not asked about."
                with _case_of(names, opset):
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
    change = _drawn_questions(work)[1]
    look_at = (
        "The same was asked before a rule was registered or taken back, while it was, and after. Is the "
        "registry asked at every call, and what if its group is empty?"
    )
    for file, registry in (
        ("before", nullcontext()),
        ("changed", change.applied()),
        ("after", nullcontext()),
    ):
        with registry:
            for (names, opset), answer in zip(change.questions(), _read(work, file, 2), strict=True):
                _compare(names, opset, answer, look_at)


def _read(work: Work, file: str, count: int) -> list[list[object]]:
    answers = work.json(file)
    if (
        not isinstance(answers, list)
        or len(answers) != count
        or not all(isinstance(answer, list) for answer in answers)
    ):
        msg = f"{file}.json does not hold {count} lists of names."
        raise Wrong(msg)
    return answers


def _judge(work: Work, selects: Callable[[int | None], bool], look_at: str) -> None:
    for (names, opset), answer in zip(_drawn_questions(work)[0], _read(work, "given", 5), strict=True):
        _compare([name for name in names if selects(_since(name))], opset, answer, look_at)


def _compare(names: Sequence[str], opset: int, answer: list[object], look_at: str) -> None:
    everyday_first = sorted(names, key=lambda name: (name.removeprefix("aten::") not in _EVERYDAY, name))
    for name in everyday_first:  # they are the clearer examples
        missing = not registration.registry.is_registered_op(name, opset)
        rule = torchscript_rule(name, opset)
        either_way = rule is not None and rule.refuses
        if (name in answer) != missing and not either_way:
            since = _since(name)
            fact = "there is no rule" if since is None else f"its first rule is for opset {since}"
            msg = f"{name} at opset {opset} is {'not ' if missing else ''}in the answer: {fact}."
            states = ["missing" if state else "not missing" for state in (missing, not missing)]
            with _case_of([name], opset):
                raise Wrong(msg, look_at, difference=Difference(f"{name} at opset {opset}", *states))


def _since(name: str) -> int | None:
    group = registration.registry.get_function_group(name)
    return min(group._functions, default=None) if group else None


EXERCISE = Exercise(
    order=1,
    id="missing-rules",
    title="Find the operators that have no rule at an opset",
    points=3,
    answers=("missing_rules",),
    produce=produce,
    parts=(
        Part("only names that were asked about", judge_names),
        Part("right for operators that have no rule at all", judge_without),
        Part("right for operators whose rule begins at some opset", judge_opset),
        Part("the registry is asked anew at every call", judge_live),
    ),
    hints=(
        "The registry of the TorchScript exporter is an ordinary Python object. Which of its methods takes a "
        "name and an opset?",
        "`registry.is_registered_op(name, opset)` answers for one operator.",
        "`return [name for name in names if not registry.is_registered_op(name, opset)]`",
    ),
)
