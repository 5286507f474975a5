"""What is right in heading-fault."""

from onnxlab.judges.lab13_clinic.examination import Verdict
from onnxlab.labs.lab13_clinic.heading_fault import EXAMINATION

_RIGHT = """<ir_version: 8, opset_import: ["" : 18]>
heading (float[n] north, float[n] east) => (float[n] y) <float zero = {0}, float pi = {3.14159274}>
{
    ratio = Div (north, east)
    angle = Atan (ratio)
    back = Less (east, zero)
    sign = Sign (north)
    half = Mul (sign, pi)
    turn = Where (back, half, zero)
    turned = Add (angle, turn)
    on_axis = Where (back, pi, zero)
    flat = Equal (north, zero)
    y = Where (flat, on_axis, turned)
}"""


JUDGES = Verdict(
    EXAMINATION,
    stage="translate",
    clue="`torch.atan2` is one operation of PyTorch. Which nodes does the file have in its place?",
    right_model=_RIGHT,
    look_at="Go round the circle: east, north, west, south; and the vector without a length.",
    show="Which vectors lie exactly on an axis, or have no direction?",
).judges
