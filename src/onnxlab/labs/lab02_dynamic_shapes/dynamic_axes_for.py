"""Exercise: the dynamic axes for the inputs that a model must take, and no others.

The statement as properties, each with what is drawn for it:

- each case is taken: axes that differ in one case only, whichever of eight; eight axes, nine inputs
- any other size of the other axes is refused: one case, the first axis, axes of size 1
- all cases have the same names, in any order; the first one is the example; inputs without axes, sizes of 0
- two axes share a name only if they share all sizes: orders, sums, products, ends and digits that agree;
  inputs whose names differ in their case, their ends, or a dot; more dynamic axes than there are letters
- names are texts that are not blank
- `cases` stays as it is, and each list is new: the same names and example again with other cases
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
import torch

from onnxlab.exporters.export import Exporter, export
from onnxlab.labs.kit.exercise import Answers, Judges
from onnxlab.labs.kit.exporting import require_type
from onnxlab.labs.kit.outcome import Difference, Evidence, Wrong, trying
from onnxlab.labs.kit.work import Work
from onnxlab.runtime.refusals import Refusal, parse_refusal
from onnxlab.runtime.session import open_session

__all__ = ["JUDGES", "produce"]

Case: TypeAlias = Mapping[str, tuple[int, ...]]
"""The shapes of one set of inputs, by the input's name."""

Axes: TypeAlias = dict[str, dict[int, str]]
"""The names of the dynamic axes, by input and axis."""

_NAMES = ("image", "mask", "sound", "tokens", "weights", "boxes")


class PlusOne(torch.nn.Module):
    """The module that is exported; it takes inputs of any shape."""

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Any number of inputs."""
        return tuple(x + 1 for x in inputs)


def questions(random: np.random.Generator) -> list[list[Case]]:
    """Return lists of cases: some that show a typical mistake, and some of random shapes."""
    fixed, side, batch = (int(size) for size in random.permutation(np.arange(3, 9))[:3])
    first, second, third = (str(name) for name in random.permutation(_NAMES)[:3])
    single: list[Case] = [{first: (fixed, side)}]
    batches: list[Case] = [{first: (size, fixed, 4)} for size in (1, batch, batch + 1)]
    # The first and the last case have the same image, the cases between do not.
    returning: list[Case] = [
        {first: (1, fixed, tall, tall + 1), second: (length,)}
        for tall, length in ((side, 5), (side + 3, 5), (side, 5), (side, 2))
    ]
    # The example is square, the other cases are not; the third input never changes.
    square: list[Case] = [
        {third: (size, 3, tall, wide), second: (size, tall), first: (fixed,)}
        for size, tall, wide in ((2, side, side), (4, side, side + 1), (2, side + 2, side))
    ]
    channels: list[Case] = [{second: (2, size, side, side)} for size in (batch, 1)]
    last_two: list[Case] = [{first: (fixed, tall, wide)} for tall, wide in ((side, 6), (side + 1, 7))]
    # The same sizes in another order, with the same ends; the third input shares those of the first.
    low, middle, high = (int(size) for size in np.sort(random.permutation(np.arange(1, 9))[:3]))
    orders: list[Case] = [
        {third: (size, fixed), second: (other,), first: (size,)}
        for size, other in ((middle, middle), (high, low), (low, high), (middle, middle))
    ]
    # Of the same largest size and of the same sum.
    alike: list[Case] = [{first: (2, size), second: (other,)} for size, other in ((4, 4), (1, 3), (4, 2))]
    alike.append({first: (2, 1), second: (1,)})
    lists = [single, batches, returning, square, channels, last_two, orders, alike]
    lists = [lists[place] for place in random.permutation(len(lists))] + [_cases(random), _cases(random)]
    lists += [_single_differences(random), _digits(random), _many_axes(random), *_alike_names(random)]
    # The same names and the same example as in the first list, in the other order of cases, and again.
    name = next(iter(lists[0][0]))
    example = lists[0][0]
    grown = {**example, name: tuple(size + 1 for size in example[name])}
    return [*lists, [example, grown], [example, example], lists[0]]


def _single_differences(random: np.random.Generator) -> list[Case]:
    """Eight cases; each axis but the last differs from its other sizes in one of them."""
    name, other = (str(name) for name in random.permutation(_NAMES)[:2])
    base = 2
    return [
        {
            name: (*(base + 1 if axis == case else base for axis in range(1, 5)), base),
            other: tuple(base + 1 if axis == case else base for axis in range(5, 8)),
        }
        for case in range(8)
    ]


def _digits(random: np.random.Generator) -> list[Case]:
    """Sizes whose digits, without what stands between them, are the same; and others of equal product."""
    name, other, third = (str(name) for name in random.permutation(_NAMES)[:3])
    sizes = ((1, 12), (11, 2)), ((1, 1), (12, 2)), ((2, 6), (3, 4)), ((3, 0), (3, 3)), ((5, 5), (5, 5))
    first, second, product, empty, fixed = sizes
    return [
        {
            name: (first[0][i], product[0][i]),
            other: (first[1][i], product[1][i]),
            third: (empty[0][i], second[0][i]),
        }
        | {f"{third}_scalar": (), f"{third}_fixed": (fixed[0][i], second[1][i])}
        for i in (0, 1)
    ]


def _many_axes(random: np.random.Generator) -> list[Case]:
    """Nine inputs with eight axes, nearly all of them dynamic; later cases have other orders of inputs."""
    names = [str(name) for name in random.permutation(_NAMES)]
    names += [f"{name}_2" for name in names[:3]]
    sizes = random.integers(1, 4, (len(names), 8, 4))
    sizes[:, 5, :] = sizes[:, 5, :1]  # one that is fixed
    shapes = [{name: tuple(map(int, sizes[i, :, case])) for i, name in enumerate(names)} for case in range(4)]
    return [shapes[0]] + [{name: shape[name] for name in random.permutation(names)} for shape in shapes[1:]]


def _alike_names(random: np.random.Generator) -> list[list[Case]]:
    """Names that are easily taken for one another, with other sizes each."""
    pairs = (
        ("x", "X"),
        ("x.1", "x_1"),
        ("image", "images"),
        ("x", "x_"),
        ("input_1", "input_11"),
        ("left/a", "left/b"),
    )
    low, high = (int(size) for size in np.sort(random.permutation(np.arange(1, 9))[:2]))
    return [[{a: (low, high), b: (high, low)}, {b: (low, high), a: (low, low)}] for a, b in pairs]


def _cases(random: np.random.Generator) -> list[Case]:
    """One to three inputs with one to four axes; about half of the axes differ, some of them together."""
    names = [str(name) for name in random.permutation(_NAMES)[: int(random.integers(1, 4))]]
    count = int(random.integers(2, 6))
    shared = random.integers(1, 7, count)
    columns = {}
    for name in names:
        kinds = random.integers(0, 4, int(random.integers(1, 5)))
        columns[name] = [
            shared if kind == 0 else random.integers(1, 7, 1 if kind > 1 else count) for kind in kinds
        ]
    return [
        {name: tuple(int(sizes[case % len(sizes)]) for sizes in columns[name]) for name in names}
        for case in range(count)
    ]


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Call the answer with each list of cases, and write the axes that it returns."""
    answered = []
    for cases in questions(random):
        with _case_of(cases):
            given = [dict(case) for case in cases]
            answered.append(_packed(answers["dynamic_axes_for"](given)))
            if given != cases:
                msg = "The list `cases` was changed by the call."
                raise Wrong(msg, "It belongs to the caller. Which line of yours writes to it, or to a case?")
    work.write_json("axes", answered)


def _case_of(cases: Sequence[Case]) -> AbstractContextManager[None]:
    return trying(f"the cases {_case_sizes(cases)}", cases=cases)


def _packed_answers(work: Work) -> Iterator[tuple[list[Case], object]]:
    lists, answers = questions(work.questions()), work.json("axes")
    if not isinstance(answers, list) or len(answers) != len(lists):
        msg = "There is not one answer for each list of cases."
        raise Wrong(msg)
    yield from zip(lists, answers, strict=True)


def _answers(work: Work) -> Iterator[tuple[list[Case], Axes]]:
    for cases, pairs in _packed_answers(work):
        yield cases, _unpacked(pairs, cases)


def judge_axes(work: Work, random: np.random.Generator) -> None:
    """Only inputs and axes that the cases have."""
    for cases, pairs in _packed_answers(work):
        with _case_of(cases):
            _require_valid_axes(pairs, cases)


def judge_taken(work: Work, random: np.random.Generator) -> None:
    """A model exported with the answer takes every case."""
    for cases, axes in _answers(work):
        model = _exported(cases, axes)
        session = open_session(model)
        for number, case in enumerate(cases):
            if refusal := _refusal(session, case):
                msg = f"cases[{number}] is refused: {refusal.input}, {refusal.reason}."
                look_at = (
                    "Which sizes does that axis have over all cases, not only in the first or the last one?"
                )
                got = f"cases[{number}] is refused, with {axes}"
                shown = Difference(_case_sizes(cases), "every case runs", got)
                graphs = Evidence(model, _exported(cases, _right(cases)))
                with _case_of(cases):
                    raise Wrong(msg, look_at, difference=shown, evidence=graphs)


def judge_refused(work: Work, random: np.random.Generator) -> None:
    """An axis with one size in all cases takes no other size."""
    for cases, axes in _answers(work):
        model = _exported(cases, axes)
        session = open_session(model)
        for name, axis in [(name, axis) for name, shape in cases[0].items() for axis in range(len(shape))]:
            size, *others = _sizes(cases, name, axis)
            larger = tuple(length + (place == axis) for place, length in enumerate(cases[0][name]))
            if {size} >= set(others) and not _refusal(session, {**cases[0], name: larger}):
                msg = f"Axis {axis} of {name} is {size} in every case; yet the model also takes {size + 1}."
                look_at = "A dynamic axis gives up a check. Which axes have to?"
                shown = Difference(
                    _case_sizes(cases), f"{_case_sizes([{name: larger}])} is refused", f"it runs, with {axes}"
                )
                graphs = Evidence(model, _exported(cases, _right(cases)))
                with _case_of(cases):
                    raise Wrong(msg, look_at, difference=shown, evidence=graphs)


def judge_names(work: Work, random: np.random.Generator) -> None:
    """Two axes share a name only where they share all sizes."""
    for cases, axes in _answers(work):
        named = [(label, name, axis) for name, inner in axes.items() for axis, label in inner.items()]
        for (label, name, axis), (other_label, other, its_axis) in combinations(named, 2):
            ours, theirs = _sizes(cases, name, axis), _sizes(cases, other, its_axis)
            if label == other_label and ours != theirs:
                msg = f"{label!r} names axis {axis} of {name} and axis {its_axis} of {other}, of other sizes."
                look_at = "Readers take equal names for equal sizes, and torch.export may insist on it."
                shown = Difference(_case_sizes(cases), f"two names, for {ours} and {theirs}", str(axes))
                with _case_of(cases):
                    raise Wrong(msg, look_at, difference=shown)


def _exported(cases: Sequence[Case], axes: Axes) -> bytes:
    named = tuple((name, tuple(labels.items())) for name, labels in axes.items())
    return _exported_example(tuple(cases[0].items()), named)


@lru_cache(32)  # two parts ask for the same models
def _exported_example(
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    named: tuple[tuple[str, tuple[tuple[int, str], ...]], ...],
) -> bytes:
    example = tuple(torch.zeros(shape) for _, shape in shapes)
    axes = {name: dict(labels) for name, labels in named}
    names = [name for name, _ in shapes]
    result = export(PlusOne(), example, Exporter.TORCHSCRIPT, run=False, input_names=names, dynamic_axes=axes)
    model: bytes = result.proto.SerializeToString()
    return model


def _right(cases: Sequence[Case]) -> Axes:
    axes: Axes = {}
    for name, shape in cases[0].items():
        for axis in range(len(shape)):
            if len(set(_sizes(cases, name, axis))) > 1:
                axes.setdefault(name, {})[axis] = f"{name}_{axis}"
    return axes


def _refusal(session: ort.InferenceSession, case: Case) -> Refusal | None:
    try:
        session.run(None, {name: np.zeros(shape, np.float32) for name, shape in case.items()})
    except Exception as error:  # the runtime raises many kinds
        return parse_refusal(error)
    return None


def _packed(answer: object) -> list[list[object]]:
    """Return an answer as lists of pairs, because keys in JSON are always texts."""
    require_type(answer, dict, "dynamic_axes_for(cases)")
    assert isinstance(answer, dict)
    pairs: list[list[object]] = []
    for name, named in answer.items():
        if not isinstance(named, dict):
            msg = f"For {str(name)[:40]!r} there is {str(named)[:60]}; a dict from axis to name was expected."
            look_at = "As in {'image': {0: 'batch'}}: a list of axes would leave their names to the exporter."
            raise Wrong(msg, look_at)
        pairs.append([_plain(name), [[_plain(axis), _plain(label)] for axis, label in named.items()]])
    return pairs


def _plain(value: object) -> object:
    # The whole numbers of NumPy and torch are as good as Python's; JSON knows only the last.
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return int(value) if hasattr(value, "__index__") else str(value)


def _unpacked(pairs: object, cases: Sequence[Case]) -> Axes:
    """Return the usable part of an answer as a dict.

    Inputs and axes that the cases do not have are left out: some would crash the TorchScript exporter.
    Invalid labels are replaced. `_require_valid_axes` reports both.
    """
    axes: Axes = {}
    for name, named in _pairs(pairs):
        if isinstance(name, str) and name in cases[0]:
            labels = [(axis, label) for axis, label in _pairs(named) if _is_axis(cases, name, axis)]
            axes[name] = {axis: label if _is_name(label) else f"{name}_{axis}" for axis, label in labels}
    return axes


def _require_valid_axes(pairs: object, cases: Sequence[Case]) -> None:
    """Require that an answer has only inputs and axes of the cases, and labels that are texts."""

    def difference(got: object) -> Difference:
        return Difference(_case_sizes(cases), "inputs and axes of these cases", str(got)[:80])

    for name, named in _pairs(pairs):
        if not isinstance(name, str) or name not in cases[0]:
            msg = f"There is no input {str(name)[:40]!r}; the inputs are {', '.join(cases[0])}."
            raise Wrong(msg, "Where do the names in your dict come from?", difference=difference(pairs))
        for axis, label in _pairs(named):
            rank = len(cases[0][name])
            if not _is_axis(cases, name, axis):
                shown = str(repr(axis))[:20]
                msg = f"{name} has the axes 0 to {rank - 1}; {shown} is none of them."
                look_at = (
                    "An axis is a whole number, from 0. What the exporters make of -1, chapter 04 shows."
                )
                if isinstance(axis, str):
                    msg = f"An axis of {name} is given as a text, {shown}; it has to be a whole number."
                    look_at = (
                        "Where does the text come from? In {'image': {0: 'batch'}} only names are quoted."
                    )
                raise Wrong(msg, look_at, difference=difference({name: axis}))
            if not _is_name(label):
                msg = f"Axis {axis} of {name} is called {str(repr(label))[:40]}."
                look_at = "The name of an axis is a text that is not blank, like 'batch'."
                raise Wrong(msg, look_at, difference=difference({axis: label}))


def _pairs(pairs: object) -> list[tuple[Any, Any]]:
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        msg = f"Names and axes were expected, not {str(pairs)[:60]}."
        raise Wrong(msg)
    return [(pair[0], pair[1]) for pair in pairs]


def _is_axis(cases: Sequence[Case], name: str, axis: object) -> bool:
    return isinstance(axis, int) and not isinstance(axis, bool) and 0 <= axis < len(cases[0][name])


def _is_name(label: object) -> bool:
    return isinstance(label, str) and bool(label.strip())  # both exporters take any other text


def _sizes(cases: Sequence[Case], name: str, axis: int) -> list[int]:
    return [case[name][axis] for case in cases]


def _case_sizes(cases: Sequence[Case]) -> str:
    """Return cases as a short text: "x 1x3, y 4; x 2x3, y 4"."""
    texts = (
        ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in case.items()) for case in cases
    )
    return "; ".join(texts)


JUDGES = Judges((judge_axes, judge_taken, judge_refused, judge_names))
