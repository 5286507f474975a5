"""Lab 1: a loop and a branch that are still there after the export."""

from onnxlab.labs.exercise import Lab
from onnxlab.labs.lab01_control_flow import branch_on_data, loop_count_as_input

__all__ = ["LAB"]

LAB = Lab(
    "lab01_control_flow",
    "Control flow: a loop and a branch that survive",
    (loop_count_as_input.EXERCISE, branch_on_data.EXERCISE),
)
