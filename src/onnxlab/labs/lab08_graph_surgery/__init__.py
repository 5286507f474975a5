"""Lab 8: models changed, cut and compared without an exporter."""

from onnxlab.labs.kit.exercise import Lab

__all__ = ["LAB"]

LAB = Lab.of(__name__, "Graph surgery")
