"""Lab 10: eight bits and sixteen, and what is lost on the way without a word."""

from onnxlab.labs.kit.exercise import Lab

__all__ = ["LAB"]

LAB = Lab.of(__name__, "Quantise")
