"""Exercise letterbox: scale and pad a picture of any size for a network, and map its boxes back.

What is asked, and what is drawn for it:

- `side` is a number of the network's input: 1 to 3, odd, even, above 40;
- n boxes: a fixed number of them, one, as many as the picture has (none, too);
- any names: those of the new input and output and other likely ones; nodes without a name; a constant from a
  node, the boxes read by another node;
- pictures of any size: smaller and larger than the canvas, up to hundreds of rows or columns, one pixel;
  pixels are any numbers, below 0 and above 1;
- the longer side becomes `side`, the other one is rounded, halves upwards, and at least 1: sizes that divide,
  odd ones, halves before an odd and an even number, thin ones of which one row stays;
- Resize gets sizes: sizes whose scale as float32 gives a row too few; at its defaults: one row of several,
  for which pytorch_half_pixel differs;
- (side - new) // 2 rows or columns come first: odd rests in both axes;
- each axis goes back by its own ratio, and no box reaches beyond the picture, at any of the four sides.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types

from onnxlab.kit.outcome import trying
from onnxlab.kit.rewriting import Question, Rewriting
from onnxlab.kit.samples import Sketch
from onnxlab.kit.variations import shuffle_nodes, unname_nodes
from onnxlab.message import Message
from onnxlab.runtime.session import open_session


@dataclass(frozen=True, kw_only=True)
class LetterboxQuestion(Question):
    """A network that gets a square canvas of a side."""

    side: int

    @property
    def arguments(self) -> dict[str, Any]:
        """The network that gets the canvas."""
        return {"network": self.model}

    def as_case(self) -> AbstractContextManager[None]:
        """Attach this case to whatever is raised in the block."""
        return trying(self.where.lower(), **self.arguments)

    @cached_property
    def session(self) -> ort.InferenceSession:
        """A session of the network."""
        return open_session(self.model)


@dataclass(frozen=True)
class _Kind:
    where: str  # after "a network"
    sides: tuple[int, int]  # from, to
    boxes: int  # 0: the canvas decides
    names: tuple[str, ...] = ()  # of its input, output, and other values


# Names that an answer may give to its own values, those of its input and output among them.
_LIKELY_NAMES = (
    "boxes", "picture", "canvas", "ratio", "corner", "limit", "start", "side", "size", "sizes", "old", "new",
    "axes", "zero", "one", "two", "half", "grey", "pads", "resized", "padded", "longer", "batch", "scale",
)  # fmt: skip
_KINDS = (
    _Kind(Message("that finds four boxes"), (8, 13), 4),
    _Kind(Message("that finds one box"), (1, 4), 1),
    _Kind(Message("with names that you may use, too"), (15, 21), 3, _LIKELY_NAMES),
    _Kind(Message("that finds any number of boxes"), (41, 49), 0),
)


def _questions(random: np.random.Generator) -> Iterator[LetterboxQuestion]:
    """Draw a network of each kind."""
    for kind in _KINDS:
        side = int(random.integers(*kind.sides))
        model = _network(Sketch(random), side, kind.boxes)
        if kind.names:
            _rename(random, model, kind.names)
        if side > 10:
            unname_nodes(random, model)
            shuffle_nodes(random, model)
        yield LetterboxQuestion(
            Message("A network for {side} x {side} {kind.where}", side=side, kind=kind), model, side=side
        )


def _network(s: Sketch, side: int, count: int) -> onnx.ModelProto:
    """Draw a network whose boxes depend on every pixel of the canvas."""
    number, pixels = count or 6, 3 * side * side
    x = s.name()
    flat = s.add("Reshape", x, s.add("Constant", value_ints=[1, pixels]))
    corners = []
    for largest in (side, side / 3):
        weight = s.weight(s.normal(pixels, 2 * number) * 2 / np.sqrt(pixels))
        numbers = s.add("Reshape", s.add("MatMul", flat, weight), s.weight(np.array([number, 2])))
        corners.append(s.add("Mul", s.add("Sigmoid", numbers), s.weight(np.array(float(largest)))))
    boxes = s.add("Concat", s.add("Sub", *corners), s.add("Add", *corners), axis=1)
    if count:
        s.add("Identity", boxes)  # the boxes have another reader
        return s.model({x: (1, 3, side, side)}, {boxes: (count, 4)})
    # The mean of the canvas decides how many: all, some, none.
    found = s.add(
        "Cast", s.add("Mul", s.add("Abs", s.add("ReduceMean", x, keepdims=0)), s.weight(40.0)), to=7
    )
    end = s.add("Unsqueeze", s.add("Mod", found, s.weight(np.array(number))), s.weight(np.array([0])))
    kept = s.add("Slice", boxes, s.weight(np.array([0])), end)
    return s.model({x: (1, 3, side, side)}, {kept: ("found", 4)})


def _rename(random: np.random.Generator, model: onnx.ModelProto, names: Sequence[str]) -> None:
    """Give a model's input, its output and drawn values other names, in this order."""
    graph = model.graph
    ends = [graph.input[0].name, graph.output[0].name]
    others = {name for node in graph.node for name in (*node.input, *node.output)} - set(ends)
    mapping = dict(zip([*ends, *random.permutation(sorted(others)).tolist()], names, strict=False))
    for node in graph.node:
        node.input[:] = [mapping.get(name, name) for name in node.input]
        node.output[:] = [mapping.get(name, name) for name in node.output]
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.name = mapping.get(value.name, value.name)


ASKS = Rewriting("letterbox", "boxes", _questions)

produce = ASKS.produce
