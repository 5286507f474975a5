"""What is right in clip-fault."""

from onnxlab.judges.lab13_clinic.examination import Verdict
from onnxlab.labs.lab13_clinic.clip_fault import EXAMINATION

_RIGHT = """<ir_version: 8, opset_import: ["" : 18]>
clip (float[n, m] x) => (float[n, m] y)
<float gain = {1.5}, float low = {-6}, float high = {6}, float two = {2}>
{
    signal = Mul (x, gain)
    limited = Clip (signal, low, high)
    y = Div (limited, two)
}"""

JUDGES = Verdict(
    EXAMINATION,
    stage="capture",
    clue="`graph(clip)` shows what the exporter was handed. Is every line of `forward` in it?",
    right_model=_RIGHT,
    look_at="What does the limit make of large values, and of large negative ones?",
    show="Are there values for which the limit changes something?",
).judges
