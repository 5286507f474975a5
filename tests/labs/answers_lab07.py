"""Right and wrong answers for lab 7."""

import torch
from torch.onnx.symbolic_helper import parse_args

from onnxlab.labs.kit.outcome import Status
from tests.support.labs import Contract, WrongAnswer

# --- to-global-indices


def begins(shape):
    n, c, h, w = shape
    return torch.arange(n * c).reshape(n, c, 1, 1) * (h * w)


def add_begins(index, shape):
    return index + begins(shape)


def subtract_begins(index, shape):
    return index - begins(shape)


def loop_over_channels(index, shape):
    result = index.clone()
    for n in range(shape[0]):
        for c in range(shape[1]):
            result[n, c] += (n * shape[1] + c) * shape[2] * shape[3]
    return result


def remainder(index, shape):
    return index % (shape[2] * shape[3])


def add_in_place(index, shape):
    index += begins(shape)
    return index


def unravelled(index, shape):
    _, _, row, column = torch.unravel_index(index, shape)
    return row * shape[3] + column


def unchanged(index, shape):
    return index


def channels_only(index, shape):
    return index + torch.arange(shape[1]).reshape(1, -1, 1, 1) * (shape[2] * shape[3])


def pooled_size(index, shape):
    return add_begins(index, index.shape)


def squares_only(index, shape):
    return index + torch.arange(shape[0] * shape[1]).reshape(*shape[:2], 1, 1) * shape[2] ** 2


def channel_before_picture(index, shape):
    n, c, h, w = shape
    return index + torch.arange(n * c).reshape(c, n).T.reshape(n, c, 1, 1) * (h * w)


def floats(index, shape):
    return add_begins(index, shape).to(torch.float32)


def through(dtype):
    def to_global_indices(index, shape):
        n, c, h, w = shape
        start = torch.arange(n * c).reshape(n, c, 1, 1).to(dtype) * h * w
        return (index.to(dtype) + start).to(torch.int64)

    return to_global_indices


def remainder_of(dtype):
    def to_channel_indices(index, shape):
        return (index.to(dtype) % (shape[2] * shape[3])).to(torch.int64)

    return to_channel_indices


def area_as_float(index, shape):
    n, c, h, w = shape
    return index + (torch.arange(n * c).reshape(n, c, 1, 1) * torch.tensor(h * w, dtype=torch.float32)).long()


def int32_comes_out(index, shape):
    return add_begins(index, shape).to(torch.int32)


def flat(index, shape):
    return add_begins(index, shape).flatten()


def less_the_smallest(index, shape):
    return index - index.amin((2, 3), keepdim=True)


# --- max-unpool-symbolic


def const(g, value):
    return g.op("Constant", value_t=torch.tensor(value))


WINDOW = {"kernel_shape_i": [2, 2], "strides_i": [2, 2]}


def first_two(g, values):
    return g.op("Slice", g.op("Shape", values), const(g, [0]), const(g, [2]))


def through_all(g, values, index, area):
    """PyTorch's indices, counted through the whole tensor; a channel has so many places."""
    nc = first_two(g, values)
    count = g.op("ReduceProd", nc, keepdims_i=0)
    start = g.op("Mul", g.op("Range", const(g, 0), count, const(g, 1)), const(g, area))
    return g.op("Add", index, g.op("Reshape", start, g.op("Concat", nc, const(g, [1, 1]), axis_i=0)))


@parse_args("v", "v", "is")
def whole_tensor(g, values, index, size):
    shape = g.op("Concat", first_two(g, values), const(g, size), axis_i=0)
    return g.op("MaxUnpool", values, through_all(g, values, index, size[0] * size[1]), shape, **WINDOW)


@parse_args("v", "v", "is")
def scattered(g, values, index, size):
    """Without MaxUnpool: each channel a row of zeros, into which PyTorch's own indices point."""
    nc = first_two(g, values)
    flat = g.op("Concat", nc, const(g, [-1]), axis_i=0)
    area = g.op("Concat", nc, const(g, [size[0] * size[1]]), axis_i=0)
    zeros = g.op("ConstantOfShape", area, value_t=torch.tensor([0.0]))
    rows = (g.op("Reshape", each, flat) for each in (index, values))
    filled = g.op("ScatterElements", zeros, *rows, axis_i=2)
    return g.op("Reshape", filled, g.op("Concat", nc, const(g, size), axis_i=0))


def fixed_channels(g, values, index, size):
    """The number of channels is known at export; the batch is not. The size comes as it is."""
    c = values.type().varyingSizes()[1]
    shape = g.op("Concat", first_two(g, values), size, axis_i=0)
    area = g.op("ReduceProd", size, keepdims_i=0)
    batch = g.op("Gather", g.op("Shape", values), const(g, 0))
    pictures = g.op("Mul", g.op("Range", const(g, 0), batch, const(g, 1)), const(g, c))
    number = g.op("Add", g.op("Reshape", pictures, const(g, [-1, 1])), const(g, [list(range(c))]))
    start = g.op("Mul", g.op("Unsqueeze", number, axes_i=[2, 3]), area)
    return g.op("MaxUnpool", values, g.op("Add", index, start), shape, **WINDOW)


def pictures_of_a_table(most):
    """Numbers the channels with a constant, of which the first N * C are taken."""

    def max_unpool_symbolic(g, values, index, size):
        c = values.type().varyingSizes()[1]
        first = torch.arange(most * c).reshape(most, c, 1, 1)
        nc = first_two(g, values)
        batch = g.op("Slice", g.op("Shape", values), const(g, [0]), const(g, [1]))
        area = g.op("ReduceProd", size, keepdims_i=0)
        start = g.op("Slice", g.op("Constant", value_t=first), const(g, [0]), batch)
        start = g.op("Mul", start, area)
        shape = g.op("Concat", nc, size, axis_i=0)
        return g.op("MaxUnpool", values, g.op("Add", index, start), shape, **WINDOW)

    return max_unpool_symbolic


def one_or_three_channels(g, values, index, size):
    """Right for the channels of the example and of quick tests."""
    c = values.type().varyingSizes()[1]
    numbers = {1: [0], 2: [0, 1], 3: [0, 1, 2]}.get(c, [0] * c)
    shape = g.op("Concat", first_two(g, values), size, axis_i=0)
    area = g.op("ReduceProd", size, keepdims_i=0)
    batch = g.op("Gather", g.op("Shape", values), const(g, 0))
    pictures = g.op("Mul", g.op("Range", const(g, 0), batch, const(g, 1)), const(g, c))
    number = g.op("Add", g.op("Reshape", pictures, const(g, [-1, 1])), const(g, [numbers]))
    start = g.op("Mul", g.op("Unsqueeze", number, axes_i=[2, 3]), area)
    return g.op("MaxUnpool", values, g.op("Add", index, start), shape, **WINDOW)


def negative_dropped(g, values, index, size):
    return whole_tensor(g, g.op("Relu", values), index, size)


def word_for_word(g, values, index, size):
    return g.op("MaxUnpool", values, index, **WINDOW)


@parse_args("v", "v", "is")
def batch_of_the_export(g, values, index, size):
    c = values.type().varyingSizes()[1]
    start = const(g, (torch.arange(c).reshape(1, c, 1, 1) * size[0] * size[1]).tolist())
    shape = const(g, [1, c, *size])
    return g.op("MaxUnpool", values, g.op("Add", index, start), shape, **WINDOW)


@parse_args("v", "v", "is")
def first_picture(g, values, index, size):
    c = values.type().varyingSizes()[1]
    start = const(g, (torch.arange(c).reshape(1, c, 1, 1) * size[0] * size[1]).tolist())
    shape = g.op("Concat", first_two(g, values), const(g, size), axis_i=0)
    return g.op("MaxUnpool", values, g.op("Add", index, start), shape, **WINDOW)


@parse_args("v", "v", "is")
def twice_the_pooled(g, values, index, size):
    return g.op("MaxUnpool", values, through_all(g, values, index, size[0] * size[1]), **WINDOW)


@parse_args("v", "v", "is")
def square_area(g, values, index, size):
    shape = g.op("Concat", first_two(g, values), const(g, size), axis_i=0)
    return g.op("MaxUnpool", values, through_all(g, values, index, size[0] ** 2), shape, **WINDOW)


def as_in_the_chapter(g, values, index, size):
    n, c, h, w = values.type().sizes()
    start = torch.arange(n * c).reshape(n, c, 1, 1) * (2 * h * 2 * w)
    index = g.op("Add", index, g.op("Constant", value_t=start))
    return g.op("MaxUnpool", values, index, **WINDOW)


def no_places(g, values, index, size):
    """Every value, but at the beginning of its window."""
    corners = g.op("ConstantOfShape", g.op("Shape", index), value_t=torch.tensor([0]))
    return g.op("MaxUnpool", values, g.op("Mul", index, corners), **WINDOW)


def enlarged(g, values, index, size):
    scales = const(g, [1.0, 1.0, 2.0, 2.0])
    return g.op("Resize", values, const(g, []), scales, mode_s="nearest")


def index_alone(g, values, index, size):
    return g.op("MaxUnpool", index, values, **WINDOW)


def axes_as_an_input(shape_given):
    """Unsqueeze as newer opsets have it. Without MaxUnpool's third input, torch 2.13 dies of that."""

    def max_unpool_symbolic(g, values, index, size):
        begin = const(g, torch.arange(values.type().varyingSizes()[1]).tolist())
        begin = g.op("Unsqueeze", begin, const(g, [0, 2, 3]))
        index = g.op("Add", index, g.op("Mul", begin, g.op("ReduceProd", size, keepdims_i=0)))
        shape = [g.op("Concat", first_two(g, values), size, axis_i=0)] if shape_given else []
        return g.op("MaxUnpool", values, index, *shape, **WINDOW)

    return max_unpool_symbolic


CONTRACTS = {
    "to-global-indices": Contract(
        right=(
            (add_begins, subtract_begins),
            (loop_over_channels, remainder),
            (add_in_place, unravelled),
        ),
        wrong=(
            WrongAnswer(
                "unchanged", (unchanged, remainder), "picture 0, channel 1, of pictures of shape [1, 2"
            ),
            WrongAnswer("the picture does not count", (channels_only, remainder), "picture 1, channel 0"),
            WrongAnswer(
                "the pooled size", (pooled_size, remainder), "to_global_indices() gives another place"
            ),
            WrongAnswer("right for squares", (squares_only, remainder), "of shape [2, 1, 4, 6]"),
            WrongAnswer("channels before pictures", (channel_before_picture, remainder), "of shape [2, 3"),
            WrongAnswer("floats", (floats, remainder), "changed the type"),
            WrongAnswer("int32 comes out", (int32_comes_out, remainder), "changed the type"),
            *(
                WrongAnswer(f"{dtype} on the way", (through(dtype), remainder), "gives another place")
                for dtype in (torch.uint8, torch.int16, torch.int32, torch.float32)
            ),
            *(
                WrongAnswer(f"{dtype} back", (add_begins, remainder_of(dtype)), "channel_indices() gives")
                for dtype in (torch.int32, torch.float32)
            ),
            WrongAnswer("the area as a float32", (area_as_float, remainder), "of the types on the way"),
            WrongAnswer("flattened", (flat, remainder), "changed the shape"),
            WrongAnswer("no way back", (add_begins, unchanged), "to_channel_indices() gives another"),
            WrongAnswer("less the smallest", (add_begins, less_the_smallest), "to_channel_indices() gives"),
        ),
    ),
    "max-unpool-symbolic": Contract(
        right=((whole_tensor,), (scattered,), (fixed_channels,)),
        wrong=(
            WrongAnswer("word for word", (word_for_word,), "Which channel's places"),
            WrongAnswer("the batch of the export", (batch_of_the_export,), "Where does the next begin"),
            WrongAnswer("the first picture only", (first_picture,), "The numbers are not PyTorch's"),
            WrongAnswer("twice the pooled size", (twice_the_pooled,), "the size before the pooling"),
            WrongAnswer("height times height", (square_area,), "Which of them do you multiply by"),
            *(
                WrongAnswer(f"{most} pictures", (pictures_of_a_table(most),), "Where does the next begin")
                for most in (16, 64)
            ),
            WrongAnswer("three channels at most", (one_or_three_channels,), "The numbers are not PyTorch's"),
            WrongAnswer("what is negative is dropped", (negative_dropped,), "The numbers are not PyTorch's"),
            WrongAnswer("a picture enlarged", (enlarged,), "The model has no input 'index'"),
            WrongAnswer("every value to place 0", (no_places,), "Which index does the first value have"),
            WrongAnswer("inputs exchanged", (index_alone,), "does not load"),
            WrongAnswer("sizes read at export", (as_in_the_chapter,), "NoneType", Status.ERROR),
            WrongAnswer("axes as an input", (axes_as_an_input(True),), "get_schema('Unsqueeze', 11)"),
            WrongAnswer("axes as an input, no size", (axes_as_an_input(False),), "SIGSEGV", Status.ERROR),
        ),
    ),
}
