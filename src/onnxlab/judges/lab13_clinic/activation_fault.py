"""What is right in activation-fault."""

from onnxlab.judges.lab13_clinic.examination import Verdict
from onnxlab.kit.samples import normal
from onnxlab.labs.lab13_clinic.activation_fault import EXAMINATION

_RIGHT = """<ir_version: 8, opset_import: ["" : 18]>
activation (double[n, m] x) => (double[n, m] y) <double zero = {0}, double one = {1}>
{
    low = Min (x, zero)
    grown = Exp (low)
    negative = Sub (grown, one)
    above = Greater (x, zero)
    y = Where (above, x, negative)
}"""

JUDGES = Verdict(
    EXAMINATION,
    stage="load",
    clue="The file is there, and `onnx.checker` accepts it. Which step raises the error?",
    right_model=_RIGHT,
    inputs=lambda random: [
        (normal(random, *size).double() * scale,)
        for size in ((2, 3), (1, 1), (5, 1), (7, 40))
        for scale in (1, 1000)
    ],
    look_at="Is the output float64, to its last digits? What do you make of large ones?",
    atol=1e-12,
).judges
