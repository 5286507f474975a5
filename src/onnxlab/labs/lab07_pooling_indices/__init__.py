"""Lab 7: the indices of max pooling, which PyTorch and ONNX count differently."""

from onnxlab.labs.kit.exercise import Lab

__all__ = ["LAB"]

LAB = Lab.of(__name__, "Pooling indices: two ways to count")
