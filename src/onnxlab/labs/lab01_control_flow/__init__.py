"""Lab 1: a loop and a branch that are still there after the export."""

from onnxlab.labs.kit.exercise import Lab

__all__ = ["LAB"]

LAB = Lab.of(__name__, "Control flow: a loop and a branch that survive")
