"""Exercise: a symbolic function that gives asinh a rule at opset 9."""

import numpy as np
import torch

from onnxlab.labs.exercise import Answers, Exercise, Part
from onnxlab.labs.exporting import exported_with_rule
from onnxlab.labs.judging import expected_model, require_numbers, require_valid
from onnxlab.labs.judging_graph import require_opset
from onnxlab.labs.samples import floats
from onnxlab.labs.work import Work

__all__ = ["EXERCISE", "Asinh"]

_EXPECTED = """<ir_version: 8, opset_import: ["" : 9]>
asinh (float[N, M] x) => (float[N, M] y) { y = Asinh(x) }"""


class Asinh(torch.nn.Module):
    """The module that is exported."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any shape, float32."""
        return torch.asinh(x)


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export the module at opset 9 with the learner's rule."""
    exported_with_rule(
        work,
        "asinh",
        "aten::asinh",
        answers["asinh_symbolic"],
        Asinh(),
        torch.from_numpy(random.normal(size=(2, 3)).astype(np.float32)),
        opset=9,
        input_names=["x"],
        dynamic_axes={"x": [0, 1]},
    )


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Valid, and at the opset it says."""
    model = work.model("asinh")
    require_opset(model, 9)
    require_valid(model)


def judge_numbers(work: Work, random: np.random.Generator) -> None:
    """Ordinary numbers, at several shapes."""
    inputs = [
        torch.from_numpy(random.normal(size=shape).astype(np.float32)) for shape in [(1, 1), (3, 4), (5, 2)]
    ]
    require_numbers(
        torch.asinh,
        work.model("asinh"),
        inputs,
        look_at="Evaluate your formula by hand for the input shown.",
    )


def judge_edges(work: Work, random: np.random.Generator) -> None:
    """Numbers for which a formula overflows or cancels."""
    require_numbers(
        torch.asinh,
        work.model("asinh"),
        [floats(random, 1, 1), floats(random, 4, 8), -floats(random, 8, 4)],
        1e-4,
        look_at="log(x + sqrt(x*x + 1)): what becomes of x*x, and of the sum, where x is large and negative?",
    )


EXERCISE = Exercise(
    id="asinh-symbolic",
    title="Write a symbolic function for asinh at opset 9",
    points=4,
    answers=("asinh_symbolic",),
    produce=produce,
    parts=(
        Part("a valid model at opset 9", judge_model),
        Part("right for ordinary numbers at any shape", judge_numbers),
        Part("right for tiny, huge, infinite and negative numbers", judge_edges),
    ),
    hints=(
        "A symbolic function gets the graph `g` and the operator's inputs, returns the new node's output.",
        "`onnx.defs.get_schema('Asinh', 9)` exists: one ONNX operator does all the work.",
        '`return g.op("Asinh", x)`',
    ),
    holds_for="torch 2.13, onnx 1.23, onnxruntime 1.31",
    expected=lambda work: expected_model(_EXPECTED),
)
