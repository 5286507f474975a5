"""What is right in shares-fault."""

from onnxlab.judges.lab13_clinic.examination import Verdict
from onnxlab.labs.lab13_clinic.shares_fault import EXAMINATION

_RIGHT = """<ir_version: 8, opset_import: ["" : 18]>
shares (float[n, m] x) => (float[n, m] y) <float one = {1}, int64[1] columns = {1}>
{
    opposite = Neg (x)
    power = Exp (opposite)
    grown = Add (one, power)
    score = Reciprocal (grown)
    total = ReduceSum (score, columns)
    y = Div (score, total)
}"""

JUDGES = Verdict(
    EXAMINATION,
    stage="run",
    clue="Run the same file in `onnx.reference`, for x = -20. Who differs from it: PyTorch, or ONNX Runtime?",
    right_model=_RIGHT,
    look_at="What is the sum of a row whose scores are all faint, and of one whose scores are all near 1?",
    show="For which x is the score nearly 0? Try a row of such numbers only.",
    rtol=1e-4,
).judges
