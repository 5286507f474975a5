"""What is right in asinh-symbolic, part by part."""

from onnxlab.kit.declared import numbers, right_model, valid
from onnxlab.kit.exercise import Judges
from onnxlab.kit.samples import column_of_sizes, every_size, extremes, floats, normal
from onnxlab.labs.lab04_asinh.asinh_symbolic import EXPORT

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
