"""Exercise convert-to-float16: convert by `convert_float_to_float16`, with a block list made for the model.

What the statement says, and the drawn models that reach it:

- A node breaks by a number above 65504 in magnitude among its inputs and outputs, for x: of the first node,
  of nodes in a row, of a MatMul with its own weight, of no node; of both signs; in one row alone.
- Two nodes of one operator, of which one breaks: names count, not operators.
- A weight above 10,000, which float16 holds.
- Inputs and outputs stay float32; the names of nodes and inputs are drawn.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxlab.kit.rewriting import Question, Rewriting
from onnxlab.kit.samples import Sketch
from onnxlab.message import Message
from onnxlab.model.distance import Array

_WIDTH = 32


@dataclass(frozen=True, kw_only=True)
class Float16Question(Question):
    """A model to convert to float16, with a typical input.

    Attributes:
        x: The input, float32 [8, width].
        scale: How large the values of the input are.
    """

    x: Array
    scale: float

    @property
    def arguments(self) -> dict[str, Any]:
        """The model and the input."""
        return {"model": self.model, "x": self.x}

    def draw_input(self, random: np.random.Generator) -> Array:
        """Draw another input of the same kind."""
        return draw_rows(random, self.scale)


def draw_rows(random: np.random.Generator, scale: float) -> Array:
    """Draw eight rows of both signs: magnitudes from 0.8 to 1, and times the scale in one row."""
    x: Array = random.uniform(0.8, 1, size=(8, _WIDTH)) * random.choice([-1, 1], size=(8, _WIDTH))
    x *= np.where(np.arange(8) == random.integers(1, 7), scale, 1)[:, None]
    rows: Array = x.astype(np.float32)
    return rows


def _linear(s: Sketch, x: str, scale: float = 1.0) -> str:
    return s.add("MatMul", x, s.weight(scale * s.normal(_WIDTH, _WIDTH) / np.sqrt(_WIDTH)))


def _root_mean_square(s: Sketch, x: str) -> str:
    square = s.add("Mul", x, x)
    root = s.add("Sqrt", s.add("ReduceMean", square))
    return _linear(s, s.add("Div", x, root))


def _two_products(s: Sketch, x: str) -> str:
    small = s.add("Mul", x, s.weight(s.random.uniform(0.5, 1, size=_WIDTH)))
    large = s.add("Mul", small, s.weight(np.full(_WIDTH, 1000.0)))
    return _linear(s, s.add("Tanh", large))


def _wide_matmul(s: Sketch, x: str) -> str:
    return _linear(s, s.add("Tanh", _linear(s, x, 5000.0)))


def _large_weight(s: Sketch, x: str) -> str:
    back = s.add(
        "Mul", s.add("Mul", x, s.weight(np.full(_WIDTH, 30000.0))), s.weight(np.full(_WIDTH, 2.0**-14))
    )
    return _linear(s, back)


def _harmless(s: Sketch, x: str) -> str:
    return _linear(s, s.add("Relu", _linear(s, x)))


_Draw = Callable[[Sketch, str], str]
_KINDS: tuple[tuple[str, _Draw, float, str], ...] = (
    (Message("A root mean square"), _root_mean_square, 400.0, "How large is the square, and who reads it?"),
    (Message("Two products, one of them large"), _two_products, 300.0, "Which of the two Mul breaks?"),
    (Message("A MatMul with a large result"), _wide_matmul, 60.0, "How large is the output of each MatMul?"),
    (
        Message("A weight of 30,000"),
        _large_weight,
        1.5,
        "What does the converter make of a weight above 10,000?",
    ),
    (Message("A model that float16 does not break"), _harmless, 5.0, "No number is above 65504 here."),
)


def _questions(random: np.random.Generator) -> Iterator[Float16Question]:
    for where, draw, scale, look_at in _KINDS:
        sketch = Sketch(random)
        name = sketch.name()
        output = draw(sketch, name)
        model = sketch.model({name: ("n", _WIDTH)}, {output: ("n", _WIDTH)})
        yield Float16Question(where, model, look_at, x=draw_rows(random, scale), scale=scale)


ASKS = Rewriting("convert_to_float16", "float16", _questions)

produce = ASKS.produce
