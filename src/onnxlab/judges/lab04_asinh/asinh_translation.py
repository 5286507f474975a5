"""What is right in asinh-translation, part by part."""

from onnxlab.kit.declared import numbers, right_model, valid
from onnxlab.kit.exercise import Judges
from onnxlab.kit.samples import column_of_sizes, every_size, floats, normal
from onnxlab.labs.lab04_asinh.asinh_translation import EXPORT, TwoTypes, pair


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
