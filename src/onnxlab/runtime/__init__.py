"""What ONNX Runtime makes of a model: outputs, inner values, refusals, beside PyTorch's."""

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
