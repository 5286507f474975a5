"""Exercise: sizes frozen on purpose, so that no node computes them, with the batch still dynamic.

The statement as properties, each with what is drawn for it:

- the same results, for its own weights and for each size: others are asked for before and after its call
- `model` stays as it is
- height and width are those of the example: wide and high pictures, the same area, the same height, the
  smallest, and larger ones than a limit that one would set
- no Shape and no Size
- batches from 1 to some 1,100; numbers that are not only those of pictures, infinity and nan
"""

import numpy as np
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import axis_options, exported, require_type, require_unchanged
from onnxlab.kit.samples import normal_weights, pictures
from onnxlab.kit.work import Work

_CHANNELS, WIDTH = 3, 5
PATCH = _CHANNELS * 4
EXAMPLES = ("first", "second", "third", "fourth", "fifth")


class Patches(torch.nn.Module):
    """Cuts pictures into patches of two by two pixels and embeds each, for pictures of any even size."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Linear(PATCH, WIDTH)

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
    return model, {name: (_CHANNELS, *size) for name, size in zip(EXAMPLES, sizes, strict=True)}


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
