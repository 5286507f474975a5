"""Exercise: a symbolic function for max_unpool2d, right for every picture and every channel.

What the statement asks, and where it is drawn:

* a valid model at opset 11 with a dynamic batch: exported with one picture, run with 1 to 300;
* each value at its index: one channel, a few, many; squares, high and wide pictures;
* odd heights, odd widths, and both.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import max_pool2d

from onnxlab.exporters.export import Exporter
from onnxlab.labs.kit.exercise import Answers, Judges
from onnxlab.labs.kit.exporting import axis_options, exported_with_rule
from onnxlab.labs.kit.judging import (
    at_other_sizes,
    beside,
    expected_model,
    number_texts,
    require_dynamic,
    require_numbers,
    require_opset,
    require_valid,
)
from onnxlab.labs.kit.outcome import Difference
from onnxlab.labs.kit.samples import normal
from onnxlab.labs.kit.work import Work
from onnxlab.runtime.parity import Counterexample

__all__ = ["JUDGES", "produce"]

_AXES = {"values": {0: "batch"}, "index": {0: "batch"}}


class _Picture(NamedTuple):
    """The size of the pictures that are pooled, before the pooling."""

    channels: int
    height: int
    width: int


def _pictures(random: np.random.Generator) -> dict[str, _Picture]:
    """Draw the sizes of pictures, by the name of the model that is exported for each."""
    few, many, some = int(random.integers(2, 5)), int(random.integers(41, 70)), int(random.integers(2, 5))
    side, short, long = (2 * int(random.integers(*limits)) for limits in ((2, 5), (2, 4), (5, 8)))
    is_tall = bool(random.integers(2))
    return {
        "one_channel": _Picture(1, side, side),
        "few_channels": _Picture(few, side, side),
        "many_channels": _Picture(many, *((long, short) if is_tall else (short, long))),
        "odd": _Picture(some, short + 1, long - 1),
        "odd_height": _Picture(some, long + 1, short),
        "odd_width": _Picture(some, short, long + 1),
    }


class _Unpool(torch.nn.Module):
    """Undoes the pooling of pictures of one size."""

    def __init__(self, picture: _Picture) -> None:
        super().__init__()
        self.size = [picture.height, picture.width]

    def forward(self, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        # torch.nn.MaxUnpool2d checks its arguments in a way that cannot be traced; this is what it calls.
        unpooled: torch.Tensor = torch._C._nn.max_unpool2d(values, index, self.size)
        return unpooled


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export a model for each size with the learner's rule, and with one picture as the example."""
    rule, options = answers["max_unpool_symbolic"], axis_options(Exporter.TORCHSCRIPT, _AXES)
    for name, picture in _pictures(work.questions()).items():
        unpool, example = _Unpool(picture), _pooled(random, 1, picture)
        exported_with_rule(work, name, "aten::max_unpool2d", rule, unpool, example, opset=11, **options)


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Require valid models at opset 11 with a dynamic batch."""
    for name, picture in _pictures(work.questions()).items():
        model = work.model(name)
        with beside(partial(_expected, picture)):
            require_opset(model, 11)
            require_valid(model)
            require_dynamic(model, _AXES)


def judge_one_channel(work: Work, random: np.random.Generator) -> None:
    """Unpool one picture with one channel: torch and ONNX count its places alike."""
    look_at = "Which index does the first value have, and which place is that in your result?"
    _require_numbers(work, random, "one_channel", [1], look_at)


def judge_channels(work: Work, random: np.random.Generator) -> None:
    """Unpool one picture with several channels."""
    look_at = "Which channel's places did this value go to? Run it with one channel filled with zeros."
    _require_numbers(work, random, "few_channels", [1], look_at)
    look_at = "Height and width differ here. Which of them do you multiply by?"
    _require_numbers(work, random, "many_channels", [1], look_at)


def judge_batches(work: Work, random: np.random.Generator) -> None:
    """Unpool more pictures than there were at export."""
    look_at = "At export there was one picture. Where does the next begin, and what still holds that number?"
    for name in ("few_channels", "many_channels"):
        _require_numbers(work, random, name, [2, 5, int(random.integers(150, 300))], look_at)


def judge_odd(work: Work, random: np.random.Generator) -> None:
    """Unpool pictures with an odd height, an odd width, and both."""
    for name in ("odd", "odd_height", "odd_width"):
        _, height, width = _pictures(work.questions())[name]
        look_at = (
            f"{height} x {width} pixels were pooled to {height // 2} x {width // 2}. "
            "What tells your node the size before the pooling?"
        )
        _require_numbers(work, random, name, [1, 2, 3], look_at)


def _require_numbers(
    work: Work, random: np.random.Generator, name: str, batches: list[int], look_at: str
) -> None:
    picture = _pictures(work.questions())[name]
    cases = [_pooled(random, batch, picture) for batch in batches]
    with beside(partial(_expected, picture)):
        require_numbers(
            _Unpool(picture),
            work.model(name),
            cases,
            0.0,
            0.0,
            look_at=at_other_sizes(look_at),
            describe=partial(_difference, picture),
        )


def _expected(picture: _Picture) -> bytes:
    """Return a right model for pictures of one size."""
    channels, height, width = picture
    pooled, unpooled = f"{channels}, {height // 2}, {width // 2}", f"{channels}, {height}, {width}"
    return expected_model(f"""<ir_version: 6, opset_import: ["" : 11]>
    unpool (float[batch, {pooled}] values, int64[batch, {pooled}] index) => (float[batch, {unpooled}] y)
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


def _difference(picture: _Picture, counterexample: Counterexample) -> Difference:
    what = f"pooled pictures, before that of shape {[len(counterexample.inputs[0]), *picture]}"
    if counterexample.torch is None:
        reason = counterexample.reason.rpartition("Status Message: ")[2]  # the runtime's own words
        return Difference(what, "what torch gives", reason[:160])
    number, channel, row, column = counterexample.index
    place = f"in picture {number}, channel {channel}, at row {row}, column {column}"
    expected, got = number_texts(counterexample.torch, counterexample.runtime, 4)
    return Difference(what, f"{expected} {place}", got)


def _pooled(random: np.random.Generator, batch: int, picture: _Picture) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw pictures and pool them: the values, and torch's indices."""
    values, index = max_pool2d(normal(random, batch, *picture), 2, return_indices=True)
    return values, index


JUDGES = Judges((judge_model, judge_one_channel, judge_channels, judge_batches, judge_odd))
