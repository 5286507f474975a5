"""A learner's names for dynamic axes, on their way through a file, and what is sound about them."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from onnxlab.labs.kit.exporting import require_type
from onnxlab.labs.kit.outcome import Difference, Wrong

__all__ = ["Axes", "Case", "case_sizes", "packed", "require_sound", "sizes", "unpacked"]

Case: TypeAlias = Mapping[str, tuple[int, ...]]
"""The shapes of one set of inputs, by the input's name."""

Axes: TypeAlias = dict[str, dict[int, str]]
"""The names of the dynamic axes, by input and axis."""

_PLAIN = (str, int, float, bool, type(None))
_LIST = "As in {'image': {0: 'batch'}}: a list of axes would leave their names to the exporter."


def packed(answer: object) -> list[list[object]]:
    """Return an answer as lists: a key of JSON can only be a text.

    Raises:
        Wrong: If it is not a dict of dicts.

    Example:
        >>> packed({"image": {0: "batch"}})
        [['image', [[0, 'batch']]]]
    """
    require_type(answer, dict, "dynamic_axes_for(cases)")
    assert isinstance(answer, dict)
    pairs: list[list[object]] = []
    for name, named in answer.items():
        if not isinstance(named, dict):
            msg = f"For {str(name)[:40]!r} there is {str(named)[:60]}; a dict from axis to name was expected."
            raise Wrong(msg, _LIST)
        pairs.append([_plain(name), [[_plain(axis), _plain(label)] for axis, label in named.items()]])
    return pairs


def unpacked(pairs: object, cases: Sequence[Case]) -> Axes:
    """Return the answer again, as far as it can be used.

    An entry for what the cases do not have is left out: the TorchScript exporter would end the process over
    some of these. A name that is none is replaced. `require_sound` says what was wrong.

    Example:
        >>> unpacked([["image", [[0, "batch"], [-1, "width"]]], ["x", []]], [{"image": (1, 3)}])
        {'image': {0: 'batch'}}
    """
    axes: Axes = {}
    for name, named in _pairs(pairs):
        if isinstance(name, str) and name in cases[0]:
            found = [(axis, label) for axis, label in _pairs(named) if _is_axis(cases, name, axis)]
            axes[name] = {axis: label if _is_name(label) else f"{name}_{axis}" for axis, label in found}
    return axes


def require_sound(pairs: object, cases: Sequence[Case]) -> None:
    """Require that an answer names inputs and axes that the cases have.

    Raises:
        Wrong: With the first entry that does not.
    """
    for name, named in _pairs(pairs):
        if not isinstance(name, str) or name not in cases[0]:
            msg = f"There is no input {str(name)[:40]!r}; the inputs are {', '.join(cases[0])}."
            raise Wrong(msg, "Where do the names in your dict come from?", difference=_shown(cases, pairs))
        for axis, label in _pairs(named):
            rank = len(cases[0][name])
            if not _is_axis(cases, name, axis):
                shown = str(repr(axis))[:20]
                msg = f"{name} has the axes 0 to {rank - 1}; {shown} is none of them."
                look = "An axis is a whole number, from 0. What the exporters make of -1, chapter 04 shows."
                if isinstance(axis, str):
                    msg = f"An axis of {name} is given as a text, {shown}; it has to be a whole number."
                    look = "Where does the text come from? In {'image': {0: 'batch'}} only names are quoted."
                raise Wrong(msg, look, difference=_shown(cases, {name: axis}))
            if not _is_name(label):
                msg = f"Axis {axis} of {name} is called {str(repr(label))[:40]}."
                look = "The name of an axis is a text that is not empty, like 'batch'."
                raise Wrong(msg, look, difference=_shown(cases, {axis: label}))


def _is_axis(cases: Sequence[Case], name: str, axis: object) -> bool:
    return isinstance(axis, int) and not isinstance(axis, bool) and 0 <= axis < len(cases[0][name])


def _is_name(label: object) -> bool:
    return isinstance(label, str) and bool(label.strip())  # both exporters take any other text


def _shown(cases: Sequence[Case], got: object) -> Difference:
    return Difference(case_sizes(cases), "inputs and axes of these cases", str(got)[:80])


def _pairs(pairs: object) -> list[tuple[Any, Any]]:
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        msg = f"Names and axes were expected, not {str(pairs)[:60]}."
        raise Wrong(msg)
    return [(pair[0], pair[1]) for pair in pairs]


def _plain(value: object) -> object:
    # The whole numbers of NumPy and torch are as good as Python's; JSON knows only the last.
    if isinstance(value, _PLAIN):
        return value
    return int(value) if hasattr(value, "__index__") else str(value)


def sizes(cases: Sequence[Case], name: str, axis: int) -> list[int]:
    """Return the sizes of one axis, case by case.

    >>> sizes([{"x": (1, 3)}, {"x": (2, 3)}], "x", 0)
    [1, 2]
    """
    return [case[name][axis] for case in cases]


def case_sizes(cases: Sequence[Case]) -> str:
    """Return cases as a short text.

    >>> case_sizes([{"x": (1, 3), "y": (4,)}, {"x": (2, 3), "y": (4,)}])
    'x 1x3, y 4; x 2x3, y 4'
    """
    texts = (
        ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in case.items()) for case in cases
    )
    return "; ".join(texts)
