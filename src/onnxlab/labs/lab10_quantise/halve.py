"""Exercise halve: convert a model to float16, except for the nodes that float16 breaks.

What the statement says, and the drawn models that reach it:

- A node breaks by a number of an input, of an output, of any output, of x, or of a weight that alone decides.
- float16 breaks what it turns into infinity or 0: from 65520 on, up to 2.98e-8. Numbers at both limits, on
  both sides, of both signs; numbers between 3e-8 and 6.1e-5, which it holds; zeros; integers, which stay.
- What is infinite or 0 already does not break: a weight of -inf, and the logarithm of 0.
- For x, which is typical: also where one row alone breaks; other inputs of the same kind give right numbers.
- All other nodes compute in float16, each of those that break in float32: node by node, by name.
- Inputs and outputs stay float32: an output that float16 would break, and several.
- No node is added but Cast: the nodes keep their names and operators, also where no output needs them.
- A weight may be read by a node that breaks and by one that does not.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxlab.kit.rewriting import Question, Rewriting
from onnxlab.kit.samples import Sketch
from onnxlab.kit.variations import shuffle_nodes
from onnxlab.message import Message
from onnxlab.model.distance import Array

_WIDTH = 4

_Draw = Callable[[np.random.Generator, int], Array]  # draws an input with so many rows


@dataclass(frozen=True, kw_only=True)
class HalfQuestion(Question):
    """A model to convert to float16, with an input that shows what breaks."""

    x: Array
    draw_input: _Draw

    @property
    def arguments(self) -> dict[str, Any]:
        """The model, and an input that shows what breaks."""
        return {"model": self.model, "x": self.x}


def _between(low: float, high: float, *, signed: bool = True) -> _Draw:
    """Draw magnitudes between two numbers."""

    def draw(random: np.random.Generator, rows: int) -> Array:
        x = random.uniform(low, high, size=(rows, _WIDTH))
        return (x * random.choice([-1, 1], size=x.shape) if signed else x).astype(np.float32)

    return draw


_ordinary = _between(0.5, 2)


def _one_row(random: np.random.Generator, rows: int) -> Array:
    """Draw numbers of which only one row is large, in the second half and not the last of eight."""
    x = _ordinary(random, rows)
    x[rows * 5 // 8] *= 300
    return x


def _two_large_columns(random: np.random.Generator, rows: int) -> Array:
    x = _ordinary(random, rows)
    x[:, 2:] = _between(1e5, 2e5)(random, rows)[:, 2:]
    return x


def _with_number(number: float) -> _Draw:
    """Draw large numbers that float16 holds, and one more."""

    def draw(random: np.random.Generator, rows: int) -> Array:
        x = _between(1e4, 6e4)(random, rows)
        x[int(random.integers(rows)), int(random.integers(_WIDTH))] = number
        return x

    return draw


def _matmul(s: Sketch, x: str, factor: float = 1.0, *numbers: float) -> str:
    """Multiply by weights, among them these numbers."""
    weight = factor * s.random.uniform(0.3, 0.9, size=_WIDTH**2) * s.random.choice([-1, 1], size=_WIDTH**2)
    weight[s.random.permutation(_WIDTH**2)[: len(numbers)]] = numbers
    return s.add("MatMul", x, s.weight(weight.reshape(_WIDTH, _WIDTH)))


def _scaled(s: Sketch, x: str, factor: float) -> str:
    return s.add("Mul", x, s.weight(np.array(float(factor))))


def _harmless(s: Sketch, x: str) -> list[str]:
    numbers = [s.weight(np.array([number])) for number in (0, np.iinfo(np.int64).max, 1)]
    return [s.add("Slice", _matmul(s, s.add("Tanh", _matmul(s, x))), *numbers)]


def _small_but_held(s: Sketch, x: str) -> list[str]:
    """Draw numbers of 1e-5 and of 1e-7: float16 has few digits for them, and holds them."""
    small = _scaled(s, _matmul(s, s.add("Relu", x), 1.0, 1e-7, -1e-6, 0.0), 1e-5)
    return [_matmul(s, s.add("Tanh", _scaled(s, small, 3e4)))]


def _mean_of_squares(s: Sketch, x: str) -> list[str]:
    axis = s.weight(np.array([1]))
    mean = s.add("ReduceMean", s.add("Mul", x, x), axis, keepdims=1)
    return [_matmul(s, s.add("Tanh", s.add("Div", x, s.add("Sqrt", mean))))]


def _large_input(s: Sketch, x: str) -> list[str]:
    return [_matmul(s, s.add("Sin", _scaled(s, x, 1e-5)))]


def _sum_of_exp(s: Sketch, x: str) -> list[str]:
    axis = s.weight(np.array([1]))
    total = s.add("ReduceSum", s.add("Exp", x), axis, keepdims=1)
    return [s.add("Sin", s.add("Sub", x, s.add("Log", total)))]


def _small_epsilon(s: Sketch, x: str) -> list[str]:
    positive = s.add("Relu", x)  # often 0
    return [_matmul(s, s.add("Div", positive, s.add("Add", positive, s.weight(np.array(1e-9)))))]


def _small_weights(s: Sketch, x: str) -> list[str]:
    small = _matmul(s, s.add("Tanh", x), 1e-9)
    return [_matmul(s, s.add("Cos", _scaled(s, small, 1e9)))]


def _one_weight(s: Sketch, x: str) -> list[str]:
    """Draw two nodes that break by a weight alone, one of them by a number below 0, and none by a value."""
    large = s.weight(np.array([-1e5, 0.0, -1.0, -1e5]))
    value = s.add("Tanh", _matmul(s, x, 1.0, -1e-9))
    return [_matmul(s, s.add("Max", _matmul(s, value), large))]


def _weights_at_the_limits(s: Sketch, x: str) -> list[str]:
    value = s.add("Tanh", _matmul(s, x, 1.0, 3e-8, -3e-8))
    value = s.add("Max", value, s.weight(np.array([-65504.0, -65519.0, -1.0, 0.0])))
    value = s.add("Sin", _matmul(s, value, 1.0, 2.9e-8))
    return [_matmul(s, s.add("Min", value, s.weight(np.array([65504.0, 65520.0, 1.0, 2.0]))))]


def _below_zero(s: Sketch, x: str) -> list[str]:
    large = _scaled(s, s.add("Neg", s.add("Relu", x)), 6e4)
    return [_matmul(s, s.add("Tanh", _scaled(s, large, 1e-5)))]


def _squares(s: Sketch, x: str) -> list[str]:
    return [_matmul(s, s.add("Tanh", s.add("Sqrt", s.add("Mul", x, x))))]


def _parts(s: Sketch, x: str) -> list[str]:
    """Draw a Split whose second part is large."""
    small, large = s.split("Split", x, results=2, axis=1, num_outputs=2)
    back = s.add("Cos", _scaled(s, large, 1e-5))
    return [s.add("Tanh", small), s.add("Add", s.add("Sin", small), back)]


def _large_output(s: Sketch, x: str) -> list[str]:
    return [_scaled(s, _scaled(s, s.add("Neg", x), 300), 400)]


def _shared_weight(s: Sketch, x: str) -> list[str]:
    """Draw a weight that is read where numbers are large and where they are not."""
    weight = s.weight(s.random.uniform(0.5, 1, size=_WIDTH))
    large = s.add("Mul", x, weight)
    small = s.add("Sin", _scaled(s, large, 1e-5))
    return [s.add("Mul", small, weight)]


def _masked(s: Sketch, x: str) -> list[str]:
    """Draw -inf as a weight, as a mask of attention, and as a logarithm; and a node that no output needs."""
    value = _matmul(s, s.add("Exp", s.add("Log", s.add("Relu", x))))
    s.add("Cos", value)
    mask = s.weight(s.random.permutation([-np.inf, 0.0, 0.0, 0.0]))
    return [_matmul(s, s.add("Softmax", s.add("Add", value, mask), axis=-1))]


_LIMITS = "What does `np.float32(65519).astype(np.float16)` give, and 65520, 3e-8 and 2.9e-8?"
# What the model is an example of, what draws it and returns its outputs, what draws its inputs, and where to
# look.
_KINDS: tuple[tuple[str, Callable[[Sketch, str], list[str]], _Draw, str], ...] = (
    (Message("A mean of squares"), _mean_of_squares, _between(400, 700),
        "How large are the squares, and their mean?"),
    (Message("Nothing that float16 breaks"), _harmless, _ordinary,
        "Which values does float16 not hold? Here there is none; integers stay integers."),
    (Message("Small numbers that float16 holds"), _small_but_held, _ordinary,
        "What are 1e-5 and 1e-7 in float16? Few digits are left, and they are not 0."),
    (Message("Large inputs, made smaller by the first node"), _large_input, _between(1e5, 2e5),
        "How large is the input itself?"),
    (Message("A sum of exponentials"), _sum_of_exp, _between(12, 13.5, signed=False),
        "How large is exp(12)?"),
    (Message("An epsilon of 1e-9"), _small_epsilon, _between(0.5, 3),
        "What is 1e-9 in float16, and what is left of a division by it? Look at constants, and at small "
        "values."),
    (Message("Weights of 1e-9"), _small_weights, _ordinary,
        "What becomes of these weights in float16? They are inputs of a node, too."),
    (Message("One weight of -1e-9, and two of -1e5"), _one_weight, _ordinary,
        "What becomes of these weights in float16? They are inputs of a node, too."),
    (Message("Weights at the limits of float16"), _weights_at_the_limits, _ordinary, _LIMITS),
    (Message("An input of 65519"), _large_input, _with_number(65519), _LIMITS),
    (Message("An input of -65520"), _large_input, _with_number(-65520), _LIMITS),
    ("Values that break below 0", _below_zero, _between(1.3, 2), "How small are the values below 0?"),
    (Message("One row that breaks"), _squares, _one_row, "Did you look at all rows of x?"),
    (Message("The second part of a Split"), _parts, _two_large_columns,
        "How many outputs has a Split, and which values has each?"),
    (Message("A mask of -inf, and the logarithm of zero"), _masked, _ordinary,
        "What is `np.float16(-np.inf)`? Only a finite number can become infinite."),
    (Message("An output that float16 does not hold"), _large_output, _between(0.6, 2),
        "How large is the output?"),
    (Message("A weight that two nodes read"), _shared_weight, _between(1e5, 2e5),
        "Which of the two nodes breaks? The other one can read the same weight in float16."),
)  # fmt: skip


def _questions(random: np.random.Generator) -> Iterator[HalfQuestion]:
    """Draw a model of each kind, and an input for it."""
    for where, draw, draw_input, look_at in _KINDS:
        sketch = Sketch(random)
        name = sketch.name()
        outputs = {output: ("n", f"columns_{output}") for output in draw(sketch, name)}
        model = sketch.model({name: ("n", _WIDTH)}, outputs)
        shuffle_nodes(random, model)
        yield HalfQuestion(where, model, look_at, x=draw_input(random, 8), draw_input=draw_input)


ASKS = Rewriting("halve", "half", _questions)

produce = ASKS.produce
