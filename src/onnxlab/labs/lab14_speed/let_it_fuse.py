"""Exercise let-it-fuse: models whose fusions ONNX Runtime misses, for one of three reasons or for all.

What is asked, and what is drawn for it:

- an output in the middle that is not needed: after Conv, after BatchNormalization, inside a GELU, several;
  outputs that are needed, in the middle, too, stay, in their order; so does an input nobody reads any more;
- weights that are listed among the inputs: of a BatchNormalization, of a GELU; other inputs stay;
- a GELU in the exporter's order: one, several in a row, two that read one value, whose constants are shared,
  nodes or initializers; the operands of each Add and Mul in both orders;
- a product inside a GELU that somebody else reads, or that is needed, keeps its value;
- a GELU in the right order, and a product without Erf, which stay right;
- the file stays one of standard operators, at opset 18;
- any names; nodes without a name, in another order, another domain.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from onnxlab.kit.rewriting import Question, Rewriting
from onnxlab.kit.samples import Sketch
from onnxlab.kit.variations import vary
from onnxlab.message import Message

CHANNELS = 4
OPSET = 18
REASONS = ("outputs", "inputs", "order", "all")
"""What is in the way of a fusion; each is a part of the exercise."""


@dataclass(frozen=True, kw_only=True)
class FusionQuestion(Question):
    """A model, the outputs that its callers need, and which of `REASONS` is in the way of its fusions."""

    needed: tuple[str, ...]
    reason: str

    @property
    def arguments(self) -> dict[str, Any]:
        """The model and the outputs that are needed, in another order than its own."""
        return {"model": self.model, "needed": sorted(self.needed)}

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs that are no weights."""
        weights = {tensor.name for tensor in self.model.graph.initializer}
        return [value.name for value in self.model.graph.input if value.name not in weights]


class _Graph(Sketch):
    """A sketch of a network on pictures; it keeps what else is an output, and what else is needed."""

    def __init__(self, random: np.random.Generator) -> None:
        super().__init__(random)
        self.surplus: list[str] = []
        self.also_needed: list[str] = []
        self._constants: dict[float, str] = {}

    def constant(self, value: float) -> str:
        """Return a number as a value: an initializer or a node, of which some are shared."""
        if value in self._constants and self.random.integers(2):
            return self._constants[value]
        if self.random.integers(2):
            name = self.weight(np.float32(value))
        else:
            name = self.add("Constant", value_float=value)
        self._constants[value] = name
        return name

    def conv(self, x: str) -> str:
        """Add a Conv that keeps the size."""
        weight = self.weight(self.normal(CHANNELS, CHANNELS, 3, 3) / 4)
        return self.add(
            "Conv", x, weight, self.weight(self.normal(CHANNELS)), kernel_shape=[3, 3], pads=[1] * 4
        )

    def either(self, operator: str, a: str, b: str) -> str:
        """Add a node of two operands, in one order or the other."""
        return self.add(operator, *((a, b) if self.random.integers(2) else (b, a)))

    def erf(self, x: str) -> str:
        """Add the factor of a GELU that holds its Erf."""
        ratio = self.add("Div", x, self.constant(float(np.float32(np.sqrt(2)))))
        return self.either("Add", self.add("Erf", ratio), self.constant(1.0))

    def gelu(self, x: str, *, right: bool = False) -> tuple[str, str]:
        """Add a GELU in the order of the torch.export exporter, or in one that is fused.

        Returns:
            Its output and its inner product.
        """
        grown, half = self.erf(x), self.constant(0.5)
        inner = self.either("Mul", x if right else half, grown)
        return self.either("Mul", half if right else x, inner), inner

    def normalised(self, x: str) -> str:
        """Add a Conv and a BatchNormalization."""
        numbers = [self.weight(self.random.uniform(0.5, 2, CHANNELS)) for _ in range(4)]
        return self.add("BatchNormalization", self.conv(x), *numbers)


def _conv_output(g: _Graph, x: str) -> str:
    y = g.conv(x)
    g.surplus.append(y)
    return g.add("Relu", y)


def _conv_needed(g: _Graph, x: str) -> str:
    y, other = g.conv(x), g.conv(x)
    g.also_needed += [y, g.add("Tanh", y), g.add("Exp", x), g.add("Neg", y)]
    g.surplus.append(other)
    return g.add("Add", g.add("Relu", y), g.add("Relu", other))


def _normalised_output(g: _Graph, x: str) -> str:
    y = g.normalised(x)
    g.surplus += [y, g.add("Tanh", y)]
    return g.conv(g.add("Relu", y))


def _normalised_inputs(g: _Graph, x: str) -> str:
    return g.add("Relu", g.normalised(g.add("Relu", g.conv(x))))


def _gelu_output(g: _Graph, x: str) -> str:
    y, inner = g.gelu(g.conv(x), right=True)
    g.surplus.append(inner)
    return y


def _gelu_inputs(g: _Graph, x: str) -> str:
    return g.gelu(x, right=True)[0]


def _gelu_order(g: _Graph, x: str) -> str:
    return g.gelu(x)[0]


def _gelus(g: _Graph, x: str) -> str:
    y = x
    for right in g.random.permutation([True, False, False]):
        y = g.gelu(g.conv(y), right=bool(right))[0]
    return y


def _two_gelus(g: _Graph, x: str) -> str:
    return g.add("Sub", g.gelu(g.add("Neg", x))[0], g.gelu(g.conv(x))[0])


def _inner_read(g: _Graph, x: str) -> str:
    y, inner = g.gelu(x)
    return g.add("Add", g.gelu(g.add("Neg", y))[0], g.add("Tanh", inner))


def _inner_needed(g: _Graph, x: str) -> str:
    y, inner = g.gelu(g.conv(x))
    g.also_needed.append(inner)
    return g.gelu(g.conv(y))[0]


def _products(g: _Graph, x: str) -> str:
    """Draw a product like that of a GELU, whose inner product is read twice, before a GELU."""
    scaled = g.either("Mul", g.constant(0.5), g.add("Tanh", x))
    y = g.either("Mul", x, scaled)
    return g.add("Add", g.gelu(g.add("Neg", y))[0], g.add("Exp", scaled))


def _everything(g: _Graph, x: str) -> str:
    y = g.normalised(x)
    g.surplus.append(y)
    y, inner = g.gelu(g.conv(g.add("Relu", y)))
    g.surplus.append(inner)
    return g.gelu(g.conv(y))[0]


_OUTPUT = "Which values are outputs that nobody needs? A fused node does not make them."
_LISTED = "A number that a caller may hand in is no constant. Which lists of the graph have the weights?"
_ORDER = "In which order does the pattern that is fused multiply?"
_READ = "Who else reads the value that you change, and what does that reader get?"
# What the model is an example of, what draws it, what is in the way, where to look.
_KINDS: tuple[tuple[str, Callable[[_Graph, str], str], str, str], ...] = (
    (Message("A Conv whose result is an output, too"), _conv_output, "outputs", _OUTPUT),
    (
        Message("Two Convs whose results are outputs, of which one is needed"),
        _conv_needed,
        "outputs",
        _OUTPUT,
    ),
    (Message("A BatchNormalization whose result is an output, too"), _normalised_output, "outputs", _OUTPUT),
    (Message("Weights of a BatchNormalization among the inputs"), _normalised_inputs, "inputs", _LISTED),
    (Message("A GELU with an output inside"), _gelu_output, "outputs", _OUTPUT),
    (Message("A GELU whose numbers are among the inputs"), _gelu_inputs, "inputs", _LISTED),
    (Message("A GELU in the exporter's order"), _gelu_order, "order", _ORDER),
    (Message("Three GELUs in a row"), _gelus, "order", _ORDER),
    (Message("Two GELUs side by side"), _two_gelus, "order", _ORDER),
    (Message("Somebody else reads the inner product of a GELU"), _inner_read, "order", _READ),
    (Message("The inner product of a GELU is needed"), _inner_needed, "order", _READ),
    (Message("Products that belong to no GELU"), _products, "order", _READ),
    (Message("All three reasons in one model"), _everything, "all", f"{_OUTPUT} {_LISTED}"),
)


def _questions(random: np.random.Generator) -> Iterator[FusionQuestion]:
    """Draw a model of each kind."""
    for where, draw, reason, look_at in _KINDS:
        graph = _Graph(random)
        x, other = graph.name(), graph.name()
        joined = graph.add("Add", x, other)
        if draw is _conv_output:  # then only an output that nobody needs reads the second input
            graph.surplus.append(joined)
        result = draw(graph, x if draw is _conv_output else joined)
        needed = [result, *graph.also_needed]
        outputs = random.permutation([*needed, *graph.surplus]).tolist()
        shape = ("n", CHANNELS, "h", "w")
        model = graph.model({x: shape, other: (1,)}, dict.fromkeys(outputs, shape), opset=OPSET)
        vary(random, model, keep_names=True)
        if reason in ("inputs", "all"):
            values = [
                helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, tensor.dims)
                for tensor in model.graph.initializer
            ]
            place = int(random.integers(3))
            inputs = [*model.graph.input]
            del model.graph.input[:]
            model.graph.input.extend([*inputs[:place], *values, *inputs[place:]])
        in_order = tuple(name for name in outputs if name in needed)
        yield FusionQuestion(where, model, look_at, needed=in_order, reason=reason)


ASKS = Rewriting("let_it_fuse", "fused", _questions)

produce = ASKS.produce
