"""Lab 4: an operator without a rule, mended in both exporters."""

from onnxlab.labs.exercise import Lab
from onnxlab.labs.lab04_asinh import asinh_symbolic, asinh_translation, missing_rules, safely_registered

__all__ = ["LAB"]

LAB = Lab(
    "lab04_asinh",
    "asinh: an operator without a rule",
    (
        missing_rules.EXERCISE,
        asinh_symbolic.EXERCISE,
        asinh_translation.EXERCISE,
        safely_registered.EXERCISE,
    ),
)
