"""Lab 5: bit shifts, which both exporters translate and neither translates quite right."""

from onnxlab.labs.kit.exercise import Lab

__all__ = ["LAB"]

LAB = Lab.of(__name__, "Bit shifts: a rule that is there and wrong")
