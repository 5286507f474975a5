"""Exercise: a symbolic function for max_unpool2d, right for every picture and every channel."""

from functools import partial

import numpy as np
import torch
from torch.nn.functional import max_pool2d

from onnxlab.facts.counterexample import Counterexample, smallest_counterexample
from onnxlab.labs.exercise import Answers, Exercise, Part
from onnxlab.labs.exporting import exported_with_rule
from onnxlab.labs.judging import beside, evidence, expected_model, require_numbers, require_valid
from onnxlab.labs.judging_graph import require_dynamic, require_opset
from onnxlab.labs.outcome import Difference, Wrong
from onnxlab.labs.work import Work

__all__ = ["EXERCISE"]

_MODELS = {
    "one_channel": (1, 6, 6),
    "three_channels": (3, 6, 6),
    "wide": (3, 4, 10),
    "odd": (2, 5, 7),
}
"""Channels, height and width of the picture that was pooled. Each is exported with one picture."""


class _Unpool(torch.nn.Module):
    def __init__(self, size: tuple[int, int]) -> None:
        super().__init__()
        self.size = list(size)

    def forward(self, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        # torch.nn.MaxUnpool2d checks its arguments in a way that cannot be traced; this is what it calls.
        unpooled: torch.Tensor = torch._C._nn.max_unpool2d(values, index, self.size)
        return unpooled


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export a module for each kind of picture with the learner's rule."""
    for name, (channels, *size) in _MODELS.items():
        exported_with_rule(
            work,
            name,
            "aten::max_unpool2d",
            answers["max_unpool_symbolic"],
            _Unpool((size[0], size[1])),
            _pooled(random, 1, channels, *size),
            opset=11,
            input_names=["values", "index"],
            dynamic_axes={"values": {0: "batch"}, "index": {0: "batch"}},
        )


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Valid at opset 11."""
    for name in _MODELS:
        model = work.model(name)
        with beside(partial(_expected, name)):
            require_opset(model, 11)
            require_valid(model)
            require_dynamic(model, {"values": [0], "index": [0]})


def judge_one_channel(work: Work, random: np.random.Generator) -> None:
    """One picture, one channel: both ways of counting are the same."""
    look = "Which index does the first value have, and which place is that in your result?"
    _require(work, random, "one_channel", [1], look)


def judge_channels(work: Work, random: np.random.Generator) -> None:
    """One picture, several channels."""
    look = "Which channel's places did this value go to? Run it with one channel filled with zeros."
    _require(work, random, "three_channels", [1], look)
    _require(work, random, "wide", [1], "Height and width differ here. Which of them do you multiply by?")


def judge_batches(work: Work, random: np.random.Generator) -> None:
    """Another number of pictures than at export."""
    look = "At export there was one picture. Where does the next begin, and what still holds that number?"
    for name in ("three_channels", "wide"):
        _require(work, random, name, [2, 3, 5], look)


def judge_odd(work: Work, random: np.random.Generator) -> None:
    """A height and a width that 2 does not divide."""
    look = "5 x 7 pixels were pooled to 2 x 3. What tells your node the size before the pooling?"
    _require(work, random, "odd", [1, 2, 3], look)


def _require(work: Work, random: np.random.Generator, name: str, batches: list[int], look: str) -> None:
    channels, *size = _MODELS[name]
    unpool = _Unpool((size[0], size[1]))
    cases = [_pooled(random, batch, channels, *size) for batch in batches]
    model = work.model(name)
    try:
        with beside(partial(_expected, name)):
            require_numbers(unpool, model, cases, 0.0, 0.0, look_at=look)
    except Wrong as wrong:
        found = smallest_counterexample(unpool, model, cases, 0.0) if wrong.difference else None
        if found is None:
            raise
        difference = _difference(found, (channels, *size))
        shown = evidence(model, _expected(name))
        raise Wrong(wrong.message, look, difference=difference, evidence=shown) from None


def _expected(name: str) -> bytes:
    """A right model for one kind of picture."""
    channels, height, width = _MODELS[name]
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


def _difference(found: Counterexample, picture: tuple[int, ...]) -> Difference:
    given = f"pooled pictures, before that of shape {[len(found.inputs[0]), *picture]}"
    if found.torch is None:
        reason = found.reason.rpartition("Status Message: ")[2]  # the runtime's own words
        return Difference(given, "what torch gives", reason[:160])
    picture_number, channel, row, column = found.index
    place = f"in picture {picture_number}, channel {channel}, at row {row}, column {column}"
    return Difference(given, f"{found.torch:.4g} {place}", f"{found.runtime:.4g}")


def _pooled(random: np.random.Generator, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.from_numpy(random.normal(size=shape).astype(np.float32))
    values, index = max_pool2d(x, 2, return_indices=True)
    return values, index


EXERCISE = Exercise(
    id="max-unpool-symbolic",
    title="Write a symbolic function for max_unpool2d",
    points=6,
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
    holds_for="torch 2.13, onnx 1.23, onnxruntime 1.31",
)
