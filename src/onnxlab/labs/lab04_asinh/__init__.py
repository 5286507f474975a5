"""Lab 4: an operator without a rule, mended in both exporters."""

from onnxlab.labs.exercise import Lab
from onnxlab.labs.lab04_asinh import asinh_symbolic

__all__ = ["LAB"]

LAB = Lab("lab04_asinh", "asinh: an operator without a rule", (asinh_symbolic.EXERCISE,))
