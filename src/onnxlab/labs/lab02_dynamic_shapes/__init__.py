"""Lab 2: which axes are dynamic, and whether the model keeps that promise."""

from onnxlab.labs.exercise import Lab
from onnxlab.labs.lab02_dynamic_shapes import batch_safe, dynamic_axes_for

__all__ = ["LAB"]

LAB = Lab(
    "lab02_dynamic_shapes",
    "Dynamic shapes: which axes, and is it true?",
    (dynamic_axes_for.EXERCISE, batch_safe.EXERCISE),
)
