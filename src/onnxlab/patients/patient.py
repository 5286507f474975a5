"""A patient: a module whose export fails, or is silently wrong; and the judge of a repair."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from inspect import signature
from typing import Any, TypeAlias

import torch

from onnxlab.exporters.export import Export, Exporter, export
from onnxlab.exporters.silence import silenced
from onnxlab.message import Message
from onnxlab.runtime.parity import smallest_counterexample
from onnxlab.runtime.refusals import named_reason
from onnxlab.runtime.session import open_session

Inputs: TypeAlias = tuple[torch.Tensor, ...]

STAGES = ("capture", "translate", "optimise", "load", "run")
"""Where a fault can be; the optimiser's stage includes folding and naming."""


@dataclass(frozen=True)
class Patient:
    """A real failure.

    Attributes:
        name: Its name, as "scatter-mean".
        symptom: What was reported, in a sentence.
        stage: Where the fault is, one of `STAGES`.
        exporter: Whose export shows it.
        ill: Makes the module.
        repaired: Makes a module that exports and computes what the ill one should.
        inputs: Makes the example of the export, then inputs that must be right, too: other sizes and values.
        hints: Three, each plainer than the one before.
        threads: Where it was reported.
        lesson: The chapter that explains it.
        dynamic: The names of dynamic axes, for each input; None where the sizes are fixed.
        options: Further arguments of `torch.onnx.export`.
        atol: The largest difference that counts as right.
        most_bytes: The size of a file that counts as right; None if any does.
        carries_buffers: Whether a repair may accept the module's buffers after its inputs, and return their
            new values after its outputs.
    """

    name: str
    symptom: str
    stage: str
    exporter: Exporter
    ill: Callable[[], torch.nn.Module]
    repaired: Callable[[], torch.nn.Module]
    inputs: Callable[[], list[Inputs]]
    hints: tuple[str, str, str]
    threads: str
    lesson: str
    dynamic: tuple[Mapping[int, str] | None, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    atol: float = 1e-4
    most_bytes: int | None = None
    carries_buffers: bool = False

    def carried(self, module: torch.nn.Module) -> bool:
        """Whether a repair accepts the ill module's buffers after its inputs."""
        return self.carries_buffers and len(signature(module.forward).parameters) > len(self.inputs()[0])

    def exported(self, module: torch.nn.Module | None = None) -> Export:
        """Export the module, or another in its place, as it was exported when it fell ill."""
        module = module or self.ill()
        example = self.inputs()[0]
        if self.carried(module):
            example += tuple(self.ill().buffers())
        options = dict(self.options)
        if self.dynamic is not None and self.exporter is Exporter.TORCH_EXPORT:
            options["dynamic_shapes"] = self.dynamic
        elif self.dynamic is not None:
            names = [f"x{i}" for i in range(len(example))]
            options |= {"input_names": names, "dynamic_axes": dict(zip(names, self.dynamic, strict=True))}
        # Whether it runs is asked below, with inputs of every kind.
        return export(module, example, self.exporter, run=False, **options)


@dataclass(frozen=True)
class Outcome:
    """What became of a module.

    Attributes:
        right: Whether it exports, loads, and is right for every input.
        text: What failed first: the stage and the message, or the input and the value that differs.
    """

    right: bool
    text: str


def outcome(patient: Patient, module: torch.nn.Module | None = None) -> Outcome:
    """Export the module, or another in its place, and compare it with what the patient should compute."""
    torch.manual_seed(0)
    with silenced():
        made = patient.exported(module)
    if made.failure is not None:
        causes = made.failure.causes
        message = causes[-1] if causes else f"{made.failure.error}: {made.failure.message}"
        return Outcome(False, Message.compose(": ", [made.failure.stage, message.splitlines()[0]]))
    try:
        open_session(made.proto)
    except Exception as error:  # the runtime raises plain Exception subclasses and RuntimeError
        return Outcome(False, Message("load: {reason}", reason=named_reason(error)))
    size = made.proto.ByteSize()
    if patient.most_bytes is not None and size > patient.most_bytes:
        return Outcome(
            False,
            Message(
                "file: {size:,} bytes, and {patient.most_bytes:,} are enough", size=size, patient=patient
            ),
        )
    ill = patient.ill()
    carried = module is not None and patient.carried(module)

    def meant(*inputs: torch.Tensor) -> Any:  # noqa: ANN401 - what the module returns
        result = ill(*inputs[: len(inputs) - len(list(ill.buffers()))] if carried else inputs)
        result = tuple(vars(result).values()) if is_dataclass(result) else result
        return (result, *ill.buffers()) if carried else result

    for number, inputs in enumerate(patient.inputs()):
        given = (*inputs, *ill.buffers()) if carried else inputs
        fault = smallest_counterexample(meant, made.proto, [given], patient.atol, 1e-4)
        if fault is not None:
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in inputs)
            return Outcome(
                False,
                Message(
                    "input {n}, of shape {shapes}: {fault.reason}", n=number + 1, shapes=shapes, fault=fault
                ),
            )
    return Outcome(True, Message("right for every input"))
