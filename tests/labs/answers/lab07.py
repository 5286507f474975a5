"""Right and wrong answers for lab 7."""

from functools import partial

import torch
from torch.onnx.symbolic_helper import parse_args

from onnxlab.kit.outcome import Status
from tests.support.answer_parts import constant
from tests.support.labs import Contract, WrongAnswer, solution

indices, unpool = partial(solution, "to-global-indices"), partial(solution, "max-unpool-symbolic")
# --- to-global-indices


def offsets(shape):
    """Return ONNX Runtime's index of the first pixel of each channel."""
    n, c, h, w = shape
    return torch.arange(n * c).reshape(n, c, 1, 1) * (h * w)


def subtract_offsets(index, shape):
    return index - offsets(shape)


def loop_over_channels(index, shape):
    result = index.clone()
    for n in range(shape[0]):
        for c in range(shape[1]):
            result[n, c] += (n * shape[1] + c) * shape[2] * shape[3]
    return result


def add_in_place(index, shape):
    index += offsets(shape)
    return index


def unravelled(index, shape):
    _, _, row, column = torch.unravel_index(index, shape)
    return row * shape[3] + column


# --- max-unpool-symbolic


WINDOW = {"kernel_shape_i": [2, 2], "strides_i": [2, 2]}


def first_two(g, values):
    return g.op("Slice", g.op("Shape", values), constant(g, [0]), constant(g, [2]))


@parse_args("v", "v", "is")
def scattered(g, values, index, size):
    """Scatter the values of each channel into a row of zeros: PyTorch's own indices point into it."""
    nc = first_two(g, values)
    flat = g.op("Concat", nc, constant(g, [-1]), axis_i=0)
    area = g.op("Concat", nc, constant(g, [size[0] * size[1]]), axis_i=0)
    zeros = g.op("ConstantOfShape", area, value_t=torch.tensor([0.0]))
    rows = (g.op("Reshape", tensor, flat) for tensor in (index, values))
    filled = g.op("ScatterElements", zeros, *rows, axis_i=2)
    return g.op("Reshape", filled, g.op("Concat", nc, constant(g, size), axis_i=0))


def numbered_channels(g, values, index, size, numbers):
    """Unpool with the batch read at run time, and the channels of a picture numbered at export."""
    shape = g.op("Concat", first_two(g, values), size, axis_i=0)
    area = g.op("ReduceProd", size, keepdims_i=0)
    batch = g.op("Gather", g.op("Shape", values), constant(g, 0))
    pictures = g.op("Range", constant(g, 0), batch, constant(g, 1))
    first = g.op("Reshape", g.op("Mul", pictures, constant(g, len(numbers))), constant(g, [-1, 1]))
    number = g.op("Add", first, constant(g, [numbers]))
    start = g.op("Mul", g.op("Unsqueeze", number, axes_i=[2, 3]), area)
    return g.op("MaxUnpool", values, g.op("Add", index, start), shape, **WINDOW)


def channels_of(values):
    return values.type().varyingSizes()[1]


def fixed_channels(g, values, index, size):
    return numbered_channels(g, values, index, size, list(range(channels_of(values))))


def at_most(pictures):
    """Return a rule that slices the numbers of the channels out of a constant."""

    def max_unpool_symbolic(g, values, index, size):
        numbers = torch.arange(pictures * channels_of(values)).reshape(pictures, -1, 1, 1)
        batch = g.op("Slice", g.op("Shape", values), constant(g, [0]), constant(g, [1]))
        area = g.op("ReduceProd", size, keepdims_i=0)
        start = g.op("Mul", g.op("Slice", constant(g, numbers.tolist()), constant(g, [0]), batch), area)
        shape = g.op("Concat", first_two(g, values), size, axis_i=0)
        return g.op("MaxUnpool", values, g.op("Add", index, start), shape, **WINDOW)

    return max_unpool_symbolic


def axes_as_an_input(*, with_shape):
    """Return a rule with an Unsqueeze of a later opset. Without MaxUnpool's third input, torch 2.13 crashes."""

    def max_unpool_symbolic(g, values, index, size):
        begin = constant(g, list(range(channels_of(values))))
        begin = g.op("Unsqueeze", begin, constant(g, [0, 2, 3]))
        index = g.op("Add", index, g.op("Mul", begin, g.op("ReduceProd", size, keepdims_i=0)))
        shape = [g.op("Concat", first_two(g, values), size, axis_i=0)] if with_shape else []
        return g.op("MaxUnpool", values, index, *shape, **WINDOW)

    return max_unpool_symbolic


# Pieces of the solutions, and what stands in their place.
_STARTS, _BACK = "torch.arange(n * c).reshape(n, c, 1, 1) * (h * w)", "index % (shape[2] * shape[3])"
_GLOBAL, _UNPOOLED = f"index + {_STARTS}", "values, global_index, shape,"
_SUM, _SHAPE = 'g.op("Add", index, begins)', 'g.op("Concat", nc, const(size), axis_i=0)'
_CHANNELS = "values.type().varyingSizes()[1]"
_OF_THE_EXPORT = f"const((torch.arange({_CHANNELS}).reshape(1, -1, 1, 1) * (height * width)).tolist())"
_FIRST = {_SUM: f'g.op("Add", index, {_OF_THE_EXPORT})'}

CONTRACTS = {
    "to-global-indices": Contract(
        right=(indices(), (loop_over_channels, subtract_offsets), (add_in_place, unravelled)),
        wrong=(
            WrongAnswer("the picture does not count", indices({_STARTS: "torch.arange(c).reshape(1, -1, 1, 1) * (h * w)"}), "picture 1, channel 0"),
            WrongAnswer("right for squares", indices({"(h * w)": "h**2"}), "of shape [2, 1, 4, 6]"),
            WrongAnswer("channels before pictures", indices({"reshape(n, c, 1, 1)": "reshape(c, n).T.reshape(n, c, 1, 1)"}), "of shape [2, 3"),
            WrongAnswer("floats", indices({_GLOBAL: f"({_GLOBAL}).float()"}), "changed the type"),
            WrongAnswer("int32 on the way", indices({_GLOBAL: "(index.int() + torch.arange(n * c).reshape(n, c, 1, 1).int() * h * w).long()"}), "points to the wrong element"),
            WrongAnswer("float64 back", indices({_BACK: "(index.double() % (shape[2] * shape[3])).long()"}), "channel_indices() points"),
            WrongAnswer("a list", indices({_GLOBAL: f"({_GLOBAL}).tolist()"}), "returned list"),
            WrongAnswer("flattened", indices({_GLOBAL: f"({_GLOBAL}).flatten()"}), "changed the shape"),
            WrongAnswer("no way back", indices({_BACK: "index"}), "to_channel_indices() points to"),
        ),
    ),
    "max-unpool-symbolic": Contract(
        right=(unpool(), (scattered,), (fixed_channels,)),
        wrong=(
            WrongAnswer("word for word", unpool({_UNPOOLED: "values, index,"}), "Which channel did this value go to"),
            WrongAnswer("the batch of the export", unpool({**_FIRST, _SHAPE: f"const([1, {_CHANNELS}, *size])"}), "Where does the next begin"),
            WrongAnswer("twice the pooled size", unpool({_UNPOOLED: "values, global_index,"}), "the size before the pooling"),
            WrongAnswer("height times height", unpool({"height * width": "height**2"}), "Which of them do you multiply by"),
            WrongAnswer("64 pictures", (at_most(64),), "Where does the next begin"),
            WrongAnswer("what is negative is dropped", unpool({'"MaxUnpool", values,': '"MaxUnpool", g.op("Relu", values),'}), "The outputs differ from PyTorch's"),
            WrongAnswer("a picture enlarged", unpool({f'"MaxUnpool", {_UNPOOLED} kernel_shape_i=[2, 2], strides_i=[2, 2]': '"Resize", values, const([]), const([1.0, 1.0, 2.0, 2.0]), mode_s="nearest"'}), "The model has no input 'index'"),
            WrongAnswer("sizes read at export", unpool({"height, width = size": "n, c, height, width = values.type().sizes()"}), "NoneType", Status.ERROR),
            WrongAnswer("axes as an input", (axes_as_an_input(with_shape=True),), "get_schema('Unsqueeze', 11)"),
        ),
    ),
}
