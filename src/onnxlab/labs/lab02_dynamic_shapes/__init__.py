"""Lab 2: which axes are dynamic, and whether the model keeps that promise."""

from onnxlab.labs.kit.exercise import Lab

__all__ = ["LAB"]

LAB = Lab.of(__name__, "Dynamic shapes: which axes, and is it true?")
