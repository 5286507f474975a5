"""Exercise store-in-4-bits: store weights in 4 bits by `MatMulNBitsQuantizer`, except the expensive ones.

What the statement says, and the drawn models that reach it:

- A MatMul stays in float32 if it alone, in 4 bits, costs more than the largest error: none, the first, the
  last, two. The others cost less than a third of it, and those more than twice as much.
- A Gemm, with its weight transposed and a bias, is stored in 4 bits as a MatMul and an Add.
- A MatMul of two activations stays as it is.
- Inputs per weight that are no multiple of 32.
- The names of nodes and inputs are drawn.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxlab.kit.rewriting import Question, Rewriting
from onnxlab.kit.samples import Sketch
from onnxlab.message import Message
from onnxlab.model.distance import Array

LARGEST_ERROR = 0.3
_WIDTH, _ROWS = 96, 16


@dataclass(frozen=True, kw_only=True)
class FourBitQuestion(Question):
    """A model whose weights are to be stored in 4 bits.

    Attributes:
        x: A typical input, float32 [rows, inputs].
        largest_error: The largest relative error that one MatMul may cost.
    """

    x: Array
    largest_error: float = LARGEST_ERROR

    @property
    def arguments(self) -> dict[str, Any]:
        """The model, the input and the largest error."""
        return {"model": self.model, "x": self.x, "largest_error": self.largest_error}

    def draw_input(self, random: np.random.Generator) -> Array:
        """Draw another input of the same kind."""
        return draw_rows(random, self.x.shape[1])


def draw_rows(random: np.random.Generator, inputs: int) -> Array:
    """Draw rows of normally distributed numbers."""
    x: Array = random.normal(size=(_ROWS, inputs)).astype(np.float32)
    return x


def _linear(s: Sketch, x: str, inputs: int = _WIDTH, *, expensive: bool = False) -> str:
    """Add a MatMul. An expensive one has a huge weight in each block, for an input that is as small."""
    weight = s.normal(inputs, _WIDTH) / np.sqrt(inputs)
    if expensive:
        gain = np.ones(inputs)
        gain[::16] = 0.005
        x = s.add("Mul", x, s.weight(gain))
        weight = weight / gain[:, None]
    return s.add("MatMul", x, s.weight(weight))


def _gemm(s: Sketch, x: str) -> str:
    weight = s.normal(_WIDTH, _WIDTH) / np.sqrt(_WIDTH)
    return s.add("Gemm", x, s.weight(weight), s.weight(s.normal(_WIDTH)), transB=1)


def _three(s: Sketch, x: str, expensive: tuple[int, ...] = (), inputs: int = _WIDTH) -> str:
    value = x
    for number in range(3):
        value = _linear(s, value, inputs if number == 0 else _WIDTH, expensive=number in expensive)
        value = s.add("Tanh", value) if number < 2 else value
    return value


def _attention(s: Sketch, x: str) -> str:
    first, second = _linear(s, x), _linear(s, x, expensive=True)
    scores = s.add("Softmax", s.add("MatMul", first, s.add("Transpose", second, perm=[1, 0])))
    return _linear(s, s.add("Add", s.add("MatMul", scores, x), second))


def _with_gemm(s: Sketch, x: str) -> str:
    return _linear(s, s.add("Tanh", _gemm(s, s.add("Tanh", _linear(s, x)))))


_Draw = Callable[[Sketch, str], str]
_KINDS: tuple[tuple[str, _Draw, int, str], ...] = (
    (Message("Three MatMul"), _three, _WIDTH, "No MatMul costs too much here."),
    (
        Message("Three MatMul, the first is expensive"),
        lambda s, x: _three(s, x, (0,)),
        _WIDTH,
        "What does each MatMul cost if it alone has 4 bits?",
    ),
    (
        Message("Three MatMul, two are expensive"),
        lambda s, x: _three(s, x, (1, 2)),
        _WIDTH,
        "What does each MatMul cost if it alone has 4 bits?",
    ),
    (Message("A MatMul of two activations"), _attention, _WIDTH, "Which MatMul has a weight?"),
    (Message("A Gemm between two MatMul"), _with_gemm, _WIDTH, "What does the tool make of a Gemm?"),
    (
        Message("Weights of 40 inputs"),
        lambda s, x: _three(s, x, inputs=40),
        40,
        "No MatMul costs too much here.",
    ),
)


def _questions(random: np.random.Generator) -> Iterator[FourBitQuestion]:
    for where, draw, inputs, look_at in _KINDS:
        sketch = Sketch(random)
        name = sketch.name()
        output = draw(sketch, name)
        model = sketch.model({name: ("n", inputs)}, {output: ("n", _WIDTH)})
        yield FourBitQuestion(where, model, look_at, x=draw_rows(random, inputs))


ASKS = Rewriting("store_in_4_bits", "four_bits", _questions)

produce = ASKS.produce
