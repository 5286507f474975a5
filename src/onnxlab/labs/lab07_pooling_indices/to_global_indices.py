"""Exercise: convert the indices of max pooling from PyTorch's way of counting to ONNX Runtime's, and back.

What the statement asks, and where it is drawn:

* both directions, measured: one and several channels and pictures, square and not, stride and padding;
* many pictures with many channels, and indices of any height and width;
* whole numbers that fit int64 and no narrower type, and no float64 either, at both ends of a channel;
* int64, the same shape; the conversions are asked for in a drawn order.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch
from onnx import parser
from torch.nn.functional import max_pool2d

from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import require_type
from onnxlab.kit.outcome import trying
from onnxlab.kit.samples import pictures
from onnxlab.kit.work import Work
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.runtime.parity import run

_POOL = """<ir_version: 10, opset_import: ["" : 20]>
pool (float[n, c, h, w] x) => (float[n, c, i, j] y, int64[n, c, i, j] index) {
    y, index = MaxPool <kernel_shape = [2, 2], strides = [%d, %d], pads = [%d, %d, %d, %d]> (x)
}"""

_SHAPES = ((1, 1, 3, 3), (1, 2, 3, 3), (2, 1, 4, 6), (2, 3, 5, 4))
"""Shapes with one channel and several, one picture and several, square and not."""


@dataclass(frozen=True)
class _Indices:
    """The indices of some pooled pictures, counted in both ways."""

    shape: tuple[int, ...]  # of the pictures before the pooling
    torch: Array
    runtime: Array


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Convert indices in both directions."""
    drawn = list(enumerate(draw_indices(random)))
    calls = [("to_global_indices", number, indices.torch, indices.shape) for number, indices in drawn]
    calls += [("to_channel_indices", number, indices.runtime, indices.shape) for number, indices in drawn]
    for place in random.permutation(len(calls)):
        name, number, index, shape = calls[place]
        with conversion_case(name, index, shape):
            # A copy: an answer may change what it is given.
            converted = answers[name](torch.from_numpy(index.copy()), shape)
            require_type(converted, torch.Tensor, f"{name}()")
            work.write_array(f"{name}_{number}", converted)


def conversion_case(name: str, index: Array, shape: tuple[int, ...]) -> AbstractContextManager[None]:
    """Attach a conversion to whatever is raised in the block."""
    case = Message("{name}() and images of shape {shape}", name=name, shape=list(shape))
    return trying(case, index=torch.from_numpy(index.copy()), shape=shape)


def draw_indices(random: np.random.Generator) -> Iterator[_Indices]:
    """Draw indices, of small pictures and of large ones."""
    yield from _pooled(random)
    yield from _large(random)


def _pooled(random: np.random.Generator) -> Iterator[_Indices]:
    """Draw small pictures, and pool them in torch and in ONNX Runtime."""
    shapes = [tuple(map(int, random.integers([1, 1, 3, 3], [4, 5, 9, 9]))) for _ in range(4)]
    for shape in (*_SHAPES, *shapes):
        x = pictures(random, *shape) - 0.5
        stride, padding = int(random.integers(1, 3)), int(random.integers(0, 2))
        _, in_torch = max_pool2d(x, 2, stride, padding, return_indices=True)
        _, in_runtime = run(parser.parse_model(_POOL % (stride, stride, *[padding] * 4)), x)
        yield _Indices(shape, in_torch.numpy(), in_runtime)


def _large(random: np.random.Generator) -> Iterator[_Indices]:
    """Draw indices of pictures too large to be made: 8, 16 or 32 bits, or a float64, cannot hold them.

    Here ONNX Runtime's indices are computed; for small pictures they are measured.
    """
    sides = ((20, 30), (200, 300), (4100, 6000), (50_000, 60_000), (2**27, 2**27 + 2**20), (20, 30))
    for number, (low, high) in enumerate(sides):
        many = number == len(sides) - 1  # pictures and channels
        n, c = map(int, random.integers(41, 70, size=2) if many else random.integers(2, 5, size=2))
        h, w = map(int, random.integers(low, high, size=2))
        in_torch = random.integers(0, h * w, size=(n, c, *random.integers(2, 5, size=2)))
        in_torch[:, :, -1, -1], in_torch[:, :, 0, 0] = (
            h * w - 1,
            0,
        )  # the last and the first pixel of each channel
        offsets = np.arange(n * c).reshape(n, c, 1, 1) * h * w
        yield _Indices((n, c, h, w), in_torch, in_torch + offsets)
