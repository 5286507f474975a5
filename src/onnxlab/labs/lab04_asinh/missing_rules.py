"""Exercise: which operators have no rule in the TorchScript exporter, asked of its live registry."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

# torch has no public view of this registry.
from torch.onnx._internal.torchscript_exporter import registration, utils

from onnxlab.facts.support import known_operators
from onnxlab.facts.support_rules import torchscript_rule
from onnxlab.facts.symbolics import own_rules, restored_rules
from onnxlab.labs.exercise import Answers, Exercise, Part
from onnxlab.labs.exporting import require_type
from onnxlab.labs.outcome import Difference, Wrong
from onnxlab.labs.work import Work

__all__ = ["EXERCISE"]

_NEW = 14  # the opset of the rules that are registered while the question is asked

# Everyday operators: some have a rule from 9 on, some from a later opset, some have none.
_EVERYDAY = """
    relu sigmoid silu softmax conv2d add asinh acosh atanh sinh cosh sin erf gelu layer_norm einsum triu tril
    celu hardswish grid_sampler upsample_bicubic2d upsample_bilinear2d scaled_dot_product_attention round
    lgamma digamma huber_loss bitwise_and bitwise_right_shift logdet max_pool2d unfold im2col cumsum
""".split()  # noqa: SIM905 - as a list it would be a line for each


def _questions(random: np.random.Generator) -> list[tuple[list[str], int]]:
    """Names and an opset, three times."""
    known = [name for name in known_operators() if not name.endswith("_") and not name[6:].startswith("_")]
    asked = []
    for opset in (9, int(random.integers(10, 14)), 20):
        names = {f"aten::{each}" for each in random.choice(_EVERYDAY, 24, replace=False)}
        names |= {
            *map(str, random.choice(known, 16, replace=False)),
            "aten::asinh",
            "aten::upsample_bicubic2d",
        }
        asked.append((list(map(str, random.permutation(sorted(names)))), opset))
    return asked


@contextmanager
def _changed() -> Iterator[None]:
    """The registry after somebody gave lgamma a rule, and gave one to digamma and took it back."""
    with restored_rules():
        for name in ("aten::lgamma", "aten::digamma"):
            utils.register_custom_op_symbolic(name, lambda g, x: g.op("Identity", x), _NEW)
        utils.unregister_custom_op_symbolic("aten::digamma", _NEW)
        yield


def _changed_questions() -> list[tuple[list[str], int]]:
    names = ["aten::relu", "aten::lgamma", "aten::digamma", "aten::asinh"]
    return [(names, _NEW), (names, _NEW - 1)]


@own_rules()  # a rule that the notebook left registered is not what the exercise is about
def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Ask with the registry as it is, and once more after it was changed."""

    def ask(questions: list[tuple[list[str], int]]) -> list[list[object]]:
        given = []
        for names, opset in questions:
            value = answers["missing_rules"](list(names), opset)
            require_type(value, (list, tuple, set, frozenset), "missing_rules()")
            given.append(list(value))
        return given

    work.write_json("given", ask(_questions(random)))
    with _changed():
        work.write_json("changed", ask(_changed_questions()))


def judge_names(work: Work, random: np.random.Generator) -> None:
    """Nothing but names that were asked about."""
    for (names, opset), given in zip(_questions(work.questions()), _read(work, "given", 3), strict=True):
        for name in given:
            if not isinstance(name, str) or name not in names:
                msg = f"For opset {opset} the answer holds {str(name)[:80]!r}, which was not asked about."
                raise Wrong(msg, "Return some of the names, spelt as they were given: 'aten::asinh'.")


@own_rules()
def judge_without(work: Work, random: np.random.Generator) -> None:
    """Operators without a rule at any opset."""
    _judge(
        work,
        lambda since: since is None,
        "Does registry.get_function_group(name) know this operator? What does it return if it does not?",
    )


@own_rules()
def judge_opset(work: Work, random: np.random.Generator) -> None:
    """Operators whose rule begins at some opset."""
    _judge(
        work,
        lambda since: since is not None,
        "A rule written for one opset counts from there on. Compare the opset asked for with that one.",
    )


@own_rules()
def judge_live(work: Work, random: np.random.Generator) -> None:
    """The registry as it is when it is asked."""
    with _changed():
        for (names, opset), given in zip(_changed_questions(), _read(work, "changed", 2), strict=True):
            _compare(
                [name for name in names if name != "aten::asinh"],
                opset,
                given,
                "This rule was registered, or taken back again, a moment before the question. Is the "
                "registry asked at every call, and what if its group is empty?",
            )


def _read(work: Work, file: str, count: int) -> list[list[object]]:
    given = work.json(file)
    if (
        not isinstance(given, list)
        or len(given) != count
        or not all(isinstance(each, list) for each in given)
    ):
        msg = f"{file}.json does not hold {count} lists of names."
        raise Wrong(msg)
    return given


def _judge(work: Work, asked: Callable[[int | None], bool], look_at: str) -> None:
    for (names, opset), given in zip(_questions(work.questions()), _read(work, "given", 3), strict=True):
        _compare([name for name in names if asked(_since(name))], opset, given, look_at)


def _compare(names: Sequence[str], opset: int, given: list[object], look_at: str) -> None:
    for name in sorted(names, key=_since_known):
        missing = not registration.registry.is_registered_op(name, opset)
        rule = torchscript_rule(name, opset)
        if (name in given) != missing and not (
            rule and rule.refuses
        ):  # such a rule can be counted either way
            since = _since(name)
            fact = "there is no rule" if since is None else f"its first rule is for opset {since}"
            msg = f"{name} at opset {opset} is {'not ' if missing else ''}in the answer: {fact}."
            sides = ["missing" if side else "not missing" for side in (missing, not missing)]
            raise Wrong(msg, look_at, difference=Difference(f"{name} at opset {opset}", sides[0], sides[1]))


def _since(name: str) -> int | None:
    group = registration.registry.get_function_group(name)
    return min(group._functions, default=None) if group else None


def _since_known(name: str) -> tuple[bool, str]:
    """Everyday names first: they are the clearer examples."""
    return name.removeprefix("aten::") not in _EVERYDAY, name


EXERCISE = Exercise(
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
    holds_for="torch 2.13, onnx 1.23, onnxruntime 1.31",
)
