"""What the judges of lab 6 share: whether a model enlarges as torch does."""

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import torch

from onnxlab.kit.judging import at_other_sizes, evidence, number_texts, require_numbers
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.labs.lab06_resize_scales.enlarging import Case, cubic, draw_cases
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.runtime.parity import Counterexample

Reference = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Returns in torch what a model should return for a case."""

_NEAR = 1e-4  # the kernels round sums of 16 pixels and weights; float16 comes out above it

EXPECTED = """<ir_version: 6, opset_import: ["" : 11]>
enlarged (float[n, 3, h, w] x, float[4] scales) => (float[n, 3, h2, w2] y) {
    roi = Constant <value: tensor = float[0] {}> ()
    y = Resize <mode = "cubic", cubic_coeff_a = -0.75, coordinate_transformation_mode = "half_pixel">
        (x, roi, scales)
}"""


def both_axes_alike(random: np.random.Generator) -> list[Case]:
    """Draw pictures with one factor for both axes."""
    return draw_cases(random, lambda high, wide: (high, high))


def describe_case(x: Array | torch.Tensor, scales: Array | torch.Tensor) -> str:
    """Describe a case in one line, for a counterexample.

    Example:
        >>> describe_case(torch.zeros(1, 3, 4, 6), torch.tensor([1.0, 1.0, 2.0, 0.5]))
        'a picture of shape [1, 3, 4, 6], scales [1, 1, 2, 0.5]'
    """
    factors = ", ".join(f"{factor:g}" for factor in scales.tolist())
    return Message(
        "a picture of shape {shape}, scales {factors}", shape=list(x.shape), factors=f"[{factors}]"
    )


def require_enlarged(
    model: onnx.ModelProto, cases: list[Case], look_at: str | Mapping[str, str], reference: Reference = cubic
) -> None:
    """Require that a model enlarges as a reference in torch does; a counterexample shows the scales.

    `look_at` is one text for wrong numbers, shapes and a run that stops, or a text for each of these.
    """
    advice = at_other_sizes(look_at) if isinstance(look_at, str) else look_at
    try:
        require_numbers(reference, model, cases, _NEAR, look_at=advice, describe=_difference)
    except Wrong as wrong:
        if wrong.difference:
            wrong.evidence = evidence(model, None, "Resize")
        raise


def _difference(counterexample: Counterexample) -> Difference:
    case = describe_case(*counterexample.inputs)
    if counterexample.torch is None:
        reason = counterexample.reason.rpartition("Status Message: ")[2]  # the runtime's own words
        return Difference(case, Message("what torch gives"), reason[:160])
    place = f"at {list(counterexample.index)}"
    expected, got = number_texts(counterexample.torch, counterexample.runtime, 4)
    return Difference(case, f"{expected} {place}", f"{got} {place}")
