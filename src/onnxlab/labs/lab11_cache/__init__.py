"""Lab 11: a decoder that keeps what it has read, in a cache whose length changes at every step."""

from onnxlab.labs.kit.exercise import Lab

__all__ = ["LAB"]

LAB = Lab.of(__name__, "A cache")
