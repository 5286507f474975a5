"""Lab 4: an operator without a rule, and rules for it in both exporters."""

from onnxlab.labs.kit.exercise import Lab

__all__ = ["LAB"]

LAB = Lab.of(__name__, "asinh: an operator without a rule")
