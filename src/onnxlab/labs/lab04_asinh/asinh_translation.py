"""Exercise: asinh for the torch.export exporter, for a type that the runtime's kernel does not take."""

import numpy as np
import torch

from onnxlab.labs.exercise import Answers, Exercise, Part
from onnxlab.labs.exporting import exported_with_translation
from onnxlab.labs.judging import expected_model, require_numbers, require_valid
from onnxlab.labs.judging_graph import require_dynamic
from onnxlab.labs.samples import floats
from onnxlab.labs.work import Work

__all__ = ["EXERCISE", "TwoTypes"]

_EXPECTED = """<ir_version: 10, opset_import: ["" : 20]>
asinh (float[N, M] x, double[N, M] wide) => (float[N, M] y, double[N, M] wide_y) {
    y = Asinh(x)
    narrow = Cast<to = 1>(wide)
    narrow_y = Asinh(narrow)
    wide_y = Cast<to = 11>(narrow_y)
}"""


class TwoTypes(torch.nn.Module):
    """The module that is exported: the same operator for two element types."""

    def forward(self, x: torch.Tensor, wide: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`x` is float32, `wide` float64; both have the same shape."""
        return torch.asinh(x), torch.asinh(wide)


def _pair(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return values, values.double().flip(0)


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export the module with the learner's translation."""
    exported_with_translation(
        work,
        "asinh",
        {torch.ops.aten.asinh.default: answers["asinh_translation"]},
        TwoTypes(),
        _pair(torch.from_numpy(random.normal(size=(2, 3)).astype(np.float32))),
        input_names=["x", "wide"],
        dynamic_shapes={"x": {0: "n", 1: "m"}, "wide": {0: "n", 1: "m"}},
    )


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Valid, with kernels for all that is in it, and still dynamic."""
    model = work.model("asinh")
    require_valid(model)
    require_dynamic(model, {"x": [0, 1], "wide": [0, 1]})


def judge_numbers(work: Work, random: np.random.Generator) -> None:
    """Ordinary numbers, at several shapes."""
    shapes = [(1, 1), (2, 3), (3, 4), (5, 2)]
    require_numbers(
        TwoTypes(),
        work.model("asinh"),
        [_pair(torch.from_numpy(random.normal(size=shape).astype(np.float32))) for shape in shapes],
        look_at="Evaluate your function by hand for the input shown. Which type has each value on the way?",
    )


def judge_edges(work: Work, random: np.random.Generator) -> None:
    """Numbers for which a formula or a narrow type overflows."""
    drawn = (floats(random, 1, 1), floats(random, 4, 8), -floats(random, 8, 4))
    require_numbers(
        TwoTypes(),
        work.model("asinh"),
        [_pair(values) for values in drawn],
        1e-4,
        look_at="How large are the intermediate values for the input shown, and which type must hold them?",
    )


EXERCISE = Exercise(
    id="asinh-translation",
    title="Translate asinh for the torch.export exporter, float64 included",
    points=4,
    answers=("asinh_translation",),
    produce=produce,
    parts=(
        Part("a valid model that ONNX Runtime loads", judge_model),
        Part("right for ordinary numbers, in both types, at any shape", judge_numbers),
        Part("right for tiny, huge, infinite and negative numbers", judge_edges),
    ),
    hints=(
        "A translation calls ONNX operators as Python functions. ONNX Runtime has a kernel for Asinh of "
        "float32 only: what could stand before and after it?",
        "`op.Cast(x, to=...)` with a number of `onnx.TensorProto`, and `op.CastLike(y, x)` back to x's type.",
        "`return op.CastLike(op.Asinh(op.Cast(x, to=onnx.TensorProto.FLOAT)), x)`",
    ),
    holds_for="torch 2.13, onnx 1.23, onnxruntime 1.31",
    expected=lambda work: expected_model(_EXPECTED),
)
