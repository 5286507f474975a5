"""Exercise: a symbolic function that gives asinh a rule at opset 9.

The statement as properties, each with what is drawn for it:

- a value of the graph comes back: a module that calls asinh several times, also of another asinh
- the checker and ONNX Runtime accept the model, at opset 9, with two dynamic axes
- ordinary numbers at any shape, no row among them
- every size from 1e-37 to the largest float32, of both signs, eight for each power of ten: 1e-4 of its own
- infinities and nan
"""

import torch

from onnxlab.labs.kit.declared import RequestedExport, numbers, right_model, valid
from onnxlab.labs.kit.exercise import Judges
from onnxlab.labs.kit.samples import column_of_sizes, every_size, extremes, floats, normal

__all__ = ["EXPORT", "JUDGES", "produce"]


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
JUDGES = Judges(
    (
        valid(EXPORT),
        numbers(
            EXPORT,
            lambda random: [normal(random, *shape) for shape in [(1, 1), (3, 4), (5, 2), (0, 3)]],
            lambda random: normal(random, *random.integers(6, 60, 2)),
            look_at="Evaluate your formula by hand for the input shown.",
        ),
        numbers(
            EXPORT,
            lambda random: [*every_size(random, -37, 38), *extremes(), column_of_sizes(random, -37, 38)],
            lambda random: [floats(random, 4, 8), -floats(random, 8, 4)],
            atol=0.0,
            rtol=1e-4,
            look_at="log(x + sqrt(x*x + 1)): what becomes of x*x where x is large, and of the sum where x is "
            "tiny or negative?",
        ),
    ),
    expected=right_model(
        EXPORT,
        """<ir_version: 8, opset_import: ["" : 9]>
    asinh (float[N, M] x) => (float[N, M] y, float[N, M] turned, float[N, M] twice)
    { y = Asinh(x) minus = Neg(x) turned = Asinh(minus) twice = Asinh(y) }""",
    ),
)
