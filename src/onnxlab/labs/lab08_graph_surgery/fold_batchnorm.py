"""Exercise: fold a BatchNormalization into the Conv before it, but only where that changes no number.

What the statement asks, and where it is drawn:

* the numbers stay, to the accuracy of float32: every model, at two sizes and batches;
* epsilon is what is written, 0 too, or the default: each with variances so small that it matters;
* a Conv has one, two or three axes, groups, strides, dilations, a bias, none, or one with an empty name;
* channels need not be four, a scale may be 0 or negative;
* initializers may be shared: weights, biases, statistics, among Convs, with other nodes, with each other;
* an initializer may be read in bodies only;
* folded only for the output of a Conv: not of an Add, a ConvTranspose, the graph's input, nor forwards;
* folded only for the only reader: not if a node, a second BatchNormalization or a body reads it as well;
* not if it is an output of the graph; not in training mode;
* every one is folded, also of five; who reads the BatchNormalization (nodes, bodies, the graph) reads on;
* no node more, no function, the same inputs and outputs;
* nodes have no names, stand in any order, and another domain's opset may come first: drawn for every model.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

from onnxlab.kit.rewriting import Question, Rewriting
from onnxlab.kit.samples import Sketch
from onnxlab.kit.variations import Variation, add_reader, nest_names, unname_nodes, vary
from onnxlab.message import Message

CHANNELS = 4  # of every input and output of the models; in between there may be others
FOLDABLE = (
    "For each BatchNormalization: is its input made by a Conv, does nothing else read that, and is "
    "training_mode 0? Then it can go."
)


@dataclass(frozen=True, kw_only=True)
class FoldQuestion(Question):
    """A model whose BatchNormalizations are to be folded."""

    axes: int  # of a picture, after batch and channels


def _cases(random: np.random.Generator) -> Iterator[FoldQuestion]:
    """Draw a model of each kind."""
    for kind in _KINDS:
        sketch = Sketch(random)
        x = sketch.name()
        axes = "DHW"[3 - kind.axes :]
        outputs = dict.fromkeys(kind.draw(sketch, x), ("N", CHANNELS, *(f"{axis}_out" for axis in axes)))
        model = sketch.model({x: ("N", CHANNELS, *axes)}, outputs, opset=int(random.choice([15, 18, 20])))
        if kind.read_in_a_branch is not None:
            add_reader(random, model, model.graph.node[kind.read_in_a_branch].output[0], "branch")
            _give_branches_a_weight(model)
        for variation in kind.variations:
            variation(random, model)
        yield FoldQuestion(kind.where, model, kind.look_at, axes=kind.axes)


def _give_branches_a_weight(model: onnx.ModelProto) -> None:
    """Let the branches of the last node, an If, read an initializer that nothing else reads."""
    weight = numpy_helper.from_array(np.array(2, np.float32), "in_branches")
    model.graph.initializer.append(weight)
    for attribute in model.graph.node[-1].attribute:
        (reader,) = attribute.g.node
        reader.op_type = "Mul"
        reader.input.append(weight.name)


def _conv(
    sketch: Sketch,
    x: str,
    weight: str = "",
    *,
    bias: bool = False,
    group: int = 1,
    channels: tuple[int, int] = (CHANNELS, CHANNELS),
    axes: int = 2,
    **attributes: object,
) -> str:
    """Add a Conv that keeps the size of a picture; `channels` are those of its input and of its output."""
    channels_in, channels_out = channels
    if not weight:
        weight = sketch.weight(0.4 * sketch.normal(channels_out, channels_in // group, *[3] * axes))
    biases = [sketch.weight(sketch.normal(channels_out))] if bias else []
    attributes = {"kernel_shape": [3] * axes, "pads": [1] * 2 * axes, "group": group, **attributes}
    return sketch.add("Conv", x, weight, *biases, **attributes)


def _statistics(sketch: Sketch, channels: int = CHANNELS, least: float = 0.01, most: float = 2) -> list[str]:
    """Add scale, bias, mean and variance; some variances are so small that epsilon matters."""
    variance = sketch.random.uniform(least, most, size=channels)
    mean = sketch.normal(channels) + 1
    scale, bias = sketch.normal(channels) + 0.5, sketch.normal(channels)
    scale[int(sketch.random.integers(channels))] *= sketch.random.choice([0, 1])
    return [sketch.weight(values) for values in (scale, bias, mean, variance)]


def _norm(
    sketch: Sketch, x: str, statistics: list[str] | None = None, results: int = 1, **attributes: object
) -> str:
    """Add a BatchNormalization."""
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
    hidden = s.add("Relu", _norm(s, _conv(s, x, weight)))
    return [s.add("Sigmoid", _norm(s, _conv(s, hidden, weight, bias=True)))]


def _weights_read_by_another(s: Sketch, x: str) -> list[str]:
    weight = s.weight(0.3 * s.normal(CHANNELS, CHANNELS, 3, 3))
    hidden = s.add("Tanh", _norm(s, _conv(s, x, weight)))
    return [s.add("Relu", _conv(s, hidden, weight))]


def _shared_statistics(s: Sketch, x: str) -> list[str]:
    statistics = _statistics(s)
    hidden = s.add("Relu", _norm(s, _conv(s, x), statistics))
    return [s.add("Relu", _norm(s, _conv(s, hidden), statistics))]


def _read_twice(s: Sketch, x: str) -> list[str]:
    statistics = _statistics(s)
    conv = _conv(s, s.add("Relu", _norm(s, _conv(s, x), statistics)))
    return [s.add("Add", s.add("Relu", _norm(s, conv, statistics)), conv)]


def _also_an_output(s: Sketch, x: str) -> list[str]:
    conv = _conv(s, s.add("Relu", _norm(s, _conv(s, x))))
    return [s.add("Relu", _norm(s, conv)), conv]


def _in_training_mode(s: Sketch, x: str) -> list[str]:
    conv = _conv(s, s.add("Relu", _norm(s, _conv(s, x), training_mode=0)))
    statistics = _statistics(s)
    return [s.add("Relu", _norm(s, conv, statistics, results=3, training_mode=1))]


def _before_the_conv(s: Sketch, x: str) -> list[str]:
    hidden = s.add("Relu", _norm(s, _conv(s, x)))
    return [s.add("Relu", _conv(s, _norm(s, hidden), bias=True))]


def _no_epsilon(s: Sketch, x: str) -> list[str]:
    statistics = _statistics(s, least=2e-6, most=2e-5)
    return [s.add("Relu", s.add("BatchNormalization", _conv(s, x), *statistics, momentum=0.8))]


def _other_channels(s: Sketch, x: str) -> list[str]:
    between = int(s.random.integers(CHANNELS + 1, CHANNELS + 6))
    hidden = _norm(s, _conv(s, x, channels=(CHANNELS, between)), _statistics(s, between))
    return [_norm(s, _conv(s, s.add("Relu", hidden), channels=(between, CHANNELS)))]


def _over_one_axis(s: Sketch, x: str) -> list[str]:
    return [s.add("Relu", _norm(s, _conv(s, x, axes=1, bias=True)))]


def _over_three_axes(s: Sketch, x: str) -> list[str]:
    return [s.add("Relu", _norm(s, _conv(s, x, axes=3)))]


def _transposed(s: Sketch, x: str) -> list[str]:
    weight = s.weight(0.4 * s.normal(CHANNELS, CHANNELS, 3, 3))
    hidden = s.add("ConvTranspose", x, weight, kernel_shape=[3, 3], pads=[1] * 4)
    return [_norm(s, _conv(s, s.add("Relu", _norm(s, hidden))))]


def _empty_name(s: Sketch, x: str) -> list[str]:
    weight = s.weight(0.4 * s.normal(CHANNELS, CHANNELS, 3, 3))
    return [_norm(s, s.add("Conv", x, weight, "", kernel_shape=[3, 3], pads=[1] * 4))]


def _pair_twice(s: Sketch, x: str) -> list[str]:
    hidden = s.add("Relu", _norm(s, _conv(s, x)))
    return [s.add("Relu", _norm(s, _conv(s, hidden)))]


def _zero_epsilon(s: Sketch, x: str) -> list[str]:
    """Statistics at which an epsilon of 0.00001 would show."""
    statistics = _statistics(s, least=2e-6, most=2e-5)
    return [s.add("Relu", s.add("BatchNormalization", _conv(s, x), *statistics, epsilon=0.0))]


def _read_by_two_norms(s: Sketch, x: str) -> list[str]:
    conv = _conv(s, s.add("Relu", _norm(s, _conv(s, x))))
    return [s.add("Add", _norm(s, conv), _norm(s, conv))]


def _shared_bias(s: Sketch, x: str) -> list[str]:
    """Two Convs and a BatchNormalization read one bias."""
    weights = [s.weight(0.4 * s.normal(CHANNELS, CHANNELS, 3, 3)) for _ in "ab"]
    scale, bias, mean, variance = _statistics(s)
    settings = {"kernel_shape": [3, 3], "pads": [1] * 4}
    hidden = s.add("Tanh", _norm(s, s.add("Conv", x, weights[0], bias, **settings)))
    hidden = s.add("Conv", hidden, weights[1], bias, **settings)
    return [_norm(s, hidden, [scale, bias, mean, variance])]


def _weights_read_by_a_node(s: Sketch, x: str) -> list[str]:
    weight = s.weight(0.3 * s.normal(CHANNELS, CHANNELS, 1, 1))
    square = s.add("ReduceSumSquare", weight)
    conv = s.add("Conv", x, weight, kernel_shape=[1, 1])
    return [s.add("Mul", _norm(s, conv), square)]


def _other_settings(s: Sketch, x: str) -> list[str]:
    hidden = s.add("Relu", _norm(s, _conv(s, x, dilations=[2, 1], pads=[2, 1, 2, 1])))
    return [_norm(s, _conv(s, hidden, strides=[1, 2], bias=True, group=CHANNELS))]


def _after_others(s: Sketch, x: str) -> list[str]:
    first = _norm(s, x)
    total = s.add("Add", _conv(s, first), _conv(s, x))
    return [_norm(s, _conv(s, s.add("Relu", _norm(s, total))))]


def _five(s: Sketch, x: str) -> list[str]:
    for _ in range(5):
        statistics = _statistics(s, least=1, most=2)
        x = s.add("Tanh", _norm(s, _conv(s, x, bias=bool(s.random.integers(2))), statistics))
    return [x]


def _in_turn(s: Sketch, x: str) -> list[str]:
    """Two branches whose nodes stand in turn; what follows the second Conv is not its own reader."""
    convs = [_conv(s, s.add("Relu", x)), _conv(s, s.add("Tanh", x))]
    norms = [_norm(s, conv) for conv in convs]
    return [s.add("Add", s.add("Neg", norms[1]), norms[0])]


class _Kind(NamedTuple):
    where: str  # what the model is about, for messages
    draw: Callable[[Sketch, str], list[str]]  # adds the nodes and returns the outputs
    look_at: str
    axes: int = 2  # of a picture, after batch and channels
    read_in_a_branch: int | None = None  # the node whose value the branches of an If read as well
    variations: tuple[Variation, ...] = (vary,)  # of how the graph is written


_READERS = "How many nodes read the initializer that you change?"

# A table: a row says what is drawn, and where to look.
_KINDS = (
    _Kind(Message("Conv, BatchNormalization"), _pair,
        "Compute one channel by hand: scale, bias, mean, variance and the attribute epsilon."),
    _Kind(Message("A Conv with groups and a bias; the BatchNormalization makes the output"), _groups_and_bias,
        "The bias is normalised as well: what does BatchNormalization make of conv + bias?"),
    _Kind(Message("Two Convs that share their weights"), _shared_weights, _READERS),
    _Kind(Message("A Conv without BatchNormalization reads the same weights"), _weights_read_by_another,
        _READERS),
    _Kind(Message("Two BatchNormalizations that share their statistics"), _shared_statistics,
        "Which initializers are still read after the first fold?"),
    _Kind(Message("The second Conv is read by an Add as well"), _read_twice,
        "Who else reads the Conv's output, and what would that node get?"),
    _Kind(Message("The second Conv makes an output of the graph"), _also_an_output,
        "What would a caller get who asks for the Conv's output?"),
    _Kind(Message("The second BatchNormalization is in training mode"), _in_training_mode,
        "Which mean and variance does a BatchNormalization with training_mode=1 use?"),
    _Kind(Message("A BatchNormalization in front of a Conv with padding"), _before_the_conv,
        "The padding adds zeros after the BatchNormalization. What would be there after folding?"),
    _Kind(Message("A BatchNormalization without the attribute epsilon"), _no_epsilon,
        "What is epsilon where it is not written? onnx.defs.get_schema('BatchNormalization') tells."),
    _Kind(Message("Convs from some channels to more, and back"), _other_channels,
        "Which axis of the weights are the channels that come out?"),
    _Kind(Message("A Conv over one axis"), _over_one_axis, "How many axes have the weights of this Conv?",
        axes=1),
    _Kind(Message("A Conv over three axes"), _over_three_axes,
        "How many axes have the weights of this Conv?", axes=3),
    _Kind(Message("A BatchNormalization after a ConvTranspose"), _transposed,
        "A ConvTranspose is no Conv: the axes of its weights stand in another order."),
    _Kind(Message("A Conv whose unused bias has an empty name"), _empty_name,
        "An optional input that is not used can have an empty name."),
    _Kind(Message("A BatchNormalization whose epsilon is 0"), _zero_epsilon,
        "An epsilon of 0 is written here. What does your code do with a 0?"),
    _Kind(Message("Two BatchNormalizations read the second Conv"), _read_by_two_norms,
        "Who else reads the Conv's output, and what would that node get?"),
    _Kind(Message("The branches of an If read the second Conv as well"), _pair_twice,
        "Does your search for readers see what the bodies of an If read? `reads(node)` tells.",
        read_in_a_branch=3),
    _Kind(Message("The branches of an If read the second BatchNormalization"), _pair_twice,
        "Who reads the value that the BatchNormalization makes, and what do they read now?",
        read_in_a_branch=4),
    _Kind(Message("Two Convs and a BatchNormalization share a bias"), _shared_bias, _READERS),
    _Kind(Message("A node that is no Conv reads the weights"), _weights_read_by_a_node, _READERS),
    _Kind(Message("Convs with dilations, strides and a group for each channel"), _other_settings,
        "What becomes of the Conv's attributes?"),
    _Kind(Message("A BatchNormalization of the graph's input, one of a sum, and one of a Conv"),
        _after_others,
        FOLDABLE),
    _Kind(Message("Five pairs"), _five, "Are the names of your new initializers different each time?"),
    _Kind(Message("Two branches whose nodes stand in turn"), _in_turn,
        "Which node makes the value that the BatchNormalization reads? It need not stand just before it.",
        variations=(nest_names, unname_nodes)),
)  # fmt: skip


ASKS = Rewriting("fold_batchnorm", "folded", _cases)

produce = ASKS.produce
