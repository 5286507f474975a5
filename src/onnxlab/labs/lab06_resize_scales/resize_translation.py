"""Exercise: a translation and a fake, which take a custom operator through the torch.export exporter."""

import numpy as np
import onnx
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.labs.kit.exercise import Answers, Exercise, Part
from onnxlab.labs.kit.exporting import axis_options, exported_with_translation
from onnxlab.labs.kit.judging import (
    evidence,
    expected_model,
    require_input_read,
    require_opset,
    require_valid,
)
from onnxlab.labs.kit.outcome import Difference, Wrong
from onnxlab.labs.kit.samples import pictures
from onnxlab.labs.kit.work import Work
from onnxlab.labs.lab06_resize_scales.enlarging import (
    AXES,
    EXPECTED,
    Case,
    both_axes_alike,
    cubic,
    each_axis_apart,
    require_enlarged,
)

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
    overload, translation = torch.ops.onnxlab_lab06.resize_cubic.default, answers["resize_translation"]
    options = axis_options(Exporter.TORCH_EXPORT, AXES) | {"output_names": ["y", "mean"], "opset_version": 20}
    try:
        inputs = _example(work, random)
        exported_with_translation(work, "resize", overload, translation, _Mean(), inputs, **options)
    except Wrong as wrong:
        wrong.look_at = "Does the fake return a tensor, and the translation what op.Resize returned?"
        raise


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Valid at opset 20, and with the type and sizes that the fake may promise."""
    model = work.model("resize")
    require_opset(model, 20)
    _require_promise(model, _batch_and_channels(work.questions()))
    require_valid(model)


def _batch_and_channels(random: np.random.Generator) -> tuple[int, int]:
    """Draw the numbers of pictures and of channels that are exported with; neither is that of the other."""
    batch, channels = (int(each) for each in random.permutation(np.arange(4, 9))[:2])
    return batch, channels


def _require_promise(model: onnx.ModelProto, shape: tuple[int, int]) -> None:
    """Require that the picture that comes out is declared as it can be: that is what the fake returned."""
    tensor = next((each.type.tensor_type for each in model.graph.output if each.name == "y"), None)
    if tensor is None:
        return  # the inputs and outputs are told apart by what runs it
    sizes = [each.dim_value if each.HasField("dim_value") else None for each in tensor.shape.dim]
    names = [each.dim_param for each in tensor.shape.dim]
    fits = (
        tensor.elem_type == onnx.TensorProto.FLOAT
        and len(sizes) == 4
        and sizes[0] is None
        and sizes[1] in (None, shape[1])
        and sizes[2:] == [None, None]
        and not (names[2] and names[2] == names[3])
    )
    if not fits:
        kinds = {number: name.lower() for name, number in onnx.TensorProto.DataType.items()}
        shown = ", ".join(
            name if size is None else str(size) for size, name in zip(sizes, names, strict=True)
        )
        difference = Difference(
            f"exported with {shape[0]} float pictures of {shape[1]} channels",
            f"float[n, {shape[1]}, any height, any width]",
            f"{kinds.get(tensor.elem_type, 'another type')}[{shown}]",
        )
        msg = "The model promises another type or shape for the picture that comes out."
        look = "Which type, batch, channels, height, width does your fake promise? Take what is known from x."
        raise Wrong(msg, look, difference=difference, evidence=evidence(model))


def judge_input(work: Work, random: np.random.Generator) -> None:
    """The scales reach the picture."""
    require_input_read(_picture_only(work), "scales")


def judge_exported(work: Work, random: np.random.Generator) -> None:
    """The very factor of the export."""
    look = "Which mode, and which other attributes, make Resize bicubic as torch is?"
    _require(work, [_example(work, random)], look)


def judge_alike(work: Work, random: np.random.Generator) -> None:
    """Other factors."""
    look = "Which input of Resize do the scales go to, and as they are?"
    _require(work, _of_channels(work, both_axes_alike(random)), look)


def judge_apart(work: Work, random: np.random.Generator) -> None:
    """Another factor for height than for width."""
    look = "Follow scales[2] and scales[3]: the order is n, c, h, w."
    _require(work, _of_channels(work, each_axis_apart(random)), look)


def judge_promise(work: Work, random: np.random.Generator) -> None:
    """What is computed from the new size, at other sizes than the fake may have promised."""
    model = work.model("resize")
    del model.graph.output[:1]
    look = "The mean is y.sum((2, 3)) / (height * width). Which height and width does your fake promise?"
    require_enlarged(model, _of_channels(work, each_axis_apart(random)), look, right=_mean)


def _of_channels(work: Work, cases: list[Case]) -> list[Case]:
    """Give pictures of three channels as many as were exported."""
    _, channels = _batch_and_channels(work.questions())
    moved = 0.1 * torch.arange(channels).reshape(-1, 1, 1)
    return [(x.repeat(1, 3, 1, 1)[:, :channels] + moved, scales) for x, scales in cases]


def _example(work: Work, random: np.random.Generator) -> Case:
    """The very size and factor of the export."""
    shape = *_batch_and_channels(work.questions()), 6, 8
    return pictures(random, *shape), torch.tensor([1.0, 1.0, 3.0, 3.0])


def _mean(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return cubic(x, scales).mean((2, 3))


def _require(work: Work, cases: list[Case], look: str) -> None:
    expected = expected_model(_of(_PICTURE, work))
    require_enlarged(_picture_only(work), cases, look, expected)


def _of(text: str, work: Work) -> str:
    return text.replace("[n, 3", f"[n, {_batch_and_channels(work.questions())[1]}")


def _picture_only(work: Work) -> onnx.ModelProto:
    model = work.model("resize")
    del model.graph.output[1:]
    return model


EXERCISE = Exercise(
    order=3,
    id="resize-translation",
    title="Take a custom operator through the torch.export exporter",
    points=6,
    answers=("resize_translation", "resize_fake"),
    produce=produce,
    torch_export=True,
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
    expected=lambda work: expected_model(_of(_EXPECTED, work)),
)
