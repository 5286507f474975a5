"""Lab 6: an enlargement whose factor is chosen when the model runs."""

from onnxlab.labs.kit.exercise import Lab

__all__ = ["LAB"]

LAB = Lab.of(__name__, "Resize: a factor chosen at run time")
