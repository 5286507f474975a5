"""Lab 3: a model with trace breakers, repaired; and a trace broken on purpose."""

from onnxlab.labs.kit.exercise import Lab

__all__ = ["LAB"]

LAB = Lab.of(__name__, "Trace breakers: mend one, use one")
