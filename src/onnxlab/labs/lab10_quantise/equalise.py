"""Exercise equalise: scale channels between two Convs where that is legal, so that 8 bits are enough."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import onnx
from onnx import numpy_helper

from onnxlab.labs.kit.exercise import Exercise, Part
from onnxlab.labs.kit.judging import (
    evidence,
    require_no_new_operators,
    require_same_interface,
    require_well_formed,
)
from onnxlab.labs.kit.outcome import Difference, Wrong
from onnxlab.labs.kit.rewriting import Question, Rewriting, require_as_before
from onnxlab.labs.kit.samples import Sketch
from onnxlab.labs.lab10_quantise.int8 import relative_error, run_in_int8
from onnxlab.model.distance import Array
from onnxlab.runtime.session import open_session

__all__ = ["EXERCISE"]

_CHANNELS = 4
_ALLOWED = 0.2  # relative error; 0.02 to 0.09 if equalised, nearly 1 if not
_HOMOGENEOUS = ("Relu", "LeakyRelu")  # f(k * x) = k * f(x) for every k above 0


@dataclass(frozen=True, kw_only=True)
class _Question(Question):
    huge: bool  # whether a channel is much larger than the others


def _conv(s: Sketch, x: str, weight: Array, *, bias: bool = True, name: str = "", group: int = 1) -> str:
    """Add a Conv whose weight is new, or the initializer `name` with these values."""
    parameters = [name or s.weight(weight)]
    if bias:  # as large as the weights of its channel
        parameters.append(s.weight(0.3 * s.normal(len(weight)) * np.abs(weight).max((1, 2, 3))))
    return s.add("Conv", x, *parameters, kernel_shape=[3, 3], pads=[1] * 4, group=group)


def _weights(s: Sketch, count: int, *, group: int = 1) -> list[Array]:
    """Draw the weights of a chain of Convs, with one huge channel between any two of them."""
    shape = (_CHANNELS, _CHANNELS, 3, 3)
    weights = [s.normal(*shape) * np.sqrt(2 / (9 * _CHANNELS)) for _ in range(count)]
    for first, second in pairwise(weights):
        channel, factor = int(s.random.integers(_CHANNELS)), float(s.random.uniform(300, 3000))
        first[channel] *= factor
        second[:, channel] /= factor
    if group > 1:  # in the last Conv, each output reads only the channels of its group
        last, width = weights[-1], _CHANNELS // group
        weights[-1] = np.stack([row[i // width * width :][:width] for i, row in enumerate(last)])
    return weights


def _pair(s: Sketch, x: str, between: str = "Relu", bias: bool = True) -> list[str]:
    first, second = _weights(s, 2)
    return [_conv(s, s.add(between, _conv(s, x, first, bias=bias)), second)]


def _chain(s: Sketch, x: str) -> list[str]:
    value = x
    for number, weight in enumerate(_weights(s, 3)):
        value = _conv(s, s.add("Relu", value) if number else value, weight)
    return [value]


def _grouped(s: Sketch, x: str) -> list[str]:
    first, second = _weights(s, 2, group=2)
    return [_conv(s, s.add("Relu", _conv(s, x, first)), second, group=2)]


def _dead_channel(s: Sketch, x: str) -> list[str]:
    first, second = _weights(s, 2)
    smallest = int(np.abs(first).max((1, 2, 3)).argmin())
    first[smallest] = 0  # as training can leave a channel; its bias is 0 as well
    return [_conv(s, s.add("Relu", _conv(s, x, first)), second)]


def _shared_weights(s: Sketch, x: str) -> list[str]:
    first, second = _weights(s, 2)
    name = s.weight(first)
    output = _conv(s, s.add("Relu", _conv(s, x, first, name=name)), second)
    return [output, _conv(s, x, first, name=name, bias=False)]


def _plain(s: Sketch, x: str) -> tuple[str, Array]:
    """Add a Conv without a huge channel, and draw weights for the next."""
    first, second = (0.3 * s.normal(_CHANNELS, _CHANNELS, 3, 3) for _ in "ab")
    first[0] *= 3
    return _conv(s, x, first), second


def _sigmoid(s: Sketch, x: str) -> list[str]:
    conv, second = _plain(s, x)
    return [_conv(s, s.add("Sigmoid", conv), second)]


def _read_twice(s: Sketch, x: str) -> list[str]:
    conv, second = _plain(s, x)
    value = s.add("Relu", conv)
    return [s.add("Add", _conv(s, value, second), value)]


def _also_an_output(s: Sketch, x: str) -> list[str]:
    conv, second = _plain(s, x)
    value = s.add("Relu", conv)
    return [_conv(s, value, second), value]


_READERS = "Who else reads the value between the two, and what would that reader get?"
# What the model is an example of, what draws it and returns its outputs, whether a channel is huge, where to
# look.
_KINDS: tuple[tuple[str, Callable[[Sketch, str], list[str]], bool, str], ...] = (
    (
        "Two Convs, a Relu between them",
        _pair,
        True,
        "By what is each channel multiplied, and by what divided?",
    ),
    (
        "Three Convs, a huge channel behind each of the first two",
        _chain,
        True,
        "The Conv in the middle is the second of one pair and the first of the next.",
    ),
    (
        "The first Conv has no bias",
        partial(_pair, bias=False),
        True,
        "How many inputs has a Conv without a bias?",
    ),
    ("A LeakyRelu between them", partial(_pair, between="LeakyRelu"), True, "What is LeakyRelu of k * x?"),
    (
        "The second Conv has two groups",
        _grouped,
        True,
        "The second axis of its weights counts the channels of one group. Which group reads channel c?",
    ),
    (
        "A channel whose weights are all zero",
        _dead_channel,
        True,
        "What is the largest weight of that channel, and its root?",
    ),
    (
        "Another Conv reads the first one's weights",
        _shared_weights,
        True,
        "How many nodes read the initializer that you change?",
    ),
    ("A Sigmoid between them", _sigmoid, False, "Is sigmoid(k * x) the same as k * sigmoid(x)?"),
    ("An Add reads the Relu as well", _read_twice, False, _READERS),
    ("The Relu makes an output of the graph", _also_an_output, False, _READERS),
)


def _questions(random: np.random.Generator) -> Iterator[_Question]:
    """Draw a model of each kind."""
    for where, draw, huge, look_at in _KINDS:
        sketch, shape = Sketch(random), ("n", _CHANNELS, "h", "w")
        x = sketch.name()
        model = sketch.model({x: shape}, dict.fromkeys(draw(sketch, x), shape))
        yield _Question(where, model, look_at, huge=huge)


def _require_structure(equal: onnx.ModelProto, question: _Question) -> None:
    """Require a valid model with the same inputs, outputs and nodes."""
    require_well_formed(equal, question.where)
    require_same_interface(equal, question.model, question.where)
    require_no_new_operators(equal, question.model, question.where)


def _require_float(equal: onnx.ModelProto, question: _Question, random: np.random.Generator) -> None:
    """Require the original model's numbers in float32."""
    shapes = (1, _CHANNELS, 2, 1), (1, _CHANNELS, 4, 5)
    require_as_before(equal, question, (random.normal(size=shape).astype(np.float32) for shape in shapes))


def _require_int8(equal: onnx.ModelProto, question: _Question, random: np.random.Generator) -> None:
    """Require that the numbers in 8 bits are near those of float32."""
    if not question.huge:
        return
    calibration, x = (random.normal(size=(12, _CHANNELS, 6, 6)).astype(np.float32) for _ in "ab")
    expected = open_session(question.model).run(None, {question.name: x})[0]
    try:
        got = run_in_int8(equal, {question.name: calibration}, {question.name: x})[0]
    except Exception as error:  # the runtime and its tool raise many kinds
        msg = f"{question.where}: the result cannot be quantised: {str(error)[:200]}"
        raise Wrong(msg, question.look_at, evidence=evidence(equal)) from None
    if got.shape != expected.shape:
        msg = f"{question.where}: the result's output has another shape."
        raise Wrong(msg, question.look_at, evidence=evidence(equal))
    lost = relative_error(expected, got)
    if not lost <= _ALLOWED:
        worst = tuple(map(int, np.unravel_index(np.abs(expected - got).argmax(), expected.shape)))
        place = f"quantised, for x of shape {list(x.shape)}; output at {list(worst)}"
        difference = Difference(place, f"{expected[worst]:.4g}", f"{got[worst]:.4g}")
        msg = (
            f"{question.where}: in 8 bits the numbers are off by {lost:.0%}; "
            f"at most {_ALLOWED:.0%} is allowed."
        )
        raise Wrong(msg, question.look_at, difference=difference, evidence=evidence(equal))


def _equalised(question: _Question) -> onnx.ModelProto:
    """Return a right answer: each channel's largest weights in both Convs become equal."""
    equal = deepcopy(question.model)
    graph = equal.graph
    weights = {tensor.name: numpy_helper.to_array(tensor).astype(np.float64) for tensor in graph.initializer}
    producers = {node.output[0]: node for node in graph.node}
    reads = [value.name for value in graph.output] + [name for node in graph.node for name in node.input]

    def replace(node: onnx.NodeProto, place: int, values: Array) -> None:
        node.input[place] = f"{node.output[0]}_equal_{place}"
        weights[node.input[place]] = values

    for second in [node for node in graph.node if node.op_type == "Conv"]:
        between = producers.get(second.input[0], second)
        first = producers.get(between.input[0], second)
        single_reader = reads.count(second.input[0]) == reads.count(between.input[0]) == 1
        if between.op_type not in _HOMOGENEOUS or first.op_type != "Conv" or not single_reader:
            continue
        before, after = weights[first.input[1]], weights[second.input[1]]
        groups = len(before) // after.shape[1]
        by_group = after.reshape(groups, -1, *after.shape[1:])
        largest = np.abs(before).max((1, 2, 3)), np.abs(by_group).max((1, 3, 4)).reshape(-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.sqrt(largest[1] / largest[0])
        factor[~np.isfinite(factor) | (factor == 0)] = 1
        replace(first, 1, before * factor[:, None, None, None])
        if len(first.input) > 2:
            replace(first, 2, weights[first.input[2]] * factor)
        replace(second, 1, (by_group / factor.reshape(groups, 1, -1, 1, 1)).reshape(after.shape))
    used = {name for node in graph.node for name in node.input}
    del graph.initializer[:]
    graph.initializer.extend(
        numpy_helper.from_array(values.astype(np.float32), name)
        for name, values in weights.items()
        if name in used
    )
    return equal


_REWRITING = Rewriting("equalise", "equal", _questions, _require_structure, _equalised)

EXERCISE = Exercise(
    order=2,
    id="equalise",
    title="Equalise two layers, so that 8 bits are enough",
    points=5,
    answers=("equalise",),
    produce=_REWRITING.produce,
    parts=(
        Part("a valid model with the same inputs, outputs and nodes", _REWRITING.judge()),
        Part("in float32 the numbers are as before", _REWRITING.judge(_require_float)),
        Part("in 8 bits the numbers are nearly those of float32", _REWRITING.judge(_require_int8)),
    ),
    hints=(
        "relu(k * x) = k * relu(x) for k above 0: what one Conv multiplies, the next one can divide. It is "
        "legal where nobody else sees the values between the two.",
        "For each channel c of the first Conv, with a the largest of its weights and b the largest weight "
        "with which the second reads it: the factor sqrt(b / a) makes both equal. Weights and bias of the "
        "first are multiplied, the second's weights for c divided. Where a or b is 0, the factor is 1. Give "
        "both Convs new initializers.",
        "For a second Conv with groups, `after.reshape(groups, -1, *after.shape[1:])` has the axes group, "
        "output in the group, input in the group, row, column; groups is `len(before) // after.shape[1]`. "
        "Its largest by channel: `np.abs(...).max((1, 3, 4)).reshape(-1)`; the factors for it: "
        "`factor.reshape(groups, 1, -1, 1, 1)`.",
    ),
)
