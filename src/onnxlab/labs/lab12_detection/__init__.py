"""Lab 12: what stands before and behind a detector, inside the file: from any picture to boxes on it."""

from onnxlab.labs.kit.exercise import Lab

__all__ = ["LAB"]

LAB = Lab.of(__name__, "Detection")
