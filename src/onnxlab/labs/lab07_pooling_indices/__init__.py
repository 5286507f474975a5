"""Lab 7: one index, counted in two ways."""

from onnxlab.labs.exercise import Lab
from onnxlab.labs.lab07_pooling_indices import max_unpool_symbolic, to_global_indices

__all__ = ["LAB"]

LAB = Lab(
    "lab07_pooling_indices",
    "Pooling indices: two ways to count",
    (to_global_indices.EXERCISE, max_unpool_symbolic.EXERCISE),
)
