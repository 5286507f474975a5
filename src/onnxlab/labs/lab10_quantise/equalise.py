"""Exercise equalise: scale channels between two Convs where that is legal, so that 8 bits are enough.

What the statement says, and the drawn models that reach it:

- 8 bits are enough after every pair: each pair has a huge channel, and every output is compared.
- Any factors above 0 will do: the numbers are judged, not the factors.
- The numbers stay: weights of one sign, a bias or none, another kernel, a stride, two channels or more.
- A Relu or a LeakyRelu, whatever its slope.
- A Conv may belong to two pairs; pairs stand next to each other, and next to what is no pair.
- Groups in the second Conv, up to one for each channel, and in the first.
- A channel without weights in the first, in the second, in both.
- An initializer that another node reads, or another pair, or both Convs of one pair.
- Every other node keeps its weights: another operator between the two, none, or two; another reader of either
  value, or an output of the graph; a second operator that is no Conv.
- Names say nothing: they are drawn, and some nodes have none.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from onnxlab.kit.rewriting import Question, Rewriting
from onnxlab.kit.samples import Sketch
from onnxlab.kit.variations import unname_nodes
from onnxlab.message import Message
from onnxlab.model.distance import Array

CHANNELS = 4
HOMOGENEOUS = ("Relu", "LeakyRelu")  # f(k * x) = k * f(x) for every k above 0


@dataclass(frozen=True, kw_only=True)
class ConvsQuestion(Question):
    """A model whose pairs of Convs are to be equalised."""

    huge: bool  # whether a channel is much larger than the others


def _conv(
    s: Sketch,
    x: str,
    weight: Array,
    *,
    bias: bool | str | Array = True,
    name: str = "",
    group: int = 1,
    stride: int = 1,
) -> str:
    """Add a Conv whose weight is new, or the initializer `name` with these values."""
    parameters = [name or s.weight(weight)]
    if bias is True:
        bias = _bias(s, weight)
    if bias is not False:
        parameters.append(bias if isinstance(bias, str) else s.weight(bias))
    size = weight.shape[-1]
    kernel = {"kernel_shape": [size] * 2, "pads": [size // 2] * 4, "strides": [stride] * 2}
    return s.add("Conv", x, *parameters, group=group, **kernel)


def _bias(s: Sketch, weight: Array) -> Array:
    """Draw a bias as large as the weights of its channel."""
    bias: Array = 0.3 * s.normal(len(weight)) * np.abs(weight).max((1, 2, 3))
    return bias


def _between(s: Sketch, x: str, operator: str = "Relu") -> str:
    slope = {"alpha": float(s.random.uniform(0.05, 0.4))} if operator == "LeakyRelu" else {}
    return s.add(operator, x, **slope)


def _weights(s: Sketch, *sizes: int) -> list[Array]:
    """Draw the weights of a chain of Convs with these kernels, a huge channel between any two of them."""
    shapes = [(CHANNELS, CHANNELS, size, size) for size in sizes]
    weights = [s.normal(*shape) * np.sqrt(2 / np.prod(shape[1:])) for shape in shapes]
    for first, second in pairwise(weights):
        channel, factor = int(s.random.integers(CHANNELS)), float(s.random.uniform(500, 2000))
        first[channel] *= factor
        second[:, channel] /= factor
    return weights


def _in_groups(weight: Array, group: int) -> Array:
    """Keep, for each output, the weights for the channels of its group."""
    width, outputs = weight.shape[1] // group, len(weight) // group
    return np.stack([row[i // outputs * width :][:width] for i, row in enumerate(weight)])


def _pair(s: Sketch, x: str, between: str = "Relu") -> list[str]:
    first, second = _weights(s, 3, 3)
    return [_conv(s, _between(s, _conv(s, x, first), between), second)]


def _one_sign(s: Sketch, x: str) -> list[str]:
    """Draw a pair with channels of negative weights in both Convs, whose kernels differ."""
    first, second = _weights(s, 3, 1)
    first[:2], second[:, 1:3] = -np.abs(first[:2]), -np.abs(second[:, 1:3])
    return [_conv(s, _between(s, _conv(s, x, first)), second, stride=2)]


def _two_channels(s: Sketch, x: str) -> list[str]:
    """Draw a pair without a bias, with two channels between its Convs, one of them huge."""
    first, second = s.normal(2, CHANNELS, 3, 3) / 4, s.normal(CHANNELS, 2, 3, 3) / 3
    first[0] *= 1000
    second[:, 0] /= 1000
    return [_conv(s, _between(s, _conv(s, x, first, bias=False)), second)]


def _chain(s: Sketch, x: str) -> list[str]:
    value = x
    for number, weight in enumerate(_weights(s, 3, 1, 3, 3)):
        value = _conv(s, _between(s, value, HOMOGENEOUS[number % 2]) if number else value, weight)
    return [value]


def _grouped(s: Sketch, x: str, group: int = 2) -> list[str]:
    first, second = _weights(s, 3, 3)
    if group < CHANNELS:
        second = np.concatenate([second, s.random.permuted(second, axis=0)])  # more outputs than inputs
    value = _conv(s, x, _in_groups(first, 2), group=2)
    return [_conv(s, _between(s, value), _in_groups(second, group), group=group)]


def _dead_channels(s: Sketch, x: str) -> list[str]:
    """Draw a pair with a channel of zeros in the first Conv, one in the second, and one in both."""
    first, second = s.normal(7, CHANNELS, 3, 3) / 4, s.normal(CHANNELS, 7, 3, 3) / 6
    huge, in_first, in_second, in_both = map(int, s.random.permutation(7)[:4])
    first[huge] *= 1000
    second[:, huge] /= 1000
    bias = _bias(s, first)  # not 0 where only the weights of the first are
    first[[in_first, in_both]], second[:, [in_second, in_both]], bias[in_both] = 0, 0, 0
    return [_conv(s, _between(s, _conv(s, x, first, bias=bias)), second)]


def _shared_weights(s: Sketch, x: str) -> list[str]:
    """Draw a pair of whose initializers each is read by another Conv too."""
    first, second = _weights(s, 3, 3)
    before, bias, after = s.weight(first), s.weight(_bias(s, first)), s.weight(second)
    others = [_conv(s, x, second, name=after), _conv(s, x, first, name=before, bias=bias)]
    value = _conv(s, x, first, name=before, bias=bias)
    return [_conv(s, _between(s, value), second, name=after), *others]


def _two_pairs(s: Sketch, x: str) -> list[str]:
    """Draw two pairs whose nodes stand in turn, with the same first weights."""
    first, second = _weights(s, 3, 3)
    name, bias = s.weight(first), s.weight(_bias(s, first))
    values = [_conv(s, x, first, name=name, bias=bias) for _ in "ab"]
    values = [_between(s, value) for value in values]
    other = 2 * s.random.permutation(second.reshape(CHANNELS, -1)).reshape(second.shape)
    return [_conv(s, value, weight) for value, weight in zip(values, (second, other), strict=True)]


def _own_weights(s: Sketch, x: str) -> list[str]:
    """Draw a pair whose two Convs read one initializer."""
    (weight,) = _weights(s, 3)
    channel = int(s.random.integers(CHANNELS))
    weight[channel] *= 1000
    weight[:, channel] /= 1000
    name = s.weight(weight)
    return [_conv(s, _between(s, _conv(s, x, weight, name=name)), weight, name=name)]


def _beside_no_pair(s: Sketch, x: str) -> list[str]:
    """Draw a pair after two Convs with a Sigmoid between them, whose Relu is read twice."""
    conv, between = _plain(s, x)
    value = _conv(s, s.add("Sigmoid", conv), between)
    first, second = _weights(s, 3, 3)
    relu = _between(s, value)
    paired = _conv(s, _between(s, _conv(s, relu, first), "LeakyRelu"), second)
    return [paired, relu]


def _plain(s: Sketch, x: str) -> tuple[str, Array]:
    """Add a Conv without a huge channel, and draw weights for the next."""
    first, second = (0.3 * s.normal(CHANNELS, CHANNELS, 3, 3) for _ in "ab")
    first[0] *= 8
    return _conv(s, x, first), second


def _no_pair(s: Sketch, x: str, *between: str) -> list[str]:
    value, second = _plain(s, x)
    others = {
        "Clip": [s.weight(np.array(0.0)), s.weight(np.array(6.0))],
        "PRelu": [s.weight(s.random.uniform(0.1, 0.5, size=(CHANNELS, 1, 1)))],
    }
    for operator in between:
        attributes = {"kernel_shape": [3, 3], "pads": [1] * 4} if operator == "MaxPool" else {}
        value = s.add(operator, value, *others.get(operator, []), **attributes)
    return [_conv(s, value, second)]


def _read_twice(s: Sketch, x: str) -> list[str]:
    conv, second = _plain(s, x)
    value = s.add("Relu", conv)
    return [s.add("Add", _conv(s, value, second), value)]


def _first_read_twice(s: Sketch, x: str) -> list[str]:
    conv, second = _plain(s, x)
    also = s.add("Tanh", conv)
    return [_conv(s, _between(s, conv), second), also]


def _two_relus(s: Sketch, x: str) -> list[str]:
    conv, second = _plain(s, x)
    return [_conv(s, _between(s, conv, operator), second) for operator in HOMOGENEOUS]


def _two_convs(s: Sketch, x: str) -> list[str]:
    conv, second = _plain(s, x)
    value = _between(s, conv)
    return [_conv(s, value, second), _conv(s, value, second[::-1])]


def _also_an_output(s: Sketch, x: str) -> list[str]:
    conv, second = _plain(s, x)
    value = s.add("Relu", conv)
    return [_conv(s, value, second), value]


def _first_also_an_output(s: Sketch, x: str) -> list[str]:
    conv, second = _plain(s, x)
    return [conv, _conv(s, _between(s, conv), second)]


def _transposed(s: Sketch, x: str) -> list[str]:
    conv, second = _plain(s, x)
    return [s.add("ConvTranspose", _between(s, conv), s.weight(second), kernel_shape=[3, 3], pads=[1] * 4)]


_READERS = "Who else reads the value between the two, and what would that reader get?"
_FACTORS = "By what is each channel multiplied, and by what divided?"
_GROUPS = "The second axis of its weights counts the channels of one group. Which group reads channel c?"
_SHARED = "How many nodes read the initializer that you change?"
_NOTHING_ELSE = "A Relu or a LeakyRelu, and nothing else, stands between the two Convs of a pair."
# What the model is an example of, what draws it and returns its outputs, whether a channel is huge, where to
# look.
_KINDS: tuple[tuple[str, Callable[[Sketch, str], list[str]], bool, str], ...] = (
    (Message("Two Convs, a Relu between them"), _pair, True, _FACTORS),
    (Message("Channels whose weights are all negative"), _one_sign, True, "How large is a weight of -3?"),
    (Message("The first Conv has no bias, and two channels"), _two_channels, True,
        "How many inputs has a Conv without a bias?"),
    (Message("A LeakyRelu between them"), partial(_pair, between="LeakyRelu"), True,
        "What is LeakyRelu of k * x?"),
    (Message("Four Convs, a huge channel after each of the first three"), _chain, True,
        "The Conv in the middle is the second of one pair and the first of the next."),
    (Message("The second Conv has two groups"), _grouped, True, _GROUPS),
    (Message("The second Conv has a group for each channel"), partial(_grouped, group=CHANNELS), True,
        _GROUPS),
    (Message("A channel whose weights are all zero"), _dead_channels, True,
        "What is the largest weight of that channel, in the first Conv and in the second?"),
    (Message("Other Convs read the weights and the bias"), _shared_weights, True, _SHARED),
    (Message("Two pairs with the same first weights"), _two_pairs, True, _SHARED),
    (Message("Both Convs read the same weights"), _own_weights, True, _SHARED),
    (Message("A Sigmoid between them"), lambda s, x: _no_pair(s, x, "Sigmoid"), False,
        "Is sigmoid(k * x) the same as k * sigmoid(x)?"),
    (Message("A Tanh between them"), lambda s, x: _no_pair(s, x, "Tanh"), False, _NOTHING_ELSE),
    (Message("A Clip between them"), lambda s, x: _no_pair(s, x, "Clip"), False, _NOTHING_ELSE),
    (Message("A PRelu between them"), lambda s, x: _no_pair(s, x, "PRelu"), False, _NOTHING_ELSE),
    (Message("A Relu and a MaxPool between them"), lambda s, x: _no_pair(s, x, "Relu", "MaxPool"), False,
        _NOTHING_ELSE),
    (Message("Nothing between them"), _no_pair, False, _NOTHING_ELSE),
    (Message("A ConvTranspose as the second"), _transposed, False, "The second of a pair is a Conv, too."),
    (Message("An Add reads the Relu as well"), _read_twice, False, _READERS),
    (Message("A Tanh reads the first Conv as well"), _first_read_twice, False, _READERS),
    (Message("A Relu and a LeakyRelu read the first Conv"), _two_relus, False, _READERS),
    (Message("Two Convs read the Relu"), _two_convs, False, _READERS),
    (Message("The Relu makes an output of the graph"), _also_an_output, False, _READERS),
    (Message("The first Conv makes an output of the graph"), _first_also_an_output, False, _READERS),
    (Message("A pair after two Convs that are none"), _beside_no_pair, True,
        "Which of the Convs are a pair?"),
)  # fmt: skip


def _questions(random: np.random.Generator) -> Iterator[ConvsQuestion]:
    """Draw a model of each kind; in every other one some nodes have no name."""
    for number, (where, draw, huge, look_at) in enumerate(_KINDS):
        sketch = Sketch(random)
        x = sketch.name()
        outputs = {name: ("n", *[f"{name}_{axis}" for axis in "chw"]) for name in draw(sketch, x)}
        model = sketch.model({x: ("n", CHANNELS, "h", "w")}, outputs)
        if number % 2:
            unname_nodes(random, model)
        yield ConvsQuestion(where, model, look_at, huge=huge)


ASKS = Rewriting("equalise", "equal", _questions)

produce = ASKS.produce
