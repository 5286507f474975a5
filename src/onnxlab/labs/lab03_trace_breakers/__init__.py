"""Lab 3: what breaks a trace, mended; and a trace broken on purpose."""

from onnxlab.labs.exercise import Lab
from onnxlab.labs.lab03_trace_breakers import static_on_purpose, untangle

__all__ = ["LAB"]

LAB = Lab(
    "lab03_trace_breakers",
    "Trace breakers: mend one, use one",
    (untangle.EXERCISE, static_on_purpose.EXERCISE),
)
