"""What the exercises of lab 13 share: a patient, and how a diagnosis and a repair are called.

What is asked of each patient, and where it is drawn:

- the stage of the fault, one of five names
- inputs for which PyTorch and the ill module's file differ, or which a file gets that does not load
- a repaired module: the same outputs as the ill one's, in PyTorch and from both exporters' files with the
  same dynamic axes, for inputs of several sizes
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import axis_options, exported_or_stopped, require_type, require_untouched
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.message import Message

EXPORTERS = (Exporter.TORCH_EXPORT, Exporter.TORCHSCRIPT)
"""Those that a repair is exported with, the default one first."""


@dataclass(frozen=True)
class Examination:
    """A patient of lab 13.

    Attributes:
        diagnosis: The name of the answer that returns a stage and inputs.
        repair: The name of the answer that is the repaired module's class.
        ill: The ill module's class; what it computes in PyTorch is right.
        axes: Its inputs, and their dynamic axes.
        example: Draws the inputs of the export.
        inputs: Draws inputs of several sizes, for which the repaired module must be right.
        exporter: Whose file of the ill module shows the fault.
    """

    diagnosis: str
    repair: str
    ill: type[torch.nn.Module]
    axes: Mapping[str, Mapping[int, str]]
    example: Callable[[np.random.Generator], tuple[torch.Tensor, ...]]
    inputs: Callable[[np.random.Generator], list[tuple[torch.Tensor, ...]]]
    exporter: Exporter = Exporter.TORCHSCRIPT

    def produce(self, answers: Answers, work: Work, random: np.random.Generator) -> None:
        """Write the stage, the inputs, and of the repaired module the outputs and both exporters' files."""
        call = f"{self.diagnosis}()"
        example = self.example(random)
        with trying("the ill module", module=self.ill(), inputs=example):
            result = answers[self.diagnosis]()
            require_type(result, tuple, call)
            if len(result) != 2:
                msg = Message(
                    "Values that {call} returned: {count}; a stage and a tuple of inputs were expected.",
                    call=call,
                    count=len(result),
                )
                raise Wrong(msg, "Are the inputs in a tuple of their own?")
            stage, inputs = result
            require_type(stage, str, Message("{call}, first value,", call=call))
            require_type(inputs, tuple, Message("{call}, second value,", call=call))
            if len(inputs) != len(self.axes):
                msg = Message(
                    "{call}: inputs returned: {count}; inputs of the module: {count2}.",
                    call=call,
                    count=len(inputs),
                    count2=len(self.axes),
                )
                raise Wrong(msg, "A tuple of one tensor is written (x,), with a comma.")
            for name, tensor in zip(self.axes, inputs, strict=True):
                require_type(tensor, torch.Tensor, Message("{call}, input {name},", call=call, name=name))
                work.write_array(name, tensor)
            work.write_json("stage", stage)
            module = answers[self.repair]()
            require_type(module, torch.nn.Module, f"{self.repair}()")
        module.eval()
        for number, inputs in enumerate(self.inputs(random)):
            copies = tuple(tensor.clone() for tensor in inputs)
            with trying("the repaired module in PyTorch", **dict(zip(self.axes, inputs, strict=True))):
                with torch.no_grad():
                    output = module(*copies)
                require_type(output, torch.Tensor, f"{self.repair}.forward()")
                require_untouched(copies, inputs)
                work.write_array(f"torch_{number}", output)
        for exporter in EXPORTERS:
            options = axis_options(exporter, self.axes)
            exported_or_stopped(work, exporter.name.lower(), module, example, exporter, **options)
