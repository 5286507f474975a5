"""Exercises with one export: with the learner's rule or translation, and what its model must do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.kit import judging
from onnxlab.kit.exercise import Answers, Judge
from onnxlab.kit.exporting import axis_options, exported_with_rule, exported_with_translation
from onnxlab.kit.work import Work

InputSampler = Callable[[np.random.Generator], Any]
"""Draws one set of inputs (a tensor, or a tuple of arguments), or a list of sets."""


@dataclass(frozen=True)
class RequestedExport:
    """The export that an exercise asks for.

    Attributes:
        function: The module, or a function of tensors, that is exported; it also gives the right numbers.
        inputs: The names of the model's inputs; for each, the dynamic axes and their names.
        example: Draws the example input.
        rule: The operator, as "aten::asinh", that the answer is a symbolic function for; or
        translation: the overload, as `torch.ops.aten.asinh.default`, that the answer is a translation for.
        opset: The opset of the export; None for the exporter's own.
        random_module: Whether `function` gets the generator of the questions and draws the module.
    """

    function: Callable[..., Any]
    inputs: Mapping[str, Mapping[int, str]]
    example: InputSampler
    rule: str = ""
    translation: Any = None
    opset: int | None = None
    random_module: bool = False

    @property
    def name(self) -> str:
        """The name of the model's file, which an instructor's own parts read: the operator's name."""
        return self.rule.partition("::")[2] or str(self.translation.overloadpacket.__name__)

    @property
    def exporter(self) -> Exporter:
        """The exporter that the rule or the translation is for."""
        return Exporter.TORCHSCRIPT if self.rule else Exporter.TORCH_EXPORT

    def reference(self, questions: np.random.Generator) -> Callable[..., Any]:
        """Return the module or function that is exported; its outputs are the right ones."""
        return self.function(questions) if self.random_module else self.function

    def produce(self, answers: Answers, work: Work, random: np.random.Generator) -> None:
        """Export the function with the learner's answer."""
        answer = next(iter(answers.values()))
        reference = self.reference(random)
        module = reference if isinstance(reference, torch.nn.Module) else _Module(reference)
        example, options = self.example(random), axis_options(self.exporter, self.inputs)
        if self.opset is not None:
            options["opset" if self.rule else "opset_version"] = self.opset
        if self.rule:
            exported_with_rule(work, self.name, self.rule, answer, module, example, **options)
            return
        if module is not reference:  # for torch.export, the inputs of `*inputs` are one argument
            options["dynamic_shapes"] = (options["dynamic_shapes"],)
        exported_with_translation(work, self.name, self.translation, answer, module, example, **options)


class _Module(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *inputs: torch.Tensor) -> Any:  # noqa: ANN401 - what the function returns
        return self._function(*inputs)


def valid(export: RequestedExport) -> Judge:
    """Ask for a model that the checker accepts and ONNX Runtime loads, with the export's opset and axes."""

    def judge(work: Work, random: np.random.Generator) -> None:
        model = work.model(export.name)
        if export.opset is not None:
            judging.require_opset(model, export.opset)
        judging.require_valid(model)
        judging.require_dynamic(model, export.inputs)

    return judge


def numbers(
    export: RequestedExport,
    *samplers: InputSampler,
    look_at: str | Mapping[str, str],
    atol: float = 1e-5,
    rtol: float = 1e-5,
) -> Judge:
    """Require PyTorch's outputs."""

    def judge(work: Work, random: np.random.Generator) -> None:
        inputs: list[Any] = []
        for sampler in samplers:
            samples = sampler(random)
            inputs += samples if isinstance(samples, list) else [samples]
        reference = export.reference(work.questions())
        judging.require_numbers(reference, work.model(export.name), inputs, atol, rtol, look_at=look_at)

    return judge


def right_model(export: RequestedExport, text: str | Callable[[Any], str]) -> Callable[[Work], bytes]:
    """Return what makes a right model: of its text in ONNX's form, or of a function of the drawn module."""

    def make(work: Work) -> bytes:
        return judging.expected_model(
            text if isinstance(text, str) else text(export.reference(work.questions()))
        )

    return make
