"""Lab 6: an enlargement whose factor is chosen when the model runs."""

from onnxlab.labs.exercise import Lab
from onnxlab.labs.lab06_resize_scales import dynamic_resize, one_pixel_safe, resize_translation, scales_input

__all__ = ["LAB"]

LAB = Lab(
    "lab06_resize_scales",
    "Resize: a factor chosen at run time",
    (
        scales_input.EXERCISE,
        dynamic_resize.EXERCISE,
        resize_translation.EXERCISE,
        one_pixel_safe.EXERCISE,
    ),
)
