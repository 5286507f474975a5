"""What is right in louder-fault."""

from onnxlab.judges.lab13_clinic.examination import Verdict
from onnxlab.labs.lab13_clinic.louder_fault import EXAMINATION

_RIGHT = """<ir_version: 8, opset_import: ["" : 18]>
louder (int16[n] left, int16[n] right) => (int16[n] y)
{
    wide_left = Cast <to = 6> (left)
    wide_right = Cast <to = 6> (right)
    larger = Max (wide_left, wide_right)
    y = Cast <to = 5> (larger)
}"""


JUDGES = Verdict(
    EXAMINATION,
    stage="load",
    clue="The file is there, and `onnx.checker` accepts it. Which step raises the error?",
    right_model=_RIGHT,
    look_at="Is the output int16? Do the largest and the smallest sample survive?",
).judges
