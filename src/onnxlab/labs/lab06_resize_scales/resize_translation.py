"""Exercise: a translation and a fake, which take a custom operator through the torch.export exporter."""

import numpy as np
import onnx
import torch

from onnxlab.labs.exercise import Answers, Exercise, Part
from onnxlab.labs.exporting import exported_with_translation
from onnxlab.labs.judging import expected_model, require_valid
from onnxlab.labs.judging_graph import require_input_read, require_opset
from onnxlab.labs.lab06_resize_scales.enlarging import (
    AXES,
    EXPECTED,
    NAMES,
    Case,
    both_axes_alike,
    cubic,
    each_axis_apart,
    require_enlarged,
)
from onnxlab.labs.outcome import Wrong
from onnxlab.labs.samples import pictures
from onnxlab.labs.work import Work

__all__ = ["EXERCISE"]

_PICTURE = EXPECTED.replace('"" : 11', '"" : 20').replace("ir_version: 6", "ir_version: 10")
_EXPECTED = """<ir_version: 10, opset_import: ["" : 20]>
enlarged (float[n, 3, h, w] x, float[4] scales) => (float[n, 3, h2, w2] y, float[n, 3] mean)
<int64[2] sides = {2, 3}>
{
    y = Resize <mode = "cubic", cubic_coeff_a = -0.75, coordinate_transformation_mode = "half_pixel">
        (x, , scales)
    total = ReduceSum <keepdims = 0> (y, sides)
    height = Shape <start = 2, end = 3> (y)
    width = Shape <start = 3, end = 4> (y)
    pixels = Mul (height, width)
    count = CastLike (pixels, total)
    mean = Div (total, count)
}"""


@torch.library.custom_op("onnxlab_lab06::resize_cubic", mutates_args=())
def resize_cubic(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Do what the operator in the notebook does: no exporter looks in here."""
    return cubic(x, scales)


class _Mean(torch.nn.Module):
    """The picture, and something that has to know how large it has become."""

    def forward(self, x: torch.Tensor, scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = resize_cubic(x, scales)
        return y, y.sum((2, 3)) / (y.shape[2] * y.shape[3])


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Register the fake and export with the translation."""
    resize_cubic.register_fake(answers["resize_fake"])
    try:
        exported_with_translation(
            work,
            "resize",
            {torch.ops.onnxlab_lab06.resize_cubic.default: answers["resize_translation"]},
            _Mean(),
            (pictures(random, 2, 3, 6, 8), torch.tensor([1.0, 1.0, 3.0, 3.0])),
            opset_version=20,
            input_names=NAMES,
            output_names=["y", "mean"],
            dynamic_shapes={**AXES, "scales": None},
        )
    except Wrong as wrong:
        look = "Does the fake return a tensor, and the translation what op.Resize returned?"
        raise Wrong(wrong.message, look) from wrong.__cause__


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Valid at opset 20."""
    model = work.model("resize")
    require_opset(model, 20)
    require_valid(model)


def judge_input(work: Work, random: np.random.Generator) -> None:
    """The scales reach the picture."""
    require_input_read(_picture_only(work), "scales")


def judge_exported(work: Work, random: np.random.Generator) -> None:
    """The very factor of the export."""
    once = [(pictures(random, 2, 3, 6, 8), torch.tensor([1.0, 1.0, 3.0, 3.0]))]
    _require(work, once, "Which mode, and which other attributes, make Resize bicubic as torch is?")


def judge_alike(work: Work, random: np.random.Generator) -> None:
    """Other factors."""
    _require(work, both_axes_alike(random), "Which input of Resize do the scales go to, and as they are?")


def judge_apart(work: Work, random: np.random.Generator) -> None:
    """Another factor for height than for width."""
    _require(work, each_axis_apart(random), "Follow scales[2] and scales[3]: the order is n, c, h, w.")


def judge_promise(work: Work, random: np.random.Generator) -> None:
    """What is computed from the new size, at other sizes than the fake may have promised."""
    model = work.model("resize")
    del model.graph.output[:1]
    look = "The mean is y.sum((2, 3)) / (height * width). Which height and width does your fake promise?"
    require_enlarged(model, each_axis_apart(random), look, right=_mean)


def _mean(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return cubic(x, scales).mean((2, 3))


def _require(work: Work, cases: list[Case], look: str) -> None:
    require_enlarged(_picture_only(work), cases, look, expected_model(_PICTURE))


def _picture_only(work: Work) -> onnx.ModelProto:
    model = work.model("resize")
    del model.graph.output[1:]
    return model


EXERCISE = Exercise(
    id="resize-translation",
    title="Take a custom operator through the torch.export exporter",
    points=6,
    answers=("resize_translation", "resize_fake"),
    produce=produce,
    parts=(
        Part("a valid model at opset 20", judge_model),
        Part("the factor is an input", judge_input),
        Part("right at the factor it was exported with", judge_exported),
        Part("right at other factors and sizes", judge_alike),
        Part("right where height and width have different factors", judge_apart),
        Part("what follows knows the new size", judge_promise),
    ),
    hints=(
        "Two things are asked: what the operator is in ONNX (the translation), and which shape comes out "
        "without anything being computed (the fake). At export nobody knows the new height and width.",
        "`from onnxscript import opset20 as op`; `op.Resize(X, roi, scales, mode=..., ...)` takes None for "
        "an input that is not used. In the fake, `torch.library.get_ctx().new_dynamic_size()` is a size "
        "that is not known yet.",
        "`return op.Resize(x, None, scales, mode='cubic', cubic_coeff_a=-0.75)` and "
        "`return x.new_empty((x.shape[0], x.shape[1], ctx.new_dynamic_size(), ctx.new_dynamic_size()))`",
    ),
    holds_for="torch 2.13, onnx 1.23, onnxruntime 1.31",
    expected=lambda work: expected_model(_EXPECTED),
)
