"""Exercise: a translation and a fake, which take a custom operator through the torch.export exporter."""

import numpy as np
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import axis_options, exported_with_translation
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.samples import pictures
from onnxlab.kit.work import Work
from onnxlab.labs.lab06_resize_scales.enlarging import AXES, Case, cubic
from onnxlab.message import Message


@torch.library.custom_op("onnxlab_lab06::resize_cubic", mutates_args=())
def resize_cubic(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Enlarge as the custom operator of the notebook does. Exporters do not see this code."""
    return cubic(x, scales)


class _PictureAndMean(torch.nn.Module):
    """Return the enlarged picture, and the mean of its pixels, for which its new size has to be known."""

    def forward(self, x: torch.Tensor, scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = resize_cubic(x, scales)
        return y, y.sum((2, 3)) / (y.shape[2] * y.shape[3])


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Register the fake and export with the translation."""
    promised: list[torch.dtype | None] = []

    def fake(x: torch.Tensor, scales: torch.Tensor) -> object:
        result = answers["resize_fake"](x, scales)
        promised.append(getattr(result, "dtype", None))
        return result

    resize_cubic.register_fake(fake)
    overload, translation = torch.ops.onnxlab_lab06.resize_cubic.default, answers["resize_translation"]
    options = axis_options(Exporter.TORCH_EXPORT, AXES) | {"output_names": ["y", "mean"], "opset_version": 20}
    inputs = example(work, random)
    try:
        exported_with_translation(work, "resize", overload, translation, _PictureAndMean(), inputs, **options)
    except Wrong as wrong:
        wrong.look_at = "Does the fake return a tensor, and the translation what op.Resize returned?"
        raise
    wrong_types = {*promised} - {inputs[0].dtype}
    with trying("the export of the operator", module=_PictureAndMean(), inputs=inputs):
        if wrong_types:
            msg = Message(
                "The fake promises {dtype}; x is {right}.", dtype=wrong_types.pop(), right=inputs[0].dtype
            )
            raise Wrong(msg, "`x.new_empty(shape)` has the type of x.")


def batch_and_channels(work: Work) -> tuple[int, int]:
    """Draw two different numbers for the export: of pictures and of channels."""
    batch, channels = work.questions().permutation(np.arange(4, 9))[:2].tolist()
    return batch, channels


def example(work: Work, random: np.random.Generator) -> Case:
    """Draw the example of the export: a picture, and its factors."""
    return pictures(random, *batch_and_channels(work), 6, 8), torch.tensor([1.0, 1.0, 3.0, 3.0])
