"""Exercise: a BatchNormalization folded into the Conv before it, only where that is legal."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from onnxlab.labs.kit.exercise import Exercise, Part
from onnxlab.labs.kit.judging import evidence, require_no_new_operators, require_same_interface, require_whole
from onnxlab.labs.kit.outcome import Difference, Wrong
from onnxlab.labs.kit.rewriting import Question, Rewriting, require_as_before
from onnxlab.labs.kit.samples import Sketch
from onnxlab.model.graph import op_types

__all__ = ["EXERCISE"]

_CHANNELS = 4  # of every input and output of the models; in between there may be others
_FOLDABLE = (
    "For each BatchNormalization: is its input made by a Conv, does nothing else read that, and is "
    "training_mode 0? Then it can go."
)


@dataclass(frozen=True, kw_only=True)
class _Case(Question):
    folds: int  # of its BatchNormalizations
    axes: int  # that a picture has behind that of the channels


def _cases(random: np.random.Generator) -> Iterator[_Case]:
    """Draw a model of each kind."""
    for where, draw, folds, look_at in _KINDS:
        sketch = Sketch(random)
        x = sketch.name()
        axes = _AXES.get(draw, 2)
        shape = ("N", _CHANNELS, *"DHW"[3 - axes :])
        model = sketch.model({x: shape}, dict.fromkeys(draw(sketch, x), shape))
        yield _Case(where, model, look_at, folds=folds, axes=axes)


def _conv(
    sketch: Sketch,
    x: str,
    weight: str = "",
    *,
    bias: bool = False,
    group: int = 1,
    channels: tuple[int, int] = (_CHANNELS, _CHANNELS),
    axes: int = 2,
) -> str:
    """Add a Conv from some channels to others."""
    before, after = channels
    if not weight:
        weight = sketch.weight(0.4 * sketch.normal(after, before // group, *[3] * axes))
    more = [sketch.weight(sketch.normal(after))] if bias else []
    return sketch.add("Conv", x, weight, *more, kernel_shape=[3] * axes, pads=[1] * 2 * axes, group=group)


def _statistics(sketch: Sketch, channels: int = _CHANNELS, least: float = 0.01, most: float = 2) -> list[str]:
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
    weight = s.weight(0.3 * s.normal(_CHANNELS, _CHANNELS, 3, 3))
    one = s.add("Relu", _norm(s, _conv(s, x, weight)))
    return [s.add("Sigmoid", _norm(s, _conv(s, one, weight, bias=True)))]


def _weights_read_by_another(s: Sketch, x: str) -> list[str]:
    weight = s.weight(0.3 * s.normal(_CHANNELS, _CHANNELS, 3, 3))
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
    between = int(s.random.integers(_CHANNELS + 1, _CHANNELS + 6))
    one = _norm(s, _conv(s, x, channels=(_CHANNELS, between)), _statistics(s, between))
    return [_norm(s, _conv(s, s.add("Relu", one), channels=(between, _CHANNELS)))]


def _over_one_axis(s: Sketch, x: str) -> list[str]:
    return [s.add("Relu", _norm(s, _conv(s, x, axes=1, bias=True)))]


def _over_three_axes(s: Sketch, x: str) -> list[str]:
    return [s.add("Relu", _norm(s, _conv(s, x, axes=3)))]


def _transposed(s: Sketch, x: str) -> list[str]:
    weight = s.weight(0.4 * s.normal(_CHANNELS, _CHANNELS, 3, 3))
    one = s.add("ConvTranspose", x, weight, kernel_shape=[3, 3], pads=[1] * 4)
    return [_norm(s, _conv(s, s.add("Relu", _norm(s, one))))]


def _empty_name(s: Sketch, x: str) -> list[str]:
    weight = s.weight(0.4 * s.normal(_CHANNELS, _CHANNELS, 3, 3))
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


def _require_whole(folded: onnx.ModelProto, case: _Case) -> None:
    """Valid, with the same inputs and outputs, and without a node that was not there."""
    require_whole(folded, case.where)
    require_same_interface(folded, case.model, case.where)
    require_no_new_operators(folded, case.model, case.where)


def _require_numbers(folded: onnx.ModelProto, case: _Case, random: np.random.Generator) -> None:
    """What the model gave before."""
    shapes = ((n, _CHANNELS, *random.integers(3, 7, size=case.axes)) for n in (1, random.integers(2, 5)))
    require_as_before(folded, case, (random.normal(1, 2, size=shape).astype(np.float32) for shape in shapes))


def _require_folds(folded: onnx.ModelProto, case: _Case, random: np.random.Generator) -> None:
    """As many are gone as can go."""
    there = op_types(case.model).count("BatchNormalization")
    left = op_types(folded).count("BatchNormalization")
    difference = Difference(f"{there} BatchNormalization", f"{there - case.folds} left", f"{left} left")
    if left > there - case.folds:
        msg = f"{case.where}: one that can be folded is still there."
        shown = evidence(folded, None, "BatchNormalization")
        raise Wrong(msg, _FOLDABLE, difference=difference, evidence=shown)
    if left < there - case.folds or op_types(folded).count("Conv") != op_types(case.model).count("Conv"):
        msg = f"{case.where}: a node is gone that had to stay."
        raise Wrong(msg, case.look_at, difference=difference, evidence=evidence(folded))


def _folded(case: _Case) -> onnx.ModelProto:
    """A right answer. ONNX Runtime's own folding also folds ConvTranspose, and no Conv with an empty name."""
    folded = deepcopy(case.model)
    graph = folded.graph
    weights = {each.name: numpy_helper.to_array(each).astype(np.float64) for each in graph.initializer}
    read = [each.name for each in graph.output] + [name for node in graph.node for name in node.input]
    for norm in [node for node in graph.node if node.op_type == "BatchNormalization"]:
        conv = next((node for node in graph.node if norm.input[0] in node.output), norm)
        settings = {each.name: onnx.helper.get_attribute_value(each) for each in norm.attribute}
        if conv.op_type != "Conv" or read.count(norm.input[0]) > 1 or settings.get("training_mode"):
            continue
        scale, bias, mean, variance = (weights[name] for name in norm.input[1:])
        factor = scale / np.sqrt(variance + settings.get("epsilon", 1e-5))
        weight, *old = (weights[name] for name in conv.input[1:] if name)
        del conv.input[1:]
        moved = (sum(old) - mean) * factor + bias
        for array in (weight * factor.reshape(-1, *[1] * (weight.ndim - 1)), moved):
            conv.input.append(f"{norm.output[0]}_{len(conv.input)}")
            graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), conv.input[-1]))
        conv.output[0] = norm.output[0]
        graph.node.remove(norm)
    return folded


_ASKED = Rewriting("fold_batchnorm", "folded", _cases, _require_whole, _folded)

EXERCISE = Exercise(
    order=1,
    id="fold-batchnorm",
    title="Fold a BatchNormalization into the Conv before it",
    points=5,
    answers=("fold_batchnorm",),
    produce=_ASKED.produce,
    parts=(
        Part("a valid model with the same inputs and outputs", _ASKED.judge()),
        Part("the numbers are as before", _ASKED.judge(_require_numbers)),
        Part("all that can be folded is folded, the rest is left", _ASKED.judge(_require_folds)),
    ),
    hints=(
        "In evaluation mode a BatchNormalization is a factor and a sum for each channel. A Conv can do both.",
        "factor = scale / sqrt(var + epsilon); the weights times factor, along their first axis, that of the "
        "channels; the new bias is (old bias - mean) * factor + bias. New initializers with new names "
        "damage nobody.",
        "For each BatchNormalization without training_mode=1: find the Conv that makes its input; go on only "
        "if exactly one node reads that value and it is no graph output. Append both new initializers, "
        "`del conv.input[1:]`, `conv.input.extend([weight, bias])`, `conv.output[0] = norm.output[0]`, "
        "`graph.node.remove(norm)`.",
    ),
)
