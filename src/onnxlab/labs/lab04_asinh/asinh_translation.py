"""Exercise: asinh for the torch.export exporter, for a type that the runtime's kernel does not accept.

The statement as properties, each with what is drawn for it:

- every call is translated: six calls for both types; the first four and the last are of float64, so that
  none of them can be left out by its number
- the result has the type of `x`, and ONNX Runtime loads the model, with two dynamic axes
- ordinary numbers to 1e-5 at any shape, no row among them
- every size from 1e-30 to 1e30, of both signs and types, eight for each power of ten, to 1e-4 of its own
- infinities and nan
"""

from collections.abc import Sequence

import numpy as np
import torch

from onnxlab.kit.declared import RequestedExport
from onnxlab.kit.samples import normal


class TwoTypes(torch.nn.Module):
    """The module that is exported: the same operator for two element types.

    Args:
        calls: The arguments of the calls, in order.
    """

    def __init__(self, calls: Sequence[str]) -> None:
        super().__init__()
        self.calls = tuple(calls)

    def forward(self, x: torch.Tensor, wide: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """`x` is float32, `wide` float64; both have the same shape."""
        values = {"x": x, "wide": wide, "-x": -x, "-wide": -wide}
        return tuple(torch.asinh(values[call]) for call in self.calls)


def two_types(random: np.random.Generator) -> TwoTypes:
    """Return the module with its calls; which of the float32 values is one of them is random."""
    single = str(random.choice(["x", "-x"]))
    return TwoTypes(["wide", "-wide", "wide", "-wide", single, "wide"])


def pair(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the module's inputs: the values in float32, and in float64 from the last to the first."""
    return values, values.double().flip(0)


EXPORT = RequestedExport(
    function=two_types,
    random_module=True,
    inputs={"x": {0: "n", 1: "m"}, "wide": {0: "n", 1: "m"}},
    example=lambda random: pair(normal(random, 2, 3)),
    translation=torch.ops.aten.asinh.default,
)

produce = EXPORT.produce
