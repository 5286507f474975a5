"""Lab 5: bit shifts, which both exporters translate and neither translates quite right."""

from onnxlab.labs.exercise import Lab
from onnxlab.labs.lab05_bitshift import (
    find_wrong_shift,
    rshift_symbolic,
    uint8_shift_translation,
    uses_bitshift,
)

__all__ = ["LAB"]

LAB = Lab(
    "lab05_bitshift",
    "Bit shifts: a rule that is there and wrong",
    (
        uses_bitshift.EXERCISE,
        find_wrong_shift.EXERCISE,
        rshift_symbolic.EXERCISE,
        uint8_shift_translation.EXERCISE,
    ),
)
