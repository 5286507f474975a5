"""Exercise: an autograd.Function whose symbolic passes the scales on to Resize.

What the statement asks, and where it is drawn:

* apply interpolates in PyTorch, bicubic, float32: several pictures, factors and sizes, pixels below 0 and
  above 1;
* symbolic writes a valid Resize at opset 11, whose attributes are those of torch;
* scales is an input, at other factors than the example's, also two different ones, at any batch and size.
"""

import numpy as np
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import axis_options, exported, require_untouched
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.samples import pictures
from onnxlab.kit.work import Work
from onnxlab.labs.lab06_resize_scales.enlarging import AXES, Case, each_axis_apart
from onnxlab.message import Message


class _Enlarged(torch.nn.Module):
    """The module that is exported: it applies the learner's autograd.Function."""

    def __init__(self, function: type[torch.autograd.Function]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        enlarged: torch.Tensor = self.function.apply(x, scales)  # type: ignore[no-untyped-call]  # torch's
        return enlarged


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Run the function in PyTorch, and export it with one factor."""
    function = answers["DynamicResize"]
    is_class = isinstance(function, type) and hasattr(function, "apply")
    if not is_class or issubclass(function, torch.nn.Module):  # a Module has an apply of another kind
        what = (
            Message("another class")
            if isinstance(function, type)
            else Message("of type {name}", name=type(function).__name__)
        )
        msg = Message(
            "DynamicResize is {subject}; a class that inherits from torch.autograd.Function was expected.",
            subject=what,
        )
        raise Wrong(msg, "Begin with `class DynamicResize(torch.autograd.Function):`.")
    for number, (x, scales) in enumerate(each_axis_apart(random)):
        copies = x.clone(), scales.clone()
        with trying("DynamicResize.apply()", x=x, scales=scales):
            work.write_array(f"in_torch_{number}", function.apply(*copies))
            require_untouched(copies, (x, scales))
    module, options = _Enlarged(function), axis_options(Exporter.TORCHSCRIPT, AXES)
    try:
        exported(work, "resize", module, example(random), Exporter.TORCHSCRIPT, opset_version=11, **options)
    except Wrong as wrong:
        wrong.look_at = "Does symbolic return what g.op returned?"
        raise


def example(random: np.random.Generator) -> Case:
    """Draw the example of the export: a picture, and its factors."""
    return pictures(random, 1, 3, 6, 8), torch.tensor([1.0, 1.0, 3.0, 3.0])
