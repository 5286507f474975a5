"""Lab 9: a file that another machine loads, and that is still right there."""

from onnxlab.labs.kit.exercise import Lab

__all__ = ["LAB"]

LAB = Lab.of(__name__, "Ship it")
