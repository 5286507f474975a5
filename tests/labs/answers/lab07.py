"""Right and wrong answers for lab 7."""

import torch
from torch.onnx.symbolic_helper import parse_args

from onnxlab.labs.kit.outcome import Status
from tests.support.answer_parts import constant
from tests.support.labs import Contract, WrongAnswer

# --- to-global-indices


def offsets(shape, dtype=torch.int64):
    """Return ONNX Runtime's index of the first pixel of each channel."""
    n, c, h, w = shape
    return torch.arange(n * c).reshape(n, c, 1, 1).to(dtype) * h * w


def add_offsets(index, shape):
    return index + offsets(shape)


def subtract_offsets(index, shape):
    return index - offsets(shape)


def loop_over_channels(index, shape):
    result = index.clone()
    for n in range(shape[0]):
        for c in range(shape[1]):
            result[n, c] += (n * shape[1] + c) * shape[2] * shape[3]
    return result


def remainder(index, shape):
    return index % (shape[2] * shape[3])


def add_in_place(index, shape):
    index += offsets(shape)
    return index


def unravelled(index, shape):
    _, _, row, column = torch.unravel_index(index, shape)
    return row * shape[3] + column


def unchanged(index, shape):
    return index


def channels_only(index, shape):
    return index + torch.arange(shape[1]).reshape(1, -1, 1, 1) * (shape[2] * shape[3])


def pooled_size(index, shape):
    return add_offsets(index, index.shape)


def squares_only(index, shape):
    return index + torch.arange(shape[0] * shape[1]).reshape(*shape[:2], 1, 1) * shape[2] ** 2


def channel_before_picture(index, shape):
    n, c, h, w = shape
    return index + torch.arange(n * c).reshape(c, n).T.reshape(n, c, 1, 1) * (h * w)


def floats(index, shape):
    return add_offsets(index, shape).to(torch.float32)


def in_dtype(dtype):
    def to_global_indices(index, shape):
        return (index.to(dtype) + offsets(shape, dtype)).to(torch.int64)

    return to_global_indices


def remainder_of(dtype):
    def to_channel_indices(index, shape):
        return (index.to(dtype) % (shape[2] * shape[3])).to(torch.int64)

    return to_channel_indices


def quotient_as_float64(index, shape):
    area = shape[2] * shape[3]
    return index - (index.double() / area).floor().long() * area


def area_as_float(index, shape):
    n, c, h, w = shape
    return index + (torch.arange(n * c).reshape(n, c, 1, 1) * torch.tensor(h * w, dtype=torch.float32)).long()


def int32_comes_out(index, shape):
    return add_offsets(index, shape).to(torch.int32)


def flat(index, shape):
    return add_offsets(index, shape).flatten()


def minus_smallest(index, shape):
    return index - index.amin((2, 3), keepdim=True)


# --- max-unpool-symbolic


WINDOW = {"kernel_shape_i": [2, 2], "strides_i": [2, 2]}


def first_two(g, values):
    return g.op("Slice", g.op("Shape", values), constant(g, [0]), constant(g, [2]))


def global_index(g, values, index, area):
    """Return MaxUnpool's indices, for channels of `area` pixels."""
    nc = first_two(g, values)
    count = g.op("ReduceProd", nc, keepdims_i=0)
    start = g.op("Mul", g.op("Range", constant(g, 0), count, constant(g, 1)), constant(g, area))
    return g.op("Add", index, g.op("Reshape", start, g.op("Concat", nc, constant(g, [1, 1]), axis_i=0)))


@parse_args("v", "v", "is")
def whole_tensor(g, values, index, size):
    shape = g.op("Concat", first_two(g, values), constant(g, size), axis_i=0)
    return g.op("MaxUnpool", values, global_index(g, values, index, size[0] * size[1]), shape, **WINDOW)


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


def three_channels_at_most(g, values, index, size):
    c = channels_of(values)
    return numbered_channels(g, values, index, size, list(range(c)) if c <= 3 else [0] * c)


def negative_dropped(g, values, index, size):
    return whole_tensor(g, g.op("Relu", values), index, size)


def word_for_word(g, values, index, size):
    return g.op("MaxUnpool", values, index, **WINDOW)


@parse_args("v", "v", "is")
def batch_of_the_export(g, values, index, size):
    c = channels_of(values)
    start = constant(g, offsets((1, c, *size)).tolist())
    return g.op("MaxUnpool", values, g.op("Add", index, start), constant(g, [1, c, *size]), **WINDOW)


@parse_args("v", "v", "is")
def first_picture(g, values, index, size):
    start = constant(g, offsets((1, channels_of(values), *size)).tolist())
    shape = g.op("Concat", first_two(g, values), constant(g, size), axis_i=0)
    return g.op("MaxUnpool", values, g.op("Add", index, start), shape, **WINDOW)


@parse_args("v", "v", "is")
def twice_the_pooled(g, values, index, size):
    return g.op("MaxUnpool", values, global_index(g, values, index, size[0] * size[1]), **WINDOW)


@parse_args("v", "v", "is")
def square_area(g, values, index, size):
    shape = g.op("Concat", first_two(g, values), constant(g, size), axis_i=0)
    return g.op("MaxUnpool", values, global_index(g, values, index, size[0] ** 2), shape, **WINDOW)


def as_in_the_chapter(g, values, index, size):
    n, c, h, w = values.type().sizes()
    index = g.op("Add", index, constant(g, offsets((n, c, 2 * h, 2 * w)).tolist()))
    return g.op("MaxUnpool", values, index, **WINDOW)


def first_place(g, values, index, size):
    """Puts every value at the first place of its channel."""
    corners = g.op("ConstantOfShape", g.op("Shape", index), value_t=torch.tensor([0]))
    return g.op("MaxUnpool", values, g.op("Mul", index, corners), **WINDOW)


def enlarged(g, values, index, size):
    scales = constant(g, [1.0, 1.0, 2.0, 2.0])
    return g.op("Resize", values, constant(g, []), scales, mode_s="nearest")


def index_alone(g, values, index, size):
    return g.op("MaxUnpool", index, values, **WINDOW)


def axes_as_an_input(*, with_shape):
    """Return a rule with an Unsqueeze of a later opset. Without MaxUnpool's third input, torch 2.13 crashes."""

    def max_unpool_symbolic(g, values, index, size):
        begin = constant(g, list(range(channels_of(values))))
        begin = g.op("Unsqueeze", begin, constant(g, [0, 2, 3]))
        index = g.op("Add", index, g.op("Mul", begin, g.op("ReduceProd", size, keepdims_i=0)))
        shape = [g.op("Concat", first_two(g, values), size, axis_i=0)] if with_shape else []
        return g.op("MaxUnpool", values, index, *shape, **WINDOW)

    return max_unpool_symbolic


CONTRACTS = {
    "to-global-indices": Contract(
        right=(
            (add_offsets, subtract_offsets),
            (loop_over_channels, remainder),
            (add_in_place, unravelled),
        ),
        wrong=(
            WrongAnswer("unchanged", (unchanged, remainder), "picture 0, channel 1, of pictures of shape [1, 2"),
            WrongAnswer("the picture does not count", (channels_only, remainder), "picture 1, channel 0"),
            WrongAnswer("the pooled size", (pooled_size, remainder), "to_global_indices() points to the wrong"),
            WrongAnswer("right for squares", (squares_only, remainder), "of shape [2, 1, 4, 6]"),
            WrongAnswer("channels before pictures", (channel_before_picture, remainder), "of shape [2, 3"),
            WrongAnswer("floats", (floats, remainder), "changed the type"),
            WrongAnswer("int32 comes out", (int32_comes_out, remainder), "changed the type"),
            *(
                WrongAnswer(f"{dtype} on the way", (in_dtype(dtype), remainder), "points to the wrong element")
                for dtype in (torch.uint8, torch.int16, torch.int32, torch.float32, torch.float64)
            ),
            *(
                WrongAnswer(f"{dtype} back", (add_offsets, remainder_of(dtype)), "channel_indices() points")
                for dtype in (torch.int32, torch.float32, torch.float64)
            ),
            WrongAnswer("the quotient as a float64", (add_offsets, quotient_as_float64), "channel_indices() points"),
            WrongAnswer("the area as a float32", (area_as_float, remainder), "of the types on the way"),
            WrongAnswer("a list", (lambda index, shape: add_offsets(index, shape).tolist(), remainder), "returned list"),
            WrongAnswer("flattened", (flat, remainder), "changed the shape"),
            WrongAnswer("no way back", (add_offsets, unchanged), "to_channel_indices() points to"),
            WrongAnswer("less the smallest", (add_offsets, minus_smallest), "to_channel_indices() points to"),
        ),
    ),
    "max-unpool-symbolic": Contract(
        right=((whole_tensor,), (scattered,), (fixed_channels,)),
        wrong=(
            WrongAnswer("word for word", (word_for_word,), "Which channel did this value go to"),
            WrongAnswer("the batch of the export", (batch_of_the_export,), "Where does the next begin"),
            WrongAnswer("the first picture only", (first_picture,), "The outputs differ from PyTorch's"),
            WrongAnswer("twice the pooled size", (twice_the_pooled,), "the size before the pooling"),
            WrongAnswer("height times height", (square_area,), "Which of them do you multiply by"),
            *(
                WrongAnswer(f"{pictures} pictures", (at_most(pictures),), "Where does the next begin")
                for pictures in (16, 64)
            ),
            WrongAnswer("three channels at most", (three_channels_at_most,), "The outputs differ from PyTorch's"),
            WrongAnswer("what is negative is dropped", (negative_dropped,), "The outputs differ from PyTorch's"),
            WrongAnswer("a picture enlarged", (enlarged,), "The model has no input 'index'"),
            WrongAnswer("every value to place 0", (first_place,), "Which index does the first value have"),
            WrongAnswer("inputs exchanged", (index_alone,), "does not load"),
            WrongAnswer("sizes read at export", (as_in_the_chapter,), "NoneType", Status.ERROR),
            WrongAnswer("axes as an input", (axes_as_an_input(with_shape=True),), "get_schema('Unsqueeze', 11)"),
            WrongAnswer("axes as an input, no size", (axes_as_an_input(with_shape=False),), "SIGSEGV", Status.ERROR),
        ),
    ),
}
