"""Exercise: sizes frozen on purpose, so that no node computes them, with the batch still dynamic.

The statement as properties, each with what is drawn for it:

- the same results, for its own weights and for each size: others are asked for before and after its call
- `model` stays as it is
- height and width are those of the example: wide and high pictures, the same area, the same height, the
  smallest, and larger ones than a limit that one would set
- no Shape and no Size
- batches from 1 to some 1,100; numbers that are not only those of pictures, and nan
"""

from functools import partial

import numpy as np
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.labs.kit.exercise import Answers, Judges
from onnxlab.labs.kit.exporting import axis_options, exported, require_type, require_unchanged
from onnxlab.labs.kit.judging import (
    at_other_sizes,
    beside,
    expected_model,
    require_dynamic,
    require_input_read,
    require_numbers,
    require_operators,
    require_valid,
)
from onnxlab.labs.kit.samples import normal_weights, pictures
from onnxlab.labs.kit.work import Work

__all__ = ["JUDGES", "Patches", "produce"]

_CHANNELS, _WIDTH = 3, 5
_PATCH = _CHANNELS * 4
_EXAMPLES = ("first", "second", "third", "fourth", "fifth")


class Patches(torch.nn.Module):
    """Cuts pictures into patches of two by two pixels and embeds each, for pictures of any even size."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Linear(_PATCH, _WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Pictures with three channels."""
        batch, channels, height, width = x.shape
        x = x.reshape(batch, channels, height // 2, 2, width // 2, 2)
        x = x.permute(0, 2, 4, 1, 3, 5)
        result: torch.Tensor = self.embed(x.reshape(batch, (height // 2) * (width // 2), channels * 4))
        return result


def questions(random: np.random.Generator) -> tuple[Patches, dict[str, tuple[int, int, int]]]:
    """Return the model with random weights, and sizes of pictures."""
    model = Patches()
    normal_weights(random, model)
    low, middle = (2 * int(half) for half in np.sort(random.permutation(np.arange(1, 8))[:2]))
    high = 2 * int(random.integers(8, 14))
    sizes = (middle, high), (middle, low), (high, middle), (2, 2), (4, 2 * int(random.integers(70, 99)))
    return model, {name: (_CHANNELS, *size) for name, size in zip(_EXAMPLES, sizes, strict=True)}


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export the learner's module for pictures of several sizes, with the batch declared dynamic."""
    model, sizes = questions(random)
    answers["static_on_purpose"](
        questions(random)[0]
    )  # of this model, and of the last one, nothing may be kept
    module = answers["static_on_purpose"](model)
    require_type(module, torch.nn.Module, "static_on_purpose(model)")
    answers["static_on_purpose"](questions(random)[0])
    options = axis_options(Exporter.TORCHSCRIPT, {"x": {0: "batch"}})
    for name, size in sizes.items():
        exported(work, name, module, pictures(random, 2, *size), Exporter.TORCHSCRIPT, **options)
    require_unchanged(model, questions(work.questions())[0], [pictures(random, 2, *sizes["first"])])


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Valid, with outputs computed from the pictures, and a dynamic batch."""
    for name in _EXAMPLES:
        model = work.model(name)
        with beside(partial(_expected, work, name)):
            require_valid(model)
            require_dynamic(model, {"x": [0]})
            require_input_read(model, "x")


def judge_sizes(work: Work, random: np.random.Generator) -> None:
    """No node computes a size."""
    look_at = "Which Shape reads which axis? One that is left over belongs to a size that is still a tensor."
    for name in _EXAMPLES:
        with beside(partial(_expected, work, name)):
            require_operators(work.model(name), without=("Shape", "Size"), look_at=look_at)


def judge_example(work: Work, random: np.random.Generator) -> None:
    """The original's numbers for the example's batch."""
    look_at = "Give the original and yours the numbers 0, 1, 2, ... as a picture."
    axes = "In which order are the axes of the original's result: pictures, patches, numbers?"
    _require_batches(work, random, (2,), {"numbers": look_at, "shape": axes})
    reference, sizes = questions(work.questions())
    large = (pictures(random, 2, *sizes["first"]) - 0.5) * 1000
    large[0, 0, 0, 0] = torch.nan
    look_at = "What does your module do with numbers that no pixel has, far from 0?"
    with beside(partial(_expected, work, "first")):
        require_numbers(reference, work.model("first"), large, 0.01, look_at=look_at)


def judge_batches(work: Work, random: np.random.Generator) -> None:
    """The original's numbers for other batches."""
    look_at = (
        "Look at the shapes that the Reshape nodes read. Which number in them is the example's batch, 2?"
    )
    _require_batches(
        work,
        random,
        (1, 3, 8, int(random.integers(40, 100)), int(random.integers(1030, 1100))),
        at_other_sizes(look_at),
    )


def _require_batches(
    work: Work, random: np.random.Generator, batches: tuple[int, ...], look_at: str | dict[str, str]
) -> None:
    reference, sizes = questions(work.questions())
    for name, size in sizes.items():
        small = [batch for batch in batches if batch < 1000 or name == "first"]  # a large one is enough
        inputs = [pictures(random, batch, *size) - 0.5 for batch in small]
        with beside(partial(_expected, work, name)):
            require_numbers(reference, work.model(name), inputs, 1e-4, look_at=look_at)


def _expected(work: Work, name: str) -> bytes:
    """A right model for pictures of one size."""
    model, sizes = questions(work.questions())
    channels, height, width = sizes[name]
    rows, columns = height // 2, width // 2
    text = f"""<ir_version: 8, opset_import: ["" : 20]>
    patches (float[batch, {channels}, {height}, {width}] x) => (float[batch, {rows * columns}, {_WIDTH}] y)
    <int64[6] blocks = {{-1, {channels}, {rows}, 2, {columns}, 2}},
     int64[3] flat = {{-1, {rows * columns}, {_PATCH}}}>
    {{
        cut = Reshape (x, blocks)
        sorted = Transpose <perm = [0, 2, 4, 1, 3, 5]> (cut)
        rows = Reshape (sorted, flat)
        product = MatMul (rows, weight)
        y = Add (product, bias)
    }}"""
    return expected_model(text, {"weight": model.embed.weight.T.contiguous(), "bias": model.embed.bias})


JUDGES = Judges((judge_model, judge_sizes, judge_example, judge_batches))
