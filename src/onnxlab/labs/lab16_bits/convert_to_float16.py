"""Exercise convert-to-float16: convert by `convert_float_to_float16`, with a block list made for the model.

What the statement says, and the drawn models that reach it:

- A node breaks by a number that float16 turns into infinity or 0, for x: of an input, of an output, of any
  output, of a weight; of both signs and of one; in one row alone. What is 0 already does not break.
- A large value that two nodes read, and a large input that two nodes read.
- Two nodes of one operator, of which one breaks: names count, not operators.
- Weights of 30,000 and of 5e-8, which float16 holds, and the converter does not by default.
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


def _scaled(s: Sketch, x: str, factor: float) -> str:
    return s.add("Mul", x, s.weight(np.full(_WIDTH, factor)))


def _root_mean_square(s: Sketch, x: str) -> str:
    square = s.add("Mul", x, x)
    root = s.add("Sqrt", s.add("ReduceMean", square))
    return _linear(s, s.add("Div", x, root))


def _two_readers(s: Sketch, x: str) -> str:
    square = s.add("Mul", x, x)
    size = s.add("Div", square, s.add("Sqrt", square))
    return _linear(s, s.add("Div", size, x))


def _large_input(s: Sketch, x: str) -> str:
    return _linear(s, s.add("Add", s.add("Tanh", x), s.add("Sin", _scaled(s, x, 2.0**-14))))


def _two_products(s: Sketch, x: str) -> str:
    small = s.add("Mul", x, s.weight(s.random.uniform(0.5, 1, size=_WIDTH)))
    return _linear(s, s.add("Tanh", _scaled(s, small, 1000.0)))


def _below_zero(s: Sketch, x: str) -> str:
    return _linear(s, s.add("Tanh", _scaled(s, s.add("Relu", x), -1000.0)))


def _wide_matmul(s: Sketch, x: str) -> str:
    return _linear(s, s.add("Tanh", _linear(s, x, 5000.0)))


def _parts(s: Sketch, x: str) -> str:
    """Draw a Split whose second part is large, and whose first part is not."""
    factors = np.repeat([1.0, 1000.0], _WIDTH // 2)
    joined = s.add("Mul", x, s.weight(factors))
    small, large = s.split("Split", joined, results=2, axis=1, num_outputs=2)
    return _linear(s, s.add("Concat", s.add("Sin", small), s.add("Tanh", large), axis=1))


def _small_squares(s: Sketch, x: str) -> str:
    """Draw squares that float16 rounds to 0, beside zeros that are none of its making."""
    small = _scaled(s, s.add("Relu", x), 1e-5)
    return _linear(s, _scaled(s, s.add("Sqrt", s.add("Mul", small, small)), 6e4))


def _small_weight(s: Sketch, x: str) -> str:
    """Draw a node that breaks by one weight, and by no other number."""
    weight = s.normal(_WIDTH, _WIDTH) / np.sqrt(_WIDTH)
    weight[3, 5] = -1e-9
    return _linear(s, s.add("Tanh", s.add("MatMul", x, s.weight(weight))))


def _weights_at_the_limits(s: Sketch, x: str) -> str:
    back = _scaled(s, _scaled(s, x, 30000.0), 2.0**-14)
    small = np.where(np.arange(_WIDTH) % 2, 5e-8, 1.0)
    return _linear(s, s.add("Mul", back, s.weight(small)))


def _harmless(s: Sketch, x: str) -> str:
    return _linear(s, s.add("Relu", _linear(s, x)))


_Draw = Callable[[Sketch, str], str]
_KINDS: tuple[tuple[str, _Draw, float, str], ...] = (
    (Message("A root mean square"), _root_mean_square, 400.0, "How large is the square, and who reads it?"),
    (Message("A square that two nodes read"), _two_readers, 400.0,
        "Follow the square from its maker to each of its two readers: which types does it have?"),
    (Message("A large input that two nodes read"), _large_input, 1e5,
        "Follow x to each of its readers: which types does it have on the way?"),
    (Message("Two products, one of them large"), _two_products, 300.0, "Which of the two Mul breaks?"),
    (Message("Values that are large below 0"), _below_zero, 300.0, "How small are the values below 0?"),
    (Message("A MatMul with a large result"), _wide_matmul, 60.0, "How large is the output of each MatMul?"),
    (Message("The second part of a Split"), _parts, 300.0,
        "How many outputs does a Split have, and which values does each hold?"),
    (Message("Squares of 1e-10, and zeros"), _small_squares, 1.5,
        "What is 1e-10 in float16? And is a 0 of float32 lost?"),
    (Message("One weight of -1e-9"), _small_weight, 1.5,
        "What becomes of this weight in float16? Weights are inputs of a node, too."),
    (Message("Weights of 30,000 and of 5e-8"), _weights_at_the_limits, 1.5,
        "What does the converter make of a weight above 10,000, and of one below 1e-7?"),
    (Message("A model that float16 does not break"), _harmless, 5.0, "float16 holds every number here."),
)  # fmt: skip


def _questions(random: np.random.Generator) -> Iterator[Float16Question]:
    for where, draw, scale, look_at in _KINDS:
        sketch = Sketch(random)
        name = sketch.name()
        output = draw(sketch, name)
        model = sketch.model({name: ("n", _WIDTH)}, {output: ("n", _WIDTH)})
        yield Float16Question(where, model, look_at, x=draw_rows(random, scale), scale=scale)


ASKS = Rewriting("convert_to_float16", "float16", _questions)

produce = ASKS.produce
