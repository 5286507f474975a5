"""Exercise: the dynamic axes for the inputs that a model must accept, and no others.

The statement as properties, each with what is drawn for it:

- each case is taken: axes that differ in one case only, whichever of eight; eight axes, nine inputs
- any other size of the other axes is refused: one case, the first axis, axes of size 1
- all cases have the same names, in any order; the first one is the example; inputs without axes, sizes of 0
- two axes share a name only if they share all sizes: orders, sums, products, ends and digits that agree;
  inputs whose names differ in their case, their ends, or a dot; more dynamic axes than there are letters
- names are texts that are not blank
- `cases` stays as it is, and each list is new: the same names and example again with other cases
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

import numpy as np

from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import require_type
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.message import Message

Case: TypeAlias = Mapping[str, tuple[int, ...]]
"""The shapes of one set of inputs, by the input's name."""

_NAMES = ("image", "mask", "sound", "tokens", "weights", "boxes")


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
        ("x", "X"), ("x.1", "x_1"), ("image", "images"), ("x", "x_"), ("input_1", "input_11"),
        ("left/a", "left/b"),
    )  # fmt: skip
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
        with case_of(cases):
            given = [dict(case) for case in cases]
            answered.append(_packed(answers["dynamic_axes_for"](given)))
            if given != cases:
                msg = "The list `cases` was changed by the call."
                raise Wrong(msg, "It belongs to the caller. Which line of yours writes to it, or to a case?")
    work.write_json("axes", answered)


def case_of(cases: Sequence[Case]) -> AbstractContextManager[None]:
    """Attach the cases to whatever is raised in the block."""
    return trying(Message("the cases {sizes}", sizes=case_sizes(cases)), cases=cases)


def _packed(answer: object) -> list[list[object]]:
    """Return an answer as lists of pairs, because keys in JSON are always texts."""
    require_type(answer, dict, "dynamic_axes_for(cases)")
    assert isinstance(answer, dict)
    pairs: list[list[object]] = []
    for name, named in answer.items():
        if not isinstance(named, dict):
            msg = Message(
                "For {name!r} there is {named}; a dict from axis to name was expected.",
                name=str(name)[:40],
                named=str(named)[:60],
            )
            look_at = "As in {'image': {0: 'batch'}}: a list of axes would leave their names to the exporter."
            raise Wrong(msg, look_at)
        pairs.append([_plain(name), [[_plain(axis), _plain(label)] for axis, label in named.items()]])
    return pairs


def _plain(value: object) -> object:
    # The whole numbers of NumPy and torch are as good as Python's; JSON knows only the last.
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return int(value) if hasattr(value, "__index__") else str(value)


def case_sizes(cases: Sequence[Case]) -> str:
    """Return cases as a short text: "x 1x3, y 4; x 2x3, y 4"."""
    texts = (
        ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in case.items()) for case in cases
    )
    return "; ".join(texts)
