"""Exercise: an autograd.Function whose symbolic passes the scales on to Resize.

What the statement asks, and where it is drawn:

* apply interpolates in PyTorch, bicubic, float32: several pictures, factors and sizes, pixels below 0 and
  above 1;
* symbolic writes a valid Resize at opset 11, whose attributes are those of torch;
* scales is an input, at other factors than the example's, also two different ones, at any batch and size.
"""

import numpy as np
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.labs.kit.exercise import Answers, Judges
from onnxlab.labs.kit.exporting import axis_options, exported
from onnxlab.labs.kit.judging import expected_model, require_input_read, require_opset, require_valid
from onnxlab.labs.kit.outcome import Difference, Wrong, trying
from onnxlab.labs.kit.samples import pictures
from onnxlab.labs.kit.work import Work
from onnxlab.labs.lab06_resize_scales.enlarging import (
    AXES,
    EXPECTED,
    Case,
    both_axes_alike,
    cubic,
    describe_case,
    each_axis_apart,
    require_enlarged,
)
from onnxlab.model.distance import largest_difference

__all__ = ["JUDGES", "produce"]


class _Enlarged(torch.nn.Module):
    """The module that is exported: it applies the learner's autograd.Function."""

    def __init__(self, function: type[torch.autograd.Function]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        enlarged: torch.Tensor = self.function.apply(x, scales)  # type: ignore[no-untyped-call]  # torch's
        return enlarged


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Run the function in PyTorch, and export it with one factor."""
    function = answers["DynamicResize"]
    is_class = isinstance(function, type) and hasattr(function, "apply")
    if not is_class or issubclass(function, torch.nn.Module):  # a Module has an apply of another kind
        what = "another class" if isinstance(function, type) else f"of type {type(function).__name__}"
        msg = f"DynamicResize is {what}; a class that inherits from torch.autograd.Function was expected."
        raise Wrong(msg, "Begin with `class DynamicResize(torch.autograd.Function):`.")
    for number, (x, scales) in enumerate(each_axis_apart(random)):
        work.write_array(f"in_torch_{number}", function.apply(x.clone(), scales.clone()))
    module, options = _Enlarged(function), axis_options(Exporter.TORCHSCRIPT, AXES)
    try:
        exported(work, "resize", module, _example(random), Exporter.TORCHSCRIPT, opset_version=11, **options)
    except Wrong as wrong:
        wrong.look_at = "Does symbolic return what g.op returned?"
        raise


def _example(random: np.random.Generator) -> Case:
    return pictures(random, 1, 3, 6, 8), torch.tensor([1.0, 1.0, 3.0, 3.0])


_INPUTS = "Which input of Resize is which? onnx.defs.get_schema('Resize', 11).inputs lists them in order."


def judge_torch(work: Work, random: np.random.Generator) -> None:
    """Require that `apply` interpolates in PyTorch."""
    look_at = "Which mode does interpolate take?"
    for number, (x, scales) in enumerate(each_axis_apart(work.questions())):
        right, got = cubic(x, scales).numpy(), work.array(f"in_torch_{number}")
        case = describe_case(x, scales)
        apart = largest_difference(right, got) if got.shape == right.shape else 0.0
        if got.shape != right.shape:
            difference = Difference(case, f"shape {list(right.shape)}", f"shape {list(got.shape)}")
            look_at = "Which elements of scales belong to height and width?"
        elif got.dtype != right.dtype:
            difference = Difference(case, str(right.dtype), str(got.dtype))
            look_at = "Which type has x, and which line of forward gives another?"
        elif apart > 1e-5:
            pairs = zip(right, got, strict=True)
            wrong = [number for number, pair in enumerate(pairs) if largest_difference(*pair) > 1e-5]
            difference = Difference(
                case,
                "bicubic interpolation",
                f"up to {apart:.2g} away from it, in {len(wrong)} of {len(right)} pictures",
            )
        else:
            continue
        msg = "DynamicResize.apply gives something else in PyTorch."
        with trying(case, x=x, scales=scales):
            raise Wrong(msg, look_at, difference=difference)


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Require a valid model at opset 11."""
    model = work.model("resize")
    require_opset(model, 11)
    require_valid(model)


def judge_input(work: Work, random: np.random.Generator) -> None:
    """Require that the result is computed from the scales."""
    require_input_read(work.model("resize"), "scales")


def judge_exported(work: Work, random: np.random.Generator) -> None:
    """Enlarge with the factor of the export."""
    look_at = {
        "numbers": "Set each attribute of Resize beside its default: "
        "onnx.defs.get_schema('Resize', 11).attributes.",
        "shape": _INPUTS,
        "stop": _INPUTS,
    }
    x, scales = _example(random)
    require_enlarged(work.model("resize"), [(4 * x - 2, scales)], look_at)  # with negative pixels


def judge_alike(work: Work, random: np.random.Generator) -> None:
    """Enlarge with other factors."""
    look_at = (
        "It is right at the factor of the export. What in the file still holds that factor, or that size?"
    )
    require_enlarged(work.model("resize"), both_axes_alike(random), look_at)


def judge_apart(work: Work, random: np.random.Generator) -> None:
    """Enlarge with another factor for the height than for the width."""
    look_at = "Follow scales[2] and scales[3] through the graph: the order of the axes is n, c, h, w."
    require_enlarged(work.model("resize"), each_axis_apart(random), look_at)


JUDGES = Judges(
    (judge_torch, judge_model, judge_input, judge_exported, judge_alike, judge_apart),
    expected=lambda work: expected_model(EXPECTED),
)
