"""Exercise: find the operators without a rule in the TorchScript exporter's live registry.

The statement as properties, each with what is drawn for it:

- the names that have no rule at the opset: everyday operators, ones of other namespaces, more than 40 at once
- at that opset, 9 to 20: each of them, with the operators whose first rule begins there and one later
- names are compared letter by letter: parts of names that have a rule, other cases, overloads, namespaces
- some of the names, in a list or set; an empty one if nothing is missing, or nothing was asked about
- `names` stays as it is
- rules that are registered or taken back between two calls: for operators with a group and without one, in
  two changes that leave equally many groups; each question before, during and after, also twice in a row
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

# torch has no public view of this registry.
from torch.onnx._internal.torchscript_exporter import registration, utils

from onnxlab.exporters.symbolics import own_rules, restored_rules
from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import require_type
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.message import Message
from onnxlab.operators import known_operators

# Everyday operators: some have a rule from 9 on, some from a later opset, some have none.
EVERYDAY = """
    relu sigmoid silu softmax conv2d add asinh acosh atanh sinh cosh sin erf gelu layer_norm einsum triu tril
    celu hardswish grid_sampler upsample_bicubic2d upsample_bilinear2d scaled_dot_product_attention round
    lgamma digamma huber_loss bitwise_and bitwise_right_shift logdet max_pool2d unfold im2col cumsum
""".split()  # noqa: SIM905 - as a list it would be a line for each
_WITHOUT = ("asinh", "acosh", "atanh", "sinh", "cosh", "lgamma", "digamma", "expm1", "erfc", "hypot")
_LATER = ("triu", "tril", "einsum", "bitwise_and")
_OPSETS = range(9, 21)


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

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Change the registry for a block."""
        with restored_rules():
            for name in (self.registered, self.taken_back, self.earlier, self.own):
                utils.register_custom_op_symbolic(name, lambda g, x: g.op("Identity", x), self.opset)
            utils.unregister_custom_op_symbolic(self.taken_back, self.opset)
            yield


@dataclass(frozen=True)
class Live:
    """The states of the registry and what is asked in each."""

    states: tuple[_Change | None, ...]
    questions: tuple[Question, ...]

    @classmethod
    def sample(cls, random: np.random.Generator) -> "Live":
        """Draw the operators that get a rule or lose one, and the questions."""
        without = [f"aten::{name}" for name in random.choice(_WITHOUT, 4, replace=False)]
        later = [f"aten::{name}" for name in random.choice(_LATER, 2, replace=False)]
        own = [f"mine::operator_{number}" for number in random.choice(1000, 2, replace=False)]
        opset = int(random.integers(10, 14))
        first, second = (_Change(without[i], without[2 + i], later[i], own[i], opset) for i in range(2))
        names = ["aten::relu", *without, *later, *own, f"aten::{own[0][6:]}"]
        questions = tuple((names, asked) for asked in (opset - 1, 20, opset))
        return cls((None, first, second, None), questions)

    def asked(self) -> Iterator[tuple[int, Question]]:
        """Yield the number of a state with each question. It begins with the last one of the state before."""
        for number, state in enumerate(self.states):
            with state.applied() if state else nullcontext():
                for question in self.questions[:: -1 if number % 2 else 1]:
                    yield number, question


def draw_questions(random: np.random.Generator) -> list[Question]:
    """Return a question for each opset, and two whose right answer is empty."""
    groups = registration.registry._registry
    rules = sorted(name for name in groups if groups[name]._functions._base)  # the exporter's own
    known = [name for name in known_operators() if not name.endswith("_") and not name[6:].startswith("_")]
    begin = {name: first_opset(name) for name in rules}
    questions = []
    for opset in _OPSETS:
        names = {f"aten::{name}" for name in random.choice(EVERYDAY, 16, replace=False)}
        names |= {"aten::asinh", "aten::upsample_bicubic2d", "prim::size", "quantized::sub", "mine::relu"}
        names |= {*_drawn(random, known, 8), *_drawn(random, rules, 8), *_near_names(random, rules)}
        for since in (opset, opset + 1):
            names |= {*_drawn(random, [name for name in rules if begin[name] == since], 5)}
        questions.append((list(map(str, random.permutation(sorted(names)))), opset))
    questions.append((["aten::relu", "aten::add", "aten::sigmoid"], int(random.integers(9, 21))))
    return [*questions, ([], 9)]


def _drawn(random: np.random.Generator, names: Sequence[str], count: int) -> list[str]:
    return list(map(str, random.permutation(np.array(names, dtype=object))[:count]))


def _near_names(random: np.random.Generator, rules: Sequence[str]) -> list[str]:
    """Return names without a rule that look like ones with a rule."""
    space, _, name = _drawn(random, [rule for rule in rules if rule.startswith("aten::")], 1)[0].partition(
        "::"
    )
    near = [
        "aten::rel", "aten::e_lu", "en::relu", f"{space}::{name}_{name}", f"mine::{name}",
        f"{space}::{name}.out",
    ]  # fmt: skip
    near += [
        f"{space}::{name}_",
        f"{space}::{name.upper()}",
        f"{space}::{name[:-1]}",
        f"{space}::{name[1:]}",
        name,
    ]
    return [other for other in near if other not in rules]


@own_rules()  # without rules that the notebook left registered
def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Ask about the registry as it is, and in each of its states."""

    def ask(names: list[str], opset: int) -> list[object]:
        with case_of(names, opset):
            given = list(names)
            value = answers["missing_rules"](given, opset)
            call = f"missing_rules([{names[0]!r}, ...], {opset})" if names else f"missing_rules([], {opset})"
            require_type(value, (list, tuple, set, frozenset), call)
            if given != names:
                msg = Message(
                    "The list `names` was changed: {name_count} names were given, {count} are left.",
                    name_count=len(names),
                    count=len(given),
                )
                raise Wrong(msg, "The list belongs to the caller. Which line of yours adds or removes names?")
        return list(value)

    work.write_json("given", [ask(*question) for question in draw_questions(random)])
    work.write_json("live", [ask(*question) for _, question in Live.sample(random).asked()])


def case_of(names: Sequence[str], opset: int) -> AbstractContextManager[None]:
    """Attach the question to whatever is raised in the block."""
    case = Message("{count} names at opset {opset}", count=len(names), opset=opset)
    return trying(case, names=list(names), opset=opset)


def first_opset(name: str) -> int | None:
    """Return the first opset for which an operator has a rule; None if it has none."""
    group = registration.registry.get_function_group(name)
    return min(group._functions, default=None) if group else None
