"""Exercise: a symbolic function for max_unpool2d, right for every picture and every channel."""

from functools import partial

import numpy as np
import torch
from torch.nn.functional import max_pool2d

from onnxlab.exporters.export import Exporter
from onnxlab.labs.kit.exercise import Answers, Exercise, Part
from onnxlab.labs.kit.exporting import axis_options, exported_with_rule
from onnxlab.labs.kit.judging import (
    at_other_sizes,
    beside,
    expected_model,
    require_dynamic,
    require_numbers,
    require_opset,
    require_valid,
)
from onnxlab.labs.kit.outcome import Difference
from onnxlab.labs.kit.samples import normal
from onnxlab.labs.kit.work import Work
from onnxlab.runtime.parity import Counterexample

__all__ = ["EXERCISE"]

_AXES = {"values": {0: "batch"}, "index": {0: "batch"}}


def _models(random: np.random.Generator) -> dict[str, tuple[int, int, int]]:
    """Draw channels, height and width of the pictures that are pooled. Each is exported with one picture."""
    few, many, some = int(random.integers(2, 5)), int(random.integers(5, 12)), int(random.integers(2, 5))
    side, low, wide = (2 * int(random.integers(*ends)) for ends in ((2, 5), (2, 4), (5, 8)))
    tall = bool(random.integers(2))
    return {
        "one_channel": (1, side, side),
        "few_channels": (few, side, side),
        "many_channels": (many, *((wide, low) if tall else (low, wide))),
        "odd": (some, low + 1, wide - 1),
    }


class _Unpool(torch.nn.Module):
    def __init__(self, size: list[int]) -> None:
        super().__init__()
        self.size = size

    def forward(self, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        # torch.nn.MaxUnpool2d checks its arguments in a way that cannot be traced; this is what it calls.
        unpooled: torch.Tensor = torch._C._nn.max_unpool2d(values, index, self.size)
        return unpooled


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export a module for each kind of picture with the learner's rule."""
    rule, options = answers["max_unpool_symbolic"], axis_options(Exporter.TORCHSCRIPT, _AXES)
    for name, (channels, *size) in _models(work.questions()).items():
        unpool, example = _Unpool(size), _pooled(random, 1, channels, *size)
        exported_with_rule(work, name, "aten::max_unpool2d", rule, unpool, example, opset=11, **options)


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Valid at opset 11."""
    for name, picture in _models(work.questions()).items():
        model = work.model(name)
        with beside(partial(_expected, picture)):
            require_opset(model, 11)
            require_valid(model)
            require_dynamic(model, _AXES)


def judge_one_channel(work: Work, random: np.random.Generator) -> None:
    """One picture, one channel: both ways of counting are the same."""
    look = "Which index does the first value have, and which place is that in your result?"
    _require(work, random, "one_channel", [1], look)


def judge_channels(work: Work, random: np.random.Generator) -> None:
    """One picture, several channels."""
    look = "Which channel's places did this value go to? Run it with one channel filled with zeros."
    _require(work, random, "few_channels", [1], look)
    look = "Height and width differ here. Which of them do you multiply by?"
    _require(work, random, "many_channels", [1], look)


def judge_batches(work: Work, random: np.random.Generator) -> None:
    """Another number of pictures than at export."""
    look = "At export there was one picture. Where does the next begin, and what still holds that number?"
    for name in ("few_channels", "many_channels"):
        _require(work, random, name, [2, 5, int(random.integers(65, 300))], look)


def judge_odd(work: Work, random: np.random.Generator) -> None:
    """A height and a width that 2 does not divide."""
    _, height, width = _models(work.questions())["odd"]
    look = (
        f"{height} x {width} pixels were pooled to {height // 2} x {width // 2}. "
        "What tells your node the size before the pooling?"
    )
    _require(work, random, "odd", [1, 2, 3], look)


def _require(work: Work, random: np.random.Generator, name: str, batches: list[int], look: str) -> None:
    channels, *size = picture = _models(work.questions())[name]
    cases = [_pooled(random, batch, channels, *size) for batch in batches]
    model, looks, told = work.model(name), at_other_sizes(look), partial(_difference, picture)
    with beside(partial(_expected, picture)):
        require_numbers(_Unpool(size), model, cases, 0.0, 0.0, look_at=looks, describe=told)


def _expected(picture: tuple[int, int, int]) -> bytes:
    """A right model for one kind of picture."""
    channels, height, width = picture
    small, large = f"{channels}, {height // 2}, {width // 2}", f"{channels}, {height}, {width}"
    return expected_model(f"""<ir_version: 6, opset_import: ["" : 11]>
    unpool (float[batch, {small}] values, int64[batch, {small}] index) => (float[batch, {large}] y)
    <int64 zero = {{0}}, int64 one = {{1}}, int64 pixels = {{{height * width}}}, int64[1] from = {{0}},
     int64[1] to = {{2}}, int64[2] single = {{1, 1}}, int64[2] size = {{{height}, {width}}}>
    {{
        shape = Shape (values)
        front = Slice (shape, from, to)
        count = ReduceProd <keepdims = 0> (front)
        channel = Range (zero, count, one)
        first = Mul (channel, pixels)
        begin_shape = Concat <axis = 0> (front, single)
        begin = Reshape (first, begin_shape)
        place = Add (index, begin)
        whole = Concat <axis = 0> (front, size)
        y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (values, place, whole)
    }}""")


def _difference(picture: tuple[int, ...], found: Counterexample) -> Difference:
    given = f"pooled pictures, before that of shape {[len(found.inputs[0]), *picture]}"
    if found.torch is None:
        reason = found.reason.rpartition("Status Message: ")[2]  # the runtime's own words
        return Difference(given, "what torch gives", reason[:160])
    picture_number, channel, row, column = found.index
    place = f"in picture {picture_number}, channel {channel}, at row {row}, column {column}"
    return Difference(given, f"{found.torch:.4g} {place}", f"{found.runtime:.4g}")


def _pooled(random: np.random.Generator, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    values, index = max_pool2d(normal(random, *shape), 2, return_indices=True)
    return values, index


EXERCISE = Exercise(
    order=2,
    id="max-unpool-symbolic",
    title="Write a symbolic function for max_unpool2d",
    points=7,
    answers=("max_unpool_symbolic",),
    produce=produce,
    parts=(
        Part("a valid model at opset 11 with a dynamic batch", judge_model),
        Part("right for one picture with one channel", judge_one_channel),
        Part("right for several channels", judge_channels),
        Part("right for any number of pictures", judge_batches),
        Part("right for odd heights and widths", judge_odd),
    ),
    hints=(
        "PyTorch's index starts again at 0 in every channel; MaxUnpool counts through the whole tensor. "
        "Add the place where each channel begins, and compute it in the graph: the batch is not known yet.",
        "`Shape` of the values gives N and C; `Range` from 0 to N * C (a scalar: `ReduceProd` with "
        "`keepdims_i=0`) numbers the channels; times H * W, reshaped to [N, C, 1, 1]. The third input of "
        "MaxUnpool is the shape of the result. (Or without MaxUnpool: `ScatterElements` into zeros.)",
        "With `nc` the first two elements of the shape and `const(v)` a Constant of `torch.tensor(v)`: "
        "`begin = g.op('Mul', g.op('Range', const(0), g.op('ReduceProd', nc, keepdims_i=0), const(1)), "
        "const(h * w))`; reshape it to `g.op('Concat', nc, const([1, 1]), axis_i=0)`, add it to the index; "
        "`g.op('MaxUnpool', values, index, g.op('Concat', nc, const([h, w]), axis_i=0), "
        "kernel_shape_i=[2, 2], strides_i=[2, 2])`",
    ),
)
