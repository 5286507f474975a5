"""Exercise: asinh for the torch.export exporter, for a type that the runtime's kernel does not take.

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

from onnxlab.labs.kit.declared import RequestedExport, numbers, right_model, valid
from onnxlab.labs.kit.exercise import Judges
from onnxlab.labs.kit.samples import column_of_sizes, every_size, floats, normal

__all__ = ["EXPORT", "JUDGES", "TwoTypes", "produce"]


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


def expected(module: TwoTypes) -> str:
    """Return a right model for these calls."""
    lines, outputs = [], []
    for number, call in enumerate(module.calls):
        name, kind = call.lstrip("-"), "double" if call.endswith("wide") else "float"
        lines.append(f"v{number} = {'Neg' if call[0] == '-' else 'Identity'}({name})")
        lines.append(f"n{number} = Cast<to = 1>(v{number}) a{number} = Asinh(n{number})")
        lines.append(f"y{number} = Cast<to = {11 if kind == 'double' else 1}>(a{number})")
        outputs.append(f"{kind}[N, M] y{number}")
    return f"""<ir_version: 10, opset_import: ["" : 20]>
        asinh (float[N, M] x, double[N, M] wide) => ({", ".join(outputs)}) {{ {" ".join(lines)} }}"""


def pair(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return values, values.double().flip(0)


EXPORT = RequestedExport(
    function=two_types,
    random_module=True,
    inputs={"x": {0: "n", 1: "m"}, "wide": {0: "n", 1: "m"}},
    example=lambda random: pair(normal(random, 2, 3)),
    translation=torch.ops.aten.asinh.default,
)

produce = EXPORT.produce
JUDGES = Judges(
    (
        valid(EXPORT),
        numbers(
            EXPORT,
            lambda random: [
                pair(normal(random, *shape))
                for shape in [(1, 1), (2, 3), (3, 4), (5, 2), (0, 3), tuple(random.integers(6, 60, 2))]
            ],
            look_at="Evaluate your function by hand for the input shown. Which type has each value on the "
            "way?",
        ),
        numbers(
            EXPORT,
            lambda random: [
                pair(values)
                for values in (
                    *every_size(random, -30, 30),
                    column_of_sizes(random, -30, 30),
                    floats(random, 4, 8),
                    -floats(random, 8, 4),
                )
            ],
            atol=0.0,
            rtol=1e-4,
            look_at="How large, or how small, are the intermediate values for the input shown, and which "
            "type must hold them?",
        ),
    ),
    expected=right_model(EXPORT, expected),
)
