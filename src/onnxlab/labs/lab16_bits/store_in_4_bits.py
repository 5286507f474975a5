"""Exercise store-in-4-bits: store weights in 4 bits by `MatMulNBitsQuantizer`, except the expensive ones.

What the statement says, and the drawn models that reach it:

- A MatMul stays in float32 if it alone, in 4 bits, costs more than the largest error: none, the first, the
  last, two. Others cost between a half and the whole of it, and together more than it.
- The cost is measured for x, whose columns differ in size, and by the norm: one layer is wrong in a few
  outputs only.
- The largest error is another one in each model.
- A Gemm, with its weight transposed and a bias, is stored in 4 bits as a MatMul and an Add.
- A MatMul of two activations stays as it is.
- Inputs per weight that are no multiple of 32, of which the first block is small: larger blocks cost more.
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

_WIDTH, _ROWS = 96, 16
_FAINT = 0.005  # the size of every 16th column of some values


@dataclass(frozen=True, kw_only=True)
class FourBitQuestion(Question):
    """A model whose weights are to be stored in 4 bits.

    Attributes:
        x: A typical input, float32 [rows, inputs].
        columns: How large each column of the input is.
        largest_error: The largest relative error that one MatMul may cost.
    """

    x: Array
    columns: Array
    largest_error: float

    @property
    def arguments(self) -> dict[str, Any]:
        """The model, the input and the largest error."""
        return {"model": self.model, "x": self.x, "largest_error": self.largest_error}

    def draw_input(self, random: np.random.Generator) -> Array:
        """Draw another input of the same kind."""
        return draw_rows(random, self.columns)


def draw_rows(random: np.random.Generator, columns: Array) -> Array:
    """Draw rows of normally distributed numbers, with columns of these sizes."""
    x: Array = (random.normal(size=(_ROWS, len(columns))) * columns).astype(np.float32)
    return x


def _faint(inputs: int) -> Array:
    """Return sizes of columns: every 16th is faint."""
    return np.where(np.arange(inputs) % 16, 1.0, _FAINT)


def _linear(s: Sketch, x: str, inputs: int = _WIDTH, columns: Array | None = None) -> str:
    """Add a MatMul for an input with columns of these sizes: huge weights in a block cost the others."""
    weight = s.normal(inputs, _WIDTH) / np.sqrt(inputs)
    return s.add("MatMul", x, s.weight(weight if columns is None else weight / columns[:, None]))


def _expensive(s: Sketch, x: str) -> str:
    """Add a MatMul that is expensive for what the Mul before it gives."""
    return _linear(s, s.add("Mul", x, s.weight(_faint(_WIDTH))), columns=_faint(_WIDTH))


def _three(s: Sketch, x: str, expensive: tuple[int, ...] = ()) -> str:
    value = x
    for number in range(3):
        value = s.add("Tanh", value) if number else value
        value = _expensive(s, value) if number in expensive else _linear(s, value)
    return value


def _two(s: Sketch, x: str, columns: Array) -> str:
    return _linear(s, s.add("Tanh", _linear(s, x, len(columns), columns)))


def _few_outputs(s: Sketch, x: str) -> str:
    """Add a MatMul of which three outputs are wrong in 4 bits, and the others right."""
    faint = s.add("Mul", x, s.weight(_faint(_WIDTH)))
    weight = s.normal(_WIDTH, _WIDTH) / np.sqrt(_WIDTH)
    weight[:, :3] /= _faint(_WIDTH)[:, None]
    return s.add("MatMul", faint, s.weight(weight))


def _attention(s: Sketch, x: str) -> str:
    first, second = _linear(s, x), _expensive(s, x)
    scores = s.add("Softmax", s.add("MatMul", first, s.add("Transpose", second, perm=[1, 0])))
    return _linear(s, s.add("Add", s.add("MatMul", scores, x), second))


def _with_gemm(s: Sketch, x: str) -> str:
    value = s.add("Tanh", _linear(s, x))
    weight = s.normal(_WIDTH, _WIDTH) / np.sqrt(_WIDTH)
    gemm = s.add("Gemm", value, s.weight(weight), s.weight(s.normal(_WIDTH)), transB=1)
    return _linear(s, s.add("Tanh", gemm))


_ALONE = "What does each MatMul cost if it alone has 4 bits, for this x?"
_BLOCKS = np.where(np.arange(40) < 32, 0.05, 1.0)  # the sizes of columns, in one block and another
_Draw = Callable[[Sketch, str], str]
# What the model is an example of, what draws it, the sizes of the columns of x, the largest error, and where
# to look.
_KINDS: tuple[tuple[str, _Draw, Array, float, str], ...] = (
    (Message("Three MatMul"), _three, np.ones(_WIDTH), 0.14, _ALONE),
    (Message("Three MatMul, the first is expensive"), lambda s, x: _three(s, x, (0,)), np.ones(_WIDTH), 0.2,
        _ALONE),
    (Message("Three MatMul, two are expensive"), lambda s, x: _three(s, x, (1, 2)), np.ones(_WIDTH), 0.3,
        _ALONE),
    (Message("An input with faint columns"), lambda s, x: _two(s, x, _faint(_WIDTH)), _faint(_WIDTH), 0.25,
        _ALONE),
    (Message("A MatMul with three outputs that lose more"), _few_outputs, np.ones(_WIDTH), 0.3,
        "The cost is the norm of the error by the norm of the outputs."),
    (Message("A MatMul with three outputs that lose more, and a small limit"), _few_outputs, np.ones(_WIDTH),
        0.12, "Here largest_error is another one."),
    (Message("A MatMul of two activations"), _attention, np.ones(_WIDTH), 0.3, "Which MatMul has a weight?"),
    (Message("A Gemm between two MatMul"), _with_gemm, np.ones(_WIDTH), 0.15,
        "What does the tool make of a Gemm?"),
    (Message("Weights of 40 inputs"), lambda s, x: _two(s, x, _BLOCKS), _BLOCKS, 0.2,
        "Is the cost measured in blocks of 32? Each has a scale of its own."),
)  # fmt: skip


def _questions(random: np.random.Generator) -> Iterator[FourBitQuestion]:
    for where, draw, columns, largest_error, look_at in _KINDS:
        sketch = Sketch(random)
        name = sketch.name()
        output = draw(sketch, name)
        model = sketch.model({name: ("n", len(columns))}, {output: ("n", _WIDTH)})
        x = draw_rows(random, columns)
        yield FourBitQuestion(where, model, look_at, x=x, columns=columns, largest_error=largest_error)


ASKS = Rewriting("store_in_4_bits", "four_bits", _questions)

produce = ASKS.produce
