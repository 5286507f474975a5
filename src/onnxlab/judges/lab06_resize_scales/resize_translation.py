"""What is right in resize-translation, part by part."""

from functools import partial

import numpy as np
import onnx
import torch

from onnxlab.judges.lab06_resize_scales.enlarging import EXPECTED, both_axes_alike, require_enlarged
from onnxlab.kit import judging
from onnxlab.kit.exercise import Judges
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.work import Work
from onnxlab.labs.lab06_resize_scales.enlarging import Case, cubic, each_axis_apart
from onnxlab.labs.lab06_resize_scales.resize_translation import batch_and_channels, example
from onnxlab.message import Message

_PICTURE = EXPECTED.replace('"" : 11', '"" : 20').replace("ir_version: 6", "ir_version: 10")
_PICTURE_AND_MEAN = """<ir_version: 10, opset_import: ["" : 20]>
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


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Require a valid model at opset 20, whose output has the type and shape that the fake should return."""
    model = work.model("resize")
    judging.require_opset(model, 20)
    _require_output_type(model, batch_and_channels(work))
    judging.require_valid(model)


def _require_output_type(model: onnx.ModelProto, shape: tuple[int, int]) -> None:
    """Require the declared type and shape of the enlarged picture: the exporter takes them from the fake."""
    tensor = next((output.type.tensor_type for output in model.graph.output if output.name == "y"), None)
    if tensor is None:
        return  # the parts that run the model tell which outputs it has
    batches = [
        value.type.tensor_type.shape.dim[0].dim_param for value in model.graph.input if value.name == "x"
    ]
    sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    names = [dim.dim_param for dim in tensor.shape.dim]
    matches = (
        tensor.elem_type == onnx.TensorProto.FLOAT
        and len(sizes) == 4
        and names[0] in batches
        and sizes[1] == shape[1]
        and sizes[2:] == [None, None]
        and not (names[2] and names[2] == names[3])
    )
    if not matches:
        dtypes = {number: name.lower() for name, number in onnx.TensorProto.DataType.items()}
        dims = ", ".join(name if size is None else str(size) for size, name in zip(sizes, names, strict=True))
        difference = Difference(
            Message(
                "exported with {shape} float pictures of {shape2} channels", shape=shape[0], shape2=shape[1]
            ),
            Message("float[n, {shape}, any height, any width]", shape=shape[1]),
            f"{dtypes.get(tensor.elem_type, 'another type')}[{dims}]",
        )
        msg = "The model promises another type or shape for the picture that comes out."
        look_at = (
            "Which type, batch, channels, height, width does your fake promise? Take what is known from x."
        )
        raise Wrong(msg, look_at, difference=difference, evidence=judging.evidence(model))


def judge_input(work: Work, random: np.random.Generator) -> None:
    """Require that the picture is computed from the scales."""
    judging.require_input_read(_picture_model(work), "scales")


def judge_exported(work: Work, random: np.random.Generator) -> None:
    """Enlarge with the size and the factor of the export."""
    look_at = "Which mode, and which other attributes, make Resize bicubic as torch is?"
    _require_picture(work, [example(work, random)], look_at)


def judge_alike(work: Work, random: np.random.Generator) -> None:
    """Enlarge with other factors."""
    look_at = "Which input of Resize do the scales go to, and as they are?"
    _require_picture(work, _with_channels(work, both_axes_alike(random)), look_at)


def judge_apart(work: Work, random: np.random.Generator) -> None:
    """Enlarge with another factor for the height than for the width."""
    look_at = "Follow scales[2] and scales[3]: the order is n, c, h, w."
    _require_picture(work, _with_channels(work, each_axis_apart(random)), look_at)


def judge_mean(work: Work, random: np.random.Generator) -> None:
    """Compute the mean at other sizes: a height or width that the fake fixed makes it wrong."""
    model = work.model("resize")
    del model.graph.output[:1]
    look_at = "The mean is y.sum((2, 3)) / (height * width). Which height and width does your fake promise?"
    require_enlarged(model, _with_channels(work, each_axis_apart(random)), look_at, reference=_mean)


def _with_channels(work: Work, cases: list[Case]) -> list[Case]:
    """Give pictures of three channels the number of channels of the export."""
    _, channels = batch_and_channels(work)
    offsets = 0.1 * torch.arange(channels).reshape(-1, 1, 1)
    return [(x.repeat(1, 3, 1, 1)[:, :channels] + offsets, scales) for x, scales in cases]


def _mean(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return cubic(x, scales).mean((2, 3))


def _require_picture(work: Work, cases: list[Case], look_at: str) -> None:
    with judging.expecting(partial(_expected, _PICTURE, work)):
        require_enlarged(_picture_model(work), cases, look_at)


def _expected(text: str, work: Work) -> bytes:
    """Return a right model from its text, with the number of channels of the export."""
    return judging.expected_model(text.replace("[n, 3", f"[n, {batch_and_channels(work)[1]}"))


def _picture_model(work: Work) -> onnx.ModelProto:
    """Return the learner's model with the picture as its only output."""
    model = work.model("resize")
    del model.graph.output[1:]
    return model


JUDGES = Judges(
    (judge_model, judge_input, judge_exported, judge_alike, judge_apart, judge_mean),
    expected=lambda work: _expected(_PICTURE_AND_MEAN, work),
)
