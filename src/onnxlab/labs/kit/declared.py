"""Exercises as statements: one export that the one answer takes part in, and what its model must do.

What does not fit such a statement are functions, as `Exercise` takes them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from onnxlab.labs.kit.exercise import Answers, Exercise, Part
from onnxlab.labs.kit.exporting import exported_with_rule, exported_with_translation
from onnxlab.labs.kit.judging import (
    expected_model,
    require_dynamic,
    require_numbers,
    require_opset,
    require_valid,
)
from onnxlab.labs.kit.work import Work

__all__ = ["InputSampler", "RequestedExport", "declared", "numbers", "valid"]

InputSampler = Callable[[np.random.Generator], Any]
"""Draws one set of inputs (a tensor, or a tuple of arguments), or a list of sets."""


@dataclass(frozen=True)
class RequestedExport:
    """The export that an exercise asks for.

    Attributes:
        function: The module, or a function of tensors, that is exported; it also says what is right.
        inputs: The names of the model's inputs; for each, the dynamic axes and their names.
        example: Draws the example input.
        rule: The operator, as "aten::asinh", that the answer is a symbolic function for; or
        translation: the overload, as `torch.ops.aten.asinh.default`, that the answer is a translation for.
        opset: The opset of the export; None for the exporter's own.
    """

    function: Callable[..., Any]
    inputs: Mapping[str, Mapping[int, str]]
    example: InputSampler
    rule: str = ""
    translation: Any = None
    opset: int | None = None

    @property
    def name(self) -> str:
        """The model's file: the operator's name. It is what an instructor's own parts read."""
        return self.rule.partition("::")[2] or str(self.translation.overloadpacket.__name__)

    def produce(self, answer: str, answers: Answers, work: Work, random: np.random.Generator) -> None:
        """Export the function with the learner's answer."""
        module = self.function if isinstance(self.function, torch.nn.Module) else _Module(self.function)
        example, written = self.example(random), answers[answer]
        axes = {name: dict(axes) for name, axes in self.inputs.items()}
        options: dict[str, Any] = {"input_names": list(self.inputs)}
        if self.opset is not None:
            options["opset" if self.rule else "opset_version"] = self.opset
        if self.rule:
            options["dynamic_axes"] = axes
            exported_with_rule(work, self.name, self.rule, written, module, example, **options)
        else:
            options["dynamic_shapes"] = axes
            table = {self.translation: written}
            exported_with_translation(work, self.name, table, module, example, **options)


class _Module(torch.nn.Module):
    """A function as a module, for the exporter that traces."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *inputs: torch.Tensor) -> Any:  # noqa: ANN401 - what the function returns
        return self._function(*inputs)


_Declared = Callable[[RequestedExport], Part]


def valid(title: str) -> _Declared:
    """Ask for a model that the checker accepts and ONNX Runtime loads, with the opset and axes asked for."""

    def part(asked: RequestedExport) -> Part:
        def judge(work: Work, random: np.random.Generator) -> None:
            model = work.model(asked.name)
            if asked.opset is not None:
                require_opset(model, asked.opset)
            require_valid(model)
            require_dynamic(model, asked.inputs)

        return Part(title, judge)

    return part


def numbers(
    title: str, *drawn: InputSampler, look_at: str | Mapping[str, str], atol: float = 1e-5, rtol: float = 1e-5
) -> _Declared:
    """Ask for PyTorch's numbers.

    Args:
        title: The part's title.
        *drawn: Draw the sets of inputs, in order.
        look_at: Where to look if they differ, as for `require_numbers`.
        atol: As for `require_numbers`.
        rtol: As for `require_numbers`.
    """

    def part(asked: RequestedExport) -> Part:
        def judge(work: Work, random: np.random.Generator) -> None:
            inputs: list[Any] = []
            for draw in drawn:
                found = draw(random)
                inputs += found if isinstance(found, list) else [found]
            require_numbers(asked.function, work.model(asked.name), inputs, atol, rtol, look_at=look_at)

        return Part(title, judge)

    return part


def declared(
    name: str,
    title: str,
    asked: RequestedExport,
    *parts: _Declared,
    order: int,
    points: int,
    right: str,
    hints: tuple[str, str, str],
) -> Exercise:
    """Return the exercise that a statement describes.

    Args:
        name: Its id in kebab-case; the answer is the function of that name in snake_case.
        title: What is to be done, in one line.
        asked: The export.
        *parts: What has to hold, in the order in which a learner should be told.
        order: Its place in its lab.
        points: What it is worth.
        right: A right model in ONNX's text form.
        hints: Three, from a nudge to nearly the code.
    """
    answer = name.replace("-", "_")
    return Exercise(
        order=order,
        id=name,
        title=title,
        points=points,
        answers=(answer,),
        produce=partial(asked.produce, answer),
        parts=tuple(part(asked) for part in parts),
        hints=hints,
        expected=lambda work: expected_model(right),
        torch_export=asked.translation is not None,
    )
