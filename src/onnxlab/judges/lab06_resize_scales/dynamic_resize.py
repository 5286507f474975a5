"""What is right in dynamic-resize, part by part."""

import numpy as np

from onnxlab.judges.lab06_resize_scales.enlarging import (
    EXPECTED,
    both_axes_alike,
    describe_case,
    require_enlarged,
)
from onnxlab.kit.exercise import Judges
from onnxlab.kit.judging import expected_model, require_input_read, require_opset, require_valid
from onnxlab.kit.outcome import Difference, Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.labs.lab06_resize_scales.dynamic_resize import example
from onnxlab.labs.lab06_resize_scales.enlarging import cubic, each_axis_apart
from onnxlab.message import Message
from onnxlab.runtime.comparison import compare_outputs

_INPUTS = "Which input of Resize is which? onnx.defs.get_schema('Resize', 11).inputs lists them in order."


def judge_torch(work: Work, random: np.random.Generator) -> None:
    """Require that `apply` interpolates in PyTorch."""
    look_at = "Which mode did you pass to interpolate?"
    for number, (x, scales) in enumerate(each_axis_apart(work.questions())):
        right, got = cubic(x, scales).numpy(), work.array(f"in_torch_{number}")
        case = describe_case(x, scales)
        if got.shape != right.shape:
            difference = Difference(
                case,
                Message("shape {shape}", shape=list(right.shape)),
                Message("shape {shape}", shape=list(got.shape)),
            )
            look_at = "Which elements of scales belong to height and width?"
        elif got.dtype != right.dtype:
            difference = Difference(case, str(right.dtype), str(got.dtype))
            look_at = "Which type has x, and which line of forward gives another?"
        elif not (compared := compare_outputs(list(right), list(got), rtol=0, atol=1e-5)):
            wrong = [row for row in compared.outputs if row.problem]
            difference = Difference(
                case,
                Message("bicubic interpolation"),
                Message(
                    "up to {apart:.2g} away from it, in {count} of {count2} pictures",
                    apart=compared.difference,
                    count=len(wrong),
                    count2=len(right),
                ),
            )
        else:
            continue
        msg = "DynamicResize.apply does not return the bicubic result in PyTorch."
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
    x, scales = example(random)
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
