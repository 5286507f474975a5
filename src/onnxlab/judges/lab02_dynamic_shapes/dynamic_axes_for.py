"""What is right in dynamic-axes-for, part by part."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
import torch

from onnxlab.exporters.export import Exporter, export
from onnxlab.kit.exercise import Judges
from onnxlab.kit.outcome import Difference, Evidence, Wrong
from onnxlab.kit.work import Work
from onnxlab.labs.lab02_dynamic_shapes.dynamic_axes_for import Case, case_of, case_sizes, questions
from onnxlab.message import Message
from onnxlab.runtime.refusals import Refusal, parse_refusal
from onnxlab.runtime.session import open_session

Axes: TypeAlias = dict[str, dict[int, str]]
"""The names of the dynamic axes, by input and axis."""


class PlusOne(torch.nn.Module):
    """The module that is exported; it accepts inputs of any shape."""

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Any number of inputs."""
        return tuple(x + 1 for x in inputs)


def _packed_answers(work: Work) -> Iterator[tuple[list[Case], object]]:
    lists = questions(work.questions())
    yield from zip(lists, work.answers("axes", len(lists)), strict=True)


def _answers(work: Work) -> Iterator[tuple[list[Case], Axes]]:
    for cases, pairs in _packed_answers(work):
        yield cases, _unpacked(pairs, cases)


def judge_axes(work: Work, random: np.random.Generator) -> None:
    """Only inputs and axes that the cases have."""
    for cases, pairs in _packed_answers(work):
        with case_of(cases):
            _require_valid_axes(pairs, cases)


def judge_accepted(work: Work, random: np.random.Generator) -> None:
    """A model exported with the answer accepts every case."""
    for cases, axes in _answers(work):
        model = _exported(cases, axes)
        session = open_session(model)
        for number, case in enumerate(cases):
            if refusal := _refusal(session, case):
                msg = Message(
                    "cases[{n}] is refused: {refusal.input}, {refusal.reason}.", n=number, refusal=refusal
                )
                look_at = (
                    "Which sizes does that axis have over all cases, not only in the first or the last one?"
                )
                got = Message("cases[{number}] is refused, with {axes}", number=number, axes=axes)
                shown = Difference(case_sizes(cases), Message("every case runs"), got)
                graphs = Evidence(model, _exported(cases, _right(cases)))
                with case_of(cases):
                    raise Wrong(msg, look_at, difference=shown, evidence=graphs)


def judge_refused(work: Work, random: np.random.Generator) -> None:
    """An axis with one size in all cases accepts no other size."""
    for cases, axes in _answers(work):
        model = _exported(cases, axes)
        session = open_session(model)
        for name, axis in [(name, axis) for name, shape in cases[0].items() for axis in range(len(shape))]:
            size, *others = _sizes(cases, name, axis)
            larger = tuple(length + (place == axis) for place, length in enumerate(cases[0][name]))
            if {size} >= set(others) and not _refusal(session, {**cases[0], name: larger}):
                msg = Message(
                    "Axis {axis} of {name} is {size} in every case; yet the model also accepts {size2}.",
                    axis=axis,
                    name=name,
                    size=size,
                    size2=size + 1,
                )
                look_at = "A dynamic axis gives up a check. Which axes have to?"
                shown = Difference(
                    case_sizes(cases),
                    Message("{sizes} is refused", sizes=case_sizes([{name: larger}])),
                    Message("it runs, with {axes}", axes=axes),
                )
                graphs = Evidence(model, _exported(cases, _right(cases)))
                with case_of(cases):
                    raise Wrong(msg, look_at, difference=shown, evidence=graphs)


def judge_names(work: Work, random: np.random.Generator) -> None:
    """Two axes share a name only where they share all sizes."""
    for cases, axes in _answers(work):
        named = [(label, name, axis) for name, inner in axes.items() for axis, label in inner.items()]
        for (label, name, axis), (other_label, other, its_axis) in combinations(named, 2):
            ours, theirs = _sizes(cases, name, axis), _sizes(cases, other, its_axis)
            if label == other_label and ours != theirs:
                msg = Message(
                    "{label!r} names axis {axis} of {name} and axis {its_axis} of {other}, of other sizes.",
                    label=label,
                    axis=axis,
                    name=name,
                    its_axis=its_axis,
                    other=other,
                )
                look_at = "Readers read equal names as equal sizes, and torch.export may insist on it."
                shown = Difference(
                    case_sizes(cases),
                    Message("two names, for {ours} and {theirs}", ours=ours, theirs=theirs),
                    str(axes),
                )
                with case_of(cases):
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
        return Difference(case_sizes(cases), Message("inputs and axes of these cases"), str(got)[:80])

    for name, named in _pairs(pairs):
        if not isinstance(name, str) or name not in cases[0]:
            msg = Message(
                "There is no input {name!r}; the inputs are {cases}.",
                name=str(name)[:40],
                cases=", ".join(cases[0]),
            )
            raise Wrong(msg, "Where do the names in your dict come from?", difference=difference(pairs))
        for axis, label in _pairs(named):
            rank = len(cases[0][name])
            if not _is_axis(cases, name, axis):
                shown = str(repr(axis))[:20]
                msg = Message(
                    "{name} has the axes 0 to {rank}; {shown} is none of them.",
                    name=name,
                    rank=rank - 1,
                    shown=shown,
                )
                look_at = (
                    "An axis is a whole number, from 0. What the exporters make of -1, chapter 04 shows."
                )
                if isinstance(axis, str):
                    msg = Message(
                        "An axis of {name} is given as a text, {shown}; it has to be a whole number.",
                        name=name,
                        shown=shown,
                    )
                    look_at = (
                        "Where does the text come from? In {'image': {0: 'batch'}} only names are quoted."
                    )
                raise Wrong(msg, look_at, difference=difference({name: axis}))
            if not _is_name(label):
                msg = Message(
                    "Axis {axis} of {name} is called {label}.",
                    axis=axis,
                    name=name,
                    label=str(repr(label))[:40],
                )
                look_at = "The name of an axis is a text that is not blank, like 'batch'."
                raise Wrong(msg, look_at, difference=difference({axis: label}))


def _pairs(pairs: object) -> list[tuple[Any, Any]]:
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise Wrong("Names and axes were expected, not {pairs}.", pairs=str(pairs)[:60])
    return [(pair[0], pair[1]) for pair in pairs]


def _is_axis(cases: Sequence[Case], name: str, axis: object) -> bool:
    return isinstance(axis, int) and not isinstance(axis, bool) and 0 <= axis < len(cases[0][name])


def _is_name(label: object) -> bool:
    return isinstance(label, str) and bool(label.strip())  # both exporters take any other text


def _sizes(cases: Sequence[Case], name: str, axis: int) -> list[int]:
    return [case[name][axis] for case in cases]


JUDGES = Judges((judge_axes, judge_accepted, judge_refused, judge_names))
