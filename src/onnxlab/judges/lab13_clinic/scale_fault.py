"""What is right in scale-fault."""

from onnxlab.judges.lab13_clinic.examination import Verdict
from onnxlab.labs.lab13_clinic.scale_fault import EXAMINATION

_RIGHT = """<ir_version: 8, opset_import: ["" : 18]>
scale (float[n, m] x) => (float[n, m] y) <float threshold = {2}>
{
    soft = Softplus (x)
    above = Greater (x, threshold)
    y = Where (above, x, soft)
}"""


JUDGES = Verdict(
    EXAMINATION,
    stage="translate",
    clue="One call became one node, `Softplus`. Which argument of the call is no attribute of it?",
    right_model=_RIGHT,
    look_at="What does `softplus` return at 2, just above it, and far below 0?",
    show="From which number on is `softplus` the number itself?",
).judges
