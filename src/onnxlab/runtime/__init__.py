"""Models in ONNX Runtime: outputs and intermediate values, compared with PyTorch's, and refused inputs."""

from onnxlab.model.distance import largest_difference
from onnxlab.runtime.divergence import first_divergence, intermediates, program_values
from onnxlab.runtime.parity import compare, run
from onnxlab.runtime.refusals import failure_table

__all__ = [
    "compare",
    "failure_table",
    "first_divergence",
    "intermediates",
    "largest_difference",
    "program_values",
    "run",
]
