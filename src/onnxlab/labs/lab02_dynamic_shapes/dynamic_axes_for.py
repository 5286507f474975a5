"""Exercise: from the inputs that a model must take to the axes that must be dynamic, and no others."""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import torch

from onnxlab.facts.export import Exporter, export
from onnxlab.facts.refusals import Refusal, parse_refusal
from onnxlab.facts.runtime import open_session
from onnxlab.labs.exercise import Answers, Exercise, Part
from onnxlab.labs.lab02_dynamic_shapes.axis_names import Axes, Case, packed, sizes, told, unpacked
from onnxlab.labs.outcome import Difference, Evidence, Wrong
from onnxlab.labs.work import Work

__all__ = ["EXERCISE"]

_NAMES = ("image", "mask", "sound", "tokens", "weights", "boxes")


class PlusOne(torch.nn.Module):
    """The module that is exported; it takes any shapes."""

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Any number of inputs."""
        return tuple(each + 1 for each in inputs)


def questions(random: np.random.Generator) -> list[list[Case]]:
    """Return lists of cases that differ in no axis, in one, in some; also in some of equal size."""
    fixed, side, batch = (int(size) for size in random.permutation(np.arange(3, 9))[:3])
    first, second, third = (str(name) for name in random.permutation(_NAMES)[:3])
    one: list[Case] = [{first: (fixed, side)}]
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
    return [one, batches, returning, square]


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Ask for the axes of each list of cases."""
    asked = questions(random)
    work.write_json(
        "axes", [packed(answers["dynamic_axes_for"]([dict(case) for case in cases])) for cases in asked]
    )


def _answered(work: Work) -> Iterator[tuple[list[Case], Axes]]:
    asked, given = questions(work.questions()), work.json("axes")
    if not isinstance(given, list) or len(given) != len(asked):
        msg = "There is not one answer for each list of cases."
        raise Wrong(msg)
    for cases, pairs in zip(asked, given, strict=True):
        yield cases, unpacked(pairs, cases)


def judge_axes(work: Work, random: np.random.Generator) -> None:
    """Only names and axes that are there."""
    for _ in _answered(work):
        pass


def judge_taken(work: Work, random: np.random.Generator) -> None:
    """A model exported with the answer takes every case."""
    for cases, axes in _answered(work):
        model = _exported(cases, axes)
        for number, case in enumerate(cases):
            if refusal := _refusal(model, case):
                msg = f"cases[{number}] is refused: {refusal.input}, {refusal.reason}."
                look = (
                    "Which sizes does that axis have over all cases, not only in the first or the last one?"
                )
                shown = Difference(told(cases), "every case runs", f"cases[{number}] is refused, with {axes}")
                raise Wrong(
                    msg, look, difference=shown, evidence=Evidence(model, _exported(cases, _right(cases)))
                )


def judge_refused(work: Work, random: np.random.Generator) -> None:
    """What has one size in every case keeps it."""
    for cases, axes in _answered(work):
        model = _exported(cases, axes)
        for name, axis in [(name, axis) for name, shape in cases[0].items() for axis in range(len(shape))]:
            size, *others = sizes(cases, name, axis)
            larger = tuple(each + (place == axis) for place, each in enumerate(cases[0][name]))
            if {size} >= set(others) and not _refusal(model, {**cases[0], name: larger}):
                msg = f"Axis {axis} of {name} is {size} in every case; yet the model also takes {size + 1}."
                look = "A dynamic axis gives up a check. Which axes have to?"
                shown = Difference(
                    told(cases), f"{told([{name: larger}])} is refused", f"it runs, with {axes}"
                )
                raise Wrong(
                    msg, look, difference=shown, evidence=Evidence(model, _exported(cases, _right(cases)))
                )


def judge_names(work: Work, random: np.random.Generator) -> None:
    """Two axes share a name only where they share all sizes."""
    for cases, axes in _answered(work):
        named = [(label, name, axis) for name, inner in axes.items() for axis, label in inner.items()]
        for (label, name, axis), (other_label, other, its_axis) in combinations(named, 2):
            ours, theirs = sizes(cases, name, axis), sizes(cases, other, its_axis)
            if label == other_label and ours != theirs:
                msg = f"{label!r} names axis {axis} of {name} and axis {its_axis} of {other}, of other sizes."
                look = "Readers take equal names for equal sizes, and torch.export may insist on it."
                shown = Difference(told(cases), f"two names, for {ours} and {theirs}", str(axes))
                raise Wrong(msg, look, difference=shown)


def _exported(cases: Sequence[Case], axes: Axes) -> bytes:
    example = tuple(torch.zeros(shape) for shape in cases[0].values())
    made = export(
        PlusOne(), example, Exporter.TORCHSCRIPT, run=False, input_names=list(cases[0]), dynamic_axes=axes
    )
    data: bytes = made.proto.SerializeToString()
    return data


def _right(cases: Sequence[Case]) -> Axes:
    axes: Axes = {}
    for name, shape in cases[0].items():
        for axis in range(len(shape)):
            if len(set(sizes(cases, name, axis))) > 1:
                axes.setdefault(name, {})[axis] = f"{name}_{axis}"
    return axes


def _refusal(model: bytes, case: Case) -> Refusal | None:
    try:
        open_session(model).run(None, {name: np.zeros(shape, np.float32) for name, shape in case.items()})
    except Exception as error:  # the runtime raises many kinds
        return parse_refusal(error)
    return None


EXERCISE = Exercise(
    id="dynamic-axes-for",
    title="Choose the dynamic axes for given inputs, and no others",
    points=5,
    answers=("dynamic_axes_for",),
    produce=produce,
    parts=(
        Part("names only inputs and axes that are there", judge_axes),
        Part("the exported model takes every case", judge_taken),
        Part("it still refuses other sizes of the other axes", judge_refused),
        Part("two axes of one name have one size in every case", judge_names),
    ),
    hints=(
        "An axis has to be dynamic if two of the cases differ in it. Go through inputs and axes one by one.",
        "The sizes of one axis: `{case[name][axis] for case in cases}`. How many has an axis that is fixed?",
        "Two loops: `for name, shape in cases[0].items()`, `for axis in range(len(shape))`. Where that set "
        'has more than one size, `axes.setdefault(name, {})[axis] = f"{name}_{axis}"`.',
    ),
    holds_for="torch 2.13, onnx 1.23, onnxruntime 1.31",
)
