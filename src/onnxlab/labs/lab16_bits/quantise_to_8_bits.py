"""Exercise quantise-to-8-bits: quantise each Conv by `quantize_static`, per channel, with all batches.

What the statement says, and the drawn models that reach it:

- The name of the model's input is drawn, and so are those of its nodes.
- Every batch counts: in each question one batch alone has the largest range; it is the first, the last or one
  between.
- Nodes named in `exclude` stay in float32: none, one, two.
- Only Conv is quantised: Add, Mul, Sigmoid and MaxPool stay as they are.
- A scale for each channel of a weight: channels differ in size.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxlab.kit.rewriting import Question, Rewriting
from onnxlab.kit.samples import Sketch
from onnxlab.message import Message
from onnxlab.model.distance import Array

CHANNELS = 12
_SIZE = 8


@dataclass(frozen=True, kw_only=True)
class Int8Question(Question):
    """A model of Convs, with the batches that calibrate it.

    Attributes:
        batches: float32 arrays [n, 3, h, w].
        exclude: The names of the nodes that stay in float32.
        scale: How large the values of the largest batch are.
    """

    batches: tuple[Array, ...]
    exclude: tuple[str, ...]
    scale: float

    @property
    def arguments(self) -> dict[str, Any]:
        """The model, the batches and the names."""
        return {"model": self.model, "batches": list(self.batches), "exclude": list(self.exclude)}

    def draw_input(self, random: np.random.Generator) -> Array:
        """Draw an input nearly as large as the largest batch, so that a right calibration clips nothing."""
        return draw_batch(random, 0.75 * self.scale)


def draw_batch(random: np.random.Generator, scale: float) -> Array:
    """Draw a batch of two, with values up to `scale` on both sides."""
    return random.uniform(-scale, scale, size=(2, 3, _SIZE, _SIZE)).astype(np.float32)


def _conv(s: Sketch, x: str, inputs: int = CHANNELS) -> str:
    """Add a Conv whose output channels have weights of different sizes."""
    weight = s.normal(CHANNELS, inputs, 3, 3) * np.sqrt(1 / (9 * inputs))
    weight *= s.random.permutation(np.linspace(0.5, 2, CHANNELS))[:, None, None, None]
    bias = 0.1 * s.normal(CHANNELS)
    return s.add("Conv", x, s.weight(weight), s.weight(bias), kernel_shape=[3, 3], pads=[1] * 4)


def _chain(s: Sketch, x: str) -> str:
    value = _conv(s, x, 3)
    for _ in range(2):
        value = _conv(s, s.add("Relu", value))
    return value


def _residual(s: Sketch, x: str) -> str:
    first = s.add("Relu", _conv(s, x, 3))
    second = _conv(s, first)
    return _conv(s, s.add("Add", first, second))


def _gated(s: Sketch, x: str) -> str:
    first = _conv(s, x, 3)
    gate = s.add("Sigmoid", _conv(s, first))
    return _conv(s, s.add("Mul", first, gate))


def _pooled(s: Sketch, x: str) -> str:
    first = s.add("Relu", _conv(s, x, 3))
    pooled = s.add("MaxPool", first, kernel_shape=[2, 2], strides=[2, 2])
    return _conv(s, s.add("Relu", _conv(s, pooled)))


_Draw = Callable[[Sketch, str], str]
_KINDS: tuple[tuple[str, _Draw, int, tuple[int, ...]], ...] = (
    (Message("Three Conv in a row, the last batch is the largest"), _chain, -1, ()),
    (Message("A sum of two branches, the first batch is the largest"), _residual, 0, ()),
    (Message("A gate, one Conv stays in float32"), _gated, 2, (1,)),
    (Message("A pooling, the first and the last Conv stay in float32"), _pooled, 1, (0, 2)),
    (Message("Three Conv in a row, the one in the middle stays in float32"), _chain, 3, (1,)),
)


def _questions(random: np.random.Generator) -> Iterator[Int8Question]:
    for where, draw, place, excluded in _KINDS:
        sketch = Sketch(random)
        name = sketch.name()
        output = draw(sketch, name)
        model = sketch.model({name: ("n", 3, "h", "w")}, {output: ("n", CHANNELS, "rows", "columns")})
        convs = [node.name for node in model.graph.node if node.op_type == "Conv"]
        scale = float(random.uniform(20, 40))
        batches = [draw_batch(random, 1.0) for _ in range(5)]
        batches[place] = draw_batch(random, scale)
        yield Int8Question(
            where,
            model,
            batches=tuple(batches),
            exclude=tuple(convs[number] for number in excluded),
            scale=scale,
        )


ASKS = Rewriting("quantise_to_8_bits", "int8", _questions)

produce = ASKS.produce
