"""Models with Conv and BatchNormalization, drawn: some pairs can be folded, some must be left."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import onnx

from onnxlab.labs.kit.outcome import trying
from onnxlab.labs.kit.samples import Sketch

__all__ = ["CHANNELS", "FoldingCase", "folding_cases"]

CHANNELS = 4
"""Of every input and output of the models; in between there may be others."""


@dataclass(frozen=True)
class FoldingCase:
    """A model to be folded.

    Attributes:
        where: What it is about, for a message.
        model: The model.
        folds: How many of its BatchNormalizations can go.
        look_at: What to look at if an answer is wrong for it.
        axes: How many axes a picture has behind that of the channels.
    """

    where: str
    model: onnx.ModelProto
    folds: int
    look_at: str
    axes: int = 2

    def tried(self) -> AbstractContextManager[None]:
        """Name the case that is tried inside."""
        return trying(f"the case {self.where!r}", model=self.model)


def folding_cases(random: np.random.Generator) -> list[FoldingCase]:
    """Draw a model of each kind.

    Args:
        random: Where the weights are drawn from.
    """
    cases = []
    for where, draw, folds, look_at in _KINDS:
        sketch = Sketch(random)
        x = sketch.name()
        axes = _AXES.get(draw, 2)
        shape = ("N", CHANNELS, *"DHW"[3 - axes :])
        model = sketch.model({x: shape}, dict.fromkeys(draw(sketch, x), shape))
        cases.append(FoldingCase(where, model, folds, look_at, axes))
    return cases


def _conv(
    sketch: Sketch,
    x: str,
    weight: str = "",
    *,
    bias: bool = False,
    group: int = 1,
    channels: tuple[int, int] = (CHANNELS, CHANNELS),
    axes: int = 2,
) -> str:
    """Add a Conv from some channels to others."""
    before, after = channels
    if not weight:
        weight = sketch.weight(0.4 * sketch.normal(after, before // group, *[3] * axes))
    more = [sketch.weight(sketch.normal(after))] if bias else []
    return sketch.add("Conv", x, weight, *more, kernel_shape=[3] * axes, pads=[1] * 2 * axes, group=group)


def _statistics(sketch: Sketch, channels: int = CHANNELS, least: float = 0.01, most: float = 2) -> list[str]:
    """Scale, bias, mean and variance; some variances so small that epsilon matters."""
    variance = sketch.random.uniform(least, most, size=channels)
    mean = sketch.normal(channels) + 1
    return [
        sketch.weight(each)
        for each in (sketch.normal(channels) + 0.5, sketch.normal(channels), mean, variance)
    ]


def _norm(
    sketch: Sketch, x: str, statistics: list[str] | None = None, results: int = 1, **attributes: object
) -> str:
    epsilon = float(sketch.random.choice([0.3, 0.03, 0.1]))
    return sketch.add(
        "BatchNormalization",
        x,
        *(statistics or _statistics(sketch)),
        epsilon=epsilon,
        results=results,
        **attributes,
    )


def _pair(s: Sketch, x: str) -> list[str]:
    return [s.add("Relu", _norm(s, _conv(s, s.add("Relu", x))))]


def _groups_and_bias(s: Sketch, x: str) -> list[str]:
    return [_norm(s, _conv(s, x, bias=True, group=2))]


def _shared_weights(s: Sketch, x: str) -> list[str]:
    weight = s.weight(0.3 * s.normal(CHANNELS, CHANNELS, 3, 3))
    one = s.add("Relu", _norm(s, _conv(s, x, weight)))
    return [s.add("Sigmoid", _norm(s, _conv(s, one, weight, bias=True)))]


def _weights_read_by_another(s: Sketch, x: str) -> list[str]:
    weight = s.weight(0.3 * s.normal(CHANNELS, CHANNELS, 3, 3))
    one = s.add("Tanh", _norm(s, _conv(s, x, weight)))
    return [s.add("Relu", _conv(s, one, weight))]


def _shared_statistics(s: Sketch, x: str) -> list[str]:
    statistics = _statistics(s)
    one = s.add("Relu", _norm(s, _conv(s, x), statistics))
    return [s.add("Relu", _norm(s, _conv(s, one), statistics))]


def _read_twice(s: Sketch, x: str) -> list[str]:
    conv = _conv(s, s.add("Relu", _norm(s, _conv(s, x))))
    return [s.add("Add", s.add("Relu", _norm(s, conv)), conv)]


def _also_an_output(s: Sketch, x: str) -> list[str]:
    conv = _conv(s, s.add("Relu", _norm(s, _conv(s, x))))
    return [s.add("Relu", _norm(s, conv)), conv]


def _in_training_mode(s: Sketch, x: str) -> list[str]:
    conv = _conv(s, s.add("Relu", _norm(s, _conv(s, x), training_mode=0)))
    statistics = _statistics(s)
    return [s.add("Relu", _norm(s, conv, statistics, results=3, training_mode=1))]


def _before_the_conv(s: Sketch, x: str) -> list[str]:
    one = s.add("Relu", _norm(s, _conv(s, x)))
    return [s.add("Relu", _conv(s, _norm(s, one), bias=True))]


def _no_epsilon(s: Sketch, x: str) -> list[str]:
    statistics = _statistics(s, least=2e-6, most=2e-5)
    return [s.add("Relu", s.add("BatchNormalization", _conv(s, x), *statistics, momentum=0.8))]


def _other_channels(s: Sketch, x: str) -> list[str]:
    between = int(s.random.integers(CHANNELS + 1, CHANNELS + 6))
    one = _norm(s, _conv(s, x, channels=(CHANNELS, between)), _statistics(s, between))
    return [_norm(s, _conv(s, s.add("Relu", one), channels=(between, CHANNELS)))]


def _over_one_axis(s: Sketch, x: str) -> list[str]:
    return [s.add("Relu", _norm(s, _conv(s, x, axes=1, bias=True)))]


def _over_three_axes(s: Sketch, x: str) -> list[str]:
    return [s.add("Relu", _norm(s, _conv(s, x, axes=3)))]


def _transposed(s: Sketch, x: str) -> list[str]:
    weight = s.weight(0.4 * s.normal(CHANNELS, CHANNELS, 3, 3))
    one = s.add("ConvTranspose", x, weight, kernel_shape=[3, 3], pads=[1] * 4)
    return [_norm(s, _conv(s, s.add("Relu", _norm(s, one))))]


def _empty_name(s: Sketch, x: str) -> list[str]:
    weight = s.weight(0.4 * s.normal(CHANNELS, CHANNELS, 3, 3))
    return [_norm(s, s.add("Conv", x, weight, "", kernel_shape=[3, 3], pads=[1] * 4))]


# Of those that have not two.
_AXES: dict[Callable[[Sketch, str], list[str]], int] = {_over_one_axis: 1, _over_three_axes: 3}

_READERS = "How many nodes read the initializer that you change?"

# What it is about, how it is drawn (names of the outputs), how many can be folded, what to look at.
_KINDS: tuple[tuple[str, Callable[[Sketch, str], list[str]], int, str], ...] = (
    (
        "Conv, BatchNormalization",
        _pair,
        1,
        "Compute one channel by hand: scale, bias, mean, variance and the attribute epsilon.",
    ),
    (
        "A Conv with groups and a bias; the BatchNormalization makes the output",
        _groups_and_bias,
        1,
        "The bias is normalised as well: what does BatchNormalization make of conv + bias?",
    ),
    ("Two Convs that share their weights", _shared_weights, 2, _READERS),
    ("A Conv without BatchNormalization reads the same weights", _weights_read_by_another, 1, _READERS),
    (
        "Two BatchNormalizations that share their statistics",
        _shared_statistics,
        2,
        "Which initializers are still read after the first fold?",
    ),
    (
        "The second Conv is read by an Add as well",
        _read_twice,
        1,
        "Who else reads the Conv's output, and what would that node get?",
    ),
    (
        "The second Conv makes an output of the graph",
        _also_an_output,
        1,
        "What would a caller get who asks for the Conv's output?",
    ),
    (
        "The second BatchNormalization is in training mode",
        _in_training_mode,
        1,
        "Which mean and variance does a BatchNormalization with training_mode=1 use?",
    ),
    (
        "A BatchNormalization in front of a Conv with padding",
        _before_the_conv,
        1,
        "The padding adds zeros after the BatchNormalization. What would be there after folding?",
    ),
    (
        "A BatchNormalization without the attribute epsilon",
        _no_epsilon,
        1,
        "What is epsilon where it is not written? onnx.defs.get_schema('BatchNormalization') tells.",
    ),
    (
        "Convs from some channels to more, and back",
        _other_channels,
        2,
        "Which axis of the weights are the channels that come out?",
    ),
    ("A Conv over one axis", _over_one_axis, 1, "How many axes have the weights of this Conv?"),
    ("A Conv over three axes", _over_three_axes, 1, "How many axes have the weights of this Conv?"),
    (
        "A BatchNormalization behind a ConvTranspose",
        _transposed,
        1,
        "A ConvTranspose is no Conv: the axes of its weights stand in another order.",
    ),
    (
        "A Conv whose unused bias has an empty name",
        _empty_name,
        1,
        "An optional input that is not used can have an empty name.",
    ),
)
