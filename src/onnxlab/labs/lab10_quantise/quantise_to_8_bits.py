"""Exercise quantise-to-8-bits: quantise each Conv by `quantize_static`, with pictures from the pipeline.

What the statement says, and what is drawn to reach it:

- Batches come from the pipeline that is given: five pipelines with other names, steps and numbers.
- Every picture counts: in each question one picture alone has the day's largest range; it is the first, the
  last or one between, at an even or an odd place; it is light on half of its pixels, or at its rim alone.
- The colours keep their order: one network weighs red most, of which the pictures have most.
- The name of the network's input is drawn, and so are those of its nodes.
- Nodes named in `exclude` stay in float32: none, one, two.
- Only Conv is quantised: Add, Mul, Sigmoid, MaxPool and MatMul stay as they are.
- A scale for each channel of a weight: channels differ in size.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import parser

from onnxlab.kit.rewriting import Question, Rewriting
from onnxlab.kit.samples import Sketch
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.runtime.session import open_session

__all__ = ["ASKS", "Int8Question", "produce"]

CHANNELS = 12
_PREPARE = """<ir_version: 10, opset_import: ["" : 20]>
prepare (uint8[h, w, 3] %(photo)s) => (float[1, 3, h, w] ready)
<int64[1] front = {0}, float[3] %(a)s = {%(mean)s},
 float[3] %(b)s = {%(spread)s}> {
    f = Cast <to = 1> (%(photo)s)
    %(steps)s
    t = Transpose <perm = [2, 0, 1]> (d)
    ready = Unsqueeze (t, front)
}"""
_STANDARDISED = "s = Sub (f, %(a)s) d = Div (s, %(b)s)"


@dataclass(frozen=True, kw_only=True)
class Int8Question(Question):
    """A pipeline, a network that gets its output, and a day's pictures.

    Attributes:
        pipeline: The model that prepares a picture.
        pictures: uint8 arrays [h, w, 3].
        exclude: The names of the nodes that stay in float32.
    """

    pipeline: onnx.ModelProto
    pictures: list[Array]
    exclude: list[str]

    @property
    def arguments(self) -> dict[str, Any]:
        """The pipeline, the network, the pictures and the names."""
        return {
            "pipeline": self.pipeline,
            "network": self.model,
            "pictures": self.pictures,
            "exclude": self.exclude,
        }

    def prepared(self, pictures: list[Array]) -> Array:
        """Return what the pipeline makes of pictures, in one batch."""
        session, name = open_session(self.pipeline), self.pipeline.graph.input[0].name
        return np.concatenate([session.run(None, {name: picture})[0] for picture in pictures])


def draw_picture(random: np.random.Generator, *, bright: bool = False, rim: bool = False) -> Array:
    """Draw a picture, more red than blue: a dull one, or one from black to full light, at its rim alone."""
    if not bright:
        low, high = [35, 20, 5], [110, 85, 30]
        return random.uniform(low, high, size=(8, 10, 3)).astype(np.uint8)
    light = random.permutation(np.arange(80) % 2).reshape(8, 10, 1)  # on half of the pixels
    if rim:
        light = np.ones((8, 10, 1))
        light[1:-1, 1:-1] = 0
    return (light * random.uniform([230, 190, 60], [255, 220, 80], size=(8, 10, 3))).astype(np.uint8)


def _conv(s: Sketch, x: str, inputs: int = CHANNELS, colours: tuple[float, ...] = (1, 1, 1)) -> str:
    """Add a Conv whose output channels have weights of different sizes; of three inputs, by colour."""
    weight = s.normal(CHANNELS, inputs, 3, 3) * np.sqrt(1 / (9 * inputs))
    weight *= s.random.permutation(np.linspace(0.5, 2, CHANNELS))[:, None, None, None]
    if inputs == 3:
        weight *= np.reshape(colours, (3, 1, 1))
    bias = 0.1 * s.normal(CHANNELS)
    return s.add("Conv", x, s.weight(weight), s.weight(bias), kernel_shape=[3, 3], pads=[1] * 4)


def _chain(s: Sketch, x: str, colours: tuple[float, ...] = (1, 1, 1)) -> str:
    value = _conv(s, x, 3, colours)
    for _ in range(2):
        value = _conv(s, s.add("Relu", value))
    return value


def _red_first(s: Sketch, x: str) -> str:
    return _chain(s, x, (2, 0.2, 0.1))


def _residual(s: Sketch, x: str) -> str:
    first = s.add("Relu", _conv(s, x, 3))
    second = _conv(s, first)
    return _conv(s, s.add("Add", first, second))


def _gated(s: Sketch, x: str) -> str:
    first = _conv(s, x, 3)
    gate = s.add("Sigmoid", _conv(s, first))
    return _conv(s, s.add("Mul", first, gate))


def _pooled(s: Sketch, x: str) -> str:
    """Draw a network that ends with a MatMul of each pixel's channels."""
    first = s.add("Relu", _conv(s, x, 3))
    pooled = s.add("MaxPool", first, kernel_shape=[2, 2], strides=[2, 2])
    last = s.add("Transpose", s.add("Relu", _conv(s, pooled)), perm=[0, 2, 3, 1])
    mixed = s.add("MatMul", last, s.weight(s.normal(CHANNELS, CHANNELS) / np.sqrt(CHANNELS)))
    return s.add("Transpose", mixed, perm=[0, 3, 1, 2])


@dataclass(frozen=True)
class _Kind:
    """A kind of pipeline, a kind of network, and the place of the one picture that no other replaces.

    Attributes:
        where: What the pipeline is an example of.
        steps: Its nodes, from f to d.
        mean: The first three numbers of the pipeline, one for each colour.
        spread: The second three.
        network: Draws the network and returns its output.
        exclude: Which of its Conv stay in float32.
        place: The place of the one picture, as a share of the day: 0 for the first, 1 for the last.
        odd: Whether the place is made odd.
        rim: Whether the one picture is light at its rim only.
    """

    where: str
    steps: str
    mean: str
    spread: str
    network: Callable[[Sketch, str], str]
    exclude: tuple[int, ...]
    place: float
    odd: bool | None = None
    rim: bool = False


_KINDS = (
    _Kind(Message("Pixels less their mean, by their spread"), _STANDARDISED, "110, 120, 130", "50, 45, 40",
        _chain, (), 1),
    _Kind(Message("Pixels as they are, from 0 to 255"), _STANDARDISED, "0, 0, 0", "1, 1, 1", _red_first, (1,),
        0.4, odd=True, rim=True),
    _Kind(Message("Blue before red, and a sum of two branches"),
        "i = Constant <value_ints = [2, 1, 0]> () g = Gather <axis = 2> (f, i) s = Sub (g, %(a)s) "
        "d = Div (s, %(b)s)", "160, 100, 30", "30, 40, 30", _residual, (), 0.6, odd=False),
    _Kind(Message("Pixels by a factor, to a power, and a gate"), "s = Div (f, %(b)s) d = Pow (s, %(a)s)",
        "1.5, 2, 1.2", "60, 70, 50", _gated, (1,), 0),
    _Kind(Message("The picture's own mean is taken away, and a pooling"),
        "m = ReduceMean <keepdims = 1> (f) c = Sub (f, m) s = Add (c, %(a)s) d = Div (s, %(b)s)", "3, -2, 0",
        "40, 40, 40", _pooled, (1,), 0.2, odd=True),
)  # fmt: skip


def _questions(random: np.random.Generator) -> Iterator[Int8Question]:
    for number, kind in enumerate(_KINDS):
        sketch = Sketch(random)
        names = {name: sketch.name() for name in ("photo", "a", "b")}
        texts = {"mean": kind.mean, "spread": kind.spread, "steps": kind.steps % names}
        pipeline = parser.parse_model(_PREPARE % (names | texts))
        pictures = [draw_picture(random) for _ in range(16 + 2 * int(random.integers(4)) + number % 2)]
        place = round(kind.place * (len(pictures) - 1))
        if kind.odd is not None:
            place += place % 2 != kind.odd
        pictures[place] = draw_picture(random, bright=True, rim=kind.rim)
        name = sketch.name()
        output = kind.network(sketch, name)
        model = sketch.model({name: ("n", 3, "h", "w")}, {output: ("n", CHANNELS, "rows", "columns")})
        convs = [node.name for node in model.graph.node if node.op_type == "Conv"]
        exclude = [convs[i] for i in kind.exclude]
        yield Int8Question(kind.where, model, pipeline=pipeline, pictures=pictures, exclude=exclude)


ASKS = Rewriting("quantise_to_8_bits", "int8", _questions)

produce = ASKS.produce
