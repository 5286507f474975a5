"""Exercise: a branch that looks at the numbers, kept with both sides in the exporter that is asked for."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from onnxlab.facts.export import Exporter
from onnxlab.labs.exercise import Answers, Exercise, Part
from onnxlab.labs.exporting import exported_or_stopped, require_type
from onnxlab.labs.judging import expected_model, require_numbers, require_valid
from onnxlab.labs.judging_graph import require_exported, require_operators
from onnxlab.labs.samples import pictures
from onnxlab.labs.work import Work

__all__ = ["EXERCISE", "centred_or_folded"]

_EXPECTED = """<ir_version: 8, opset_import: ["" : 20]>
branch (float[n] x) => (float[n] y)
<float zero = {0}, float one = {1}>
{
    mean = ReduceMean <keepdims = 0> (x)
    positive = Greater (mean, zero)
    y = If (positive) <
        then_branch = centred () => (float[n] a) { a = Sub (x, mean) },
        else_branch = folded () => (float[n] b) { size = Abs (x) b = Add (size, one) }
    >
}"""


def centred_or_folded(x: torch.Tensor) -> torch.Tensor:
    """What is asked for, in eager PyTorch."""
    if bool(x.mean() > 0):
        return x - x.mean()
    return x.abs() + 1


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Ask for a module for each exporter, and export it with that one, the length of x being dynamic."""
    marks: dict[Exporter, dict[str, Any]] = {
        Exporter.TORCHSCRIPT: {"dynamic_axes": {"x": {0: "n"}}},
        Exporter.TORCH_EXPORT: {"dynamic_shapes": ({0: "n"},)},
    }
    for exporter, marked in marks.items():
        module = answers["branch_on_data"](exporter.value)
        require_type(module, torch.nn.Module, f'branch_on_data("{exporter}")')
        example = pictures(random, 3) + 0.5
        exported_or_stopped(work, _name(exporter), module, example, exporter, input_names=["x"], **marked)


def _name(exporter: Exporter) -> str:
    return exporter.name.lower()


def _judge_graph(exporter: Exporter) -> Callable[[Work, np.random.Generator], None]:
    def judge(work: Work, random: np.random.Generator) -> None:
        model = require_exported(work, _name(exporter))
        require_valid(model)
        require_operators(
            model,
            "If",
            look_at=f"How does {exporter} see your module: once, with one example, or with all its branches?",
        )

    return judge


def _judge_numbers(exporter: Exporter) -> Callable[[Work, np.random.Generator], None]:
    def judge(work: Work, random: np.random.Generator) -> None:
        drawn = [pictures(random, length) + shift for length in (1, 2, 7) for shift in (0.1, -1.1, -0.5)]
        edges = [[0.0], [0.0, 0.0], [2.0, -2.0], [1e30, -1e29], [-1e30, 1e29], [np.inf, 1.0], [np.nan, 1.0]]
        require_numbers(
            centred_or_folded,
            require_exported(work, _name(exporter)),
            [*drawn, *(torch.tensor(values) for values in edges)],
            look_at="Which side belongs to the mean of the input shown? Compute both sides by hand.",
        )

    return judge


EXERCISE = Exercise(
    id="branch-on-data",
    title="Keep both sides of a branch, in either exporter",
    points=5,
    answers=("branch_on_data",),
    produce=produce,
    parts=(
        Part("TorchScript: an If is in the graph", _judge_graph(Exporter.TORCHSCRIPT)),
        Part("TorchScript: right on both sides, at any length", _judge_numbers(Exporter.TORCHSCRIPT)),
        Part("torch.export: an If is in the graph", _judge_graph(Exporter.TORCH_EXPORT)),
        Part("torch.export: right on both sides, at any length", _judge_numbers(Exporter.TORCH_EXPORT)),
    ),
    hints=(
        "One module will not do for both: each exporter has a way of its own to be told about a branch.",
        "TorchScript keeps an `if` of a scripted module; torch.export keeps `torch.cond`.",
        "Two classes: one with a plain `if`, returned as `torch.jit.script(Branch())`; the other with "
        "`return torch.cond(x.mean() > 0, lambda x: x - x.mean(), lambda x: x.abs() + 1, (x,))`.",
    ),
    holds_for="torch 2.13, onnx 1.23, onnxruntime 1.31",
    expected=lambda work: expected_model(_EXPECTED),
)
