"""Lab 7: one index, counted in two ways."""

from onnxlab.labs.kit.exercise import Lab

__all__ = ["LAB"]

LAB = Lab.of(__name__, "Pooling indices: two ways to count")
