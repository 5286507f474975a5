"""Exercise: a symbolic function that gives asinh a rule at opset 9.

The statement as properties, each with what is drawn for it:

- a value of the graph comes back: a module that calls asinh several times, also of another asinh
- the checker and ONNX Runtime accept the model, at opset 9, with two dynamic axes
- ordinary numbers at any shape, no row among them
- every size from 1e-37 to the largest float32, of both signs, eight for each power of ten: 1e-4 of its own
- infinities and nan
"""

import torch

from onnxlab.kit.declared import RequestedExport
from onnxlab.kit.samples import normal


def several_calls(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The function that is exported."""
    first = torch.asinh(x)
    return first, torch.asinh(-x), torch.asinh(first)


EXPORT = RequestedExport(
    function=several_calls,
    inputs={"x": {0: "n", 1: "m"}},
    example=lambda random: normal(random, 2, 3),
    rule="aten::asinh",
    opset=9,
)

produce = EXPORT.produce
