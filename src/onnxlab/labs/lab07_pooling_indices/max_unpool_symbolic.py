"""Exercise: a symbolic function for max_unpool2d, right for every picture and every channel.

What the statement asks, and where it is drawn:

* a valid model at opset 11 with a dynamic batch: exported with one picture, run with 1 to 300;
* each value at its index: one channel, a few, many; squares, high and wide pictures;
* odd heights, odd widths, and both.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import max_pool2d

from onnxlab.exporters.export import Exporter
from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import axis_options, exported_with_rule
from onnxlab.kit.samples import normal
from onnxlab.kit.work import Work

AXES = {"values": {0: "batch"}, "index": {0: "batch"}}


class Picture(NamedTuple):
    """The size of the pictures that are pooled, before the pooling."""

    channels: int
    height: int
    width: int


def pictures(random: np.random.Generator) -> dict[str, Picture]:
    """Draw the sizes of pictures, by the name of the model that is exported for each."""
    few, many, some = int(random.integers(2, 5)), int(random.integers(41, 70)), int(random.integers(2, 5))
    side, short, long = (2 * int(random.integers(*limits)) for limits in ((2, 5), (2, 4), (5, 8)))
    is_tall = bool(random.integers(2))
    return {
        "one_channel": Picture(1, side, side),
        "few_channels": Picture(few, side, side),
        "many_channels": Picture(many, *((long, short) if is_tall else (short, long))),
        "odd": Picture(some, short + 1, long - 1),
        "odd_height": Picture(some, long + 1, short),
        "odd_width": Picture(some, short, long + 1),
    }


class Unpool(torch.nn.Module):
    """Undoes the pooling of pictures of one size."""

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self.size = [picture.height, picture.width]

    def forward(self, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        """Undo the pooling of values, whose places are in the index."""
        # torch.nn.MaxUnpool2d checks its arguments in a way that cannot be traced; this is what it calls.
        unpooled: torch.Tensor = torch._C._nn.max_unpool2d(values, index, self.size)
        return unpooled


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export a model for each size with the learner's rule, and with one picture as the example."""
    rule, options = answers["max_unpool_symbolic"], axis_options(Exporter.TORCHSCRIPT, AXES)
    for name, picture in pictures(work.questions()).items():
        unpool, example = Unpool(picture), pool(random, 1, picture)
        exported_with_rule(work, name, "aten::max_unpool2d", rule, unpool, example, opset=11, **options)


def pool(random: np.random.Generator, batch: int, picture: Picture) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw pictures and pool them: the values, and torch's indices."""
    values, index = max_pool2d(normal(random, batch, *picture), 2, return_indices=True)
    return values, index
