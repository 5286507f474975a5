"""What is right in branch-on-data, part by part."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.judges.lab01_control_flow.interventions import (
    branch_values,
    computed_for_branches,
    exposed,
    inlined,
    outcome,
    outputs_of,
    switched,
)
from onnxlab.kit import judging
from onnxlab.kit.exercise import Judges
from onnxlab.kit.exporting import of_both_exporters
from onnxlab.kit.outcome import Difference, Wrong, trying
from onnxlab.kit.samples import pictures
from onnxlab.kit.work import Work
from onnxlab.labs.lab01_control_flow.branch_on_data import model_names
from onnxlab.message import Message
from onnxlab.runtime.comparison import compare_outputs

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
    """The right answer in eager PyTorch."""
    if bool(x.mean() > 0):
        return x - x.mean()
    return x.abs() + 1


def every_model(
    judge: Callable[[Exporter, onnx.ModelProto, np.random.Generator], None],
) -> Callable[[Exporter, Work, np.random.Generator], None]:
    """Make a judge of one model a judge of all models of an exporter."""

    def judge_all(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
        for number, name in enumerate(model_names(exporter), 1):
            try:
                case = Message("call {number}, for the {exporter} exporter", number=number, exporter=exporter)
                with trying(case, exporter=exporter.value):
                    judge(exporter, judging.require_exported(work, name), random)
            except Wrong as wrong:
                if number > 1:
                    wrong.message = Message(
                        "Asked for {exporter} once more, call {number}: {wrong.message}",
                        exporter=exporter,
                        number=number,
                        wrong=wrong,
                    )
                raise

    return judge_all


@every_model
def judge_graph(exporter: Exporter, model: onnx.ModelProto, random: np.random.Generator) -> None:
    """A valid model with an If."""
    judging.require_valid(model)
    look_at = Message(
        "How does {exporter} see your module: once, with one example, or with all its branches?",
        exporter=exporter,
    )
    judging.require_operators(model, "If", look_at=look_at)


@every_model
def judge_numbers(exporter: Exporter, model: onnx.ModelProto, random: np.random.Generator) -> None:
    """Drawn numbers; means near zero, infinite and nan."""
    lengths = 1, 2, 7, int(random.integers(100, 3000))
    ordinary = [pictures(random, length) + shift for length in lengths for shift in (0.1, -1.1)]
    edges = [[0.0], [0.0, 0.0], [2.0, -2.0], [1e30, -1e29], [-1e30, 1e29], [np.inf, 1.0], [np.nan, 1.0]]
    edges += [[-np.inf, 1.0], [1.0, np.nan], [np.inf, -np.inf], *_near_zero(random)]
    edges += [[-0.0], [3e37, -1e37, 2e36], [-3e37, 1e37, 2e36]]
    ordinary += _skewed(random)
    inputs = [*ordinary, *(torch.tensor(values, dtype=torch.float32) for values in edges)]
    look_at = "Which side belongs to the mean of the input shown? Compute both sides by hand."
    judging.require_numbers(centred_or_folded, model, inputs, look_at=look_at)


def _skewed(random: np.random.Generator) -> list[torch.Tensor]:
    """Rows of both signs in which few numbers, in random places, decide the sign of the mean."""
    rows: list[torch.Tensor] = []
    for sign in (1, -1) * 8:
        length = int(random.integers(5, 60))
        values = -random.uniform(0.5, 1.5, length)  # most of them have the other sign
        few = random.permutation(length)[: 1 + length // 12]
        # The mean is 0.2; or -0.2, with largest numbers that are further from 0 than all others.
        aim = 0.2 if len(rows) % 4 < 2 else -0.2
        values[few] = 0
        values[few] = (aim * length - values.sum()) / len(few)
        rows.append(torch.tensor(sign * values, dtype=torch.float32))
    # Only the last of many numbers makes the mean positive, or negative.
    for sign in (1, -1):
        long = torch.full((int(random.integers(5000, 6000)),), -0.001 * sign)
        long[-1] = 100.0 * sign
        rows.append(long)
    return rows


def _near_zero(random: np.random.Generator) -> list[list[float]]:
    """Inputs with tiny means on both sides of zero, whose sign does not depend on how a mean is rounded."""
    tiny = [10.0 ** random.uniform(*exponents) for exponents in ((-7, -3), (-20, -7), (-37, -20))]
    large, gap = 2.0 ** random.integers(0, 4), 2.0 ** -random.integers(16, 22)  # exact in float32
    return [[sign * value] for value in tiny for sign in (1, -1)] + [
        [large * (1 + sign * gap), -large] for sign in (1, -1)
    ]


@every_model
def judge_sides(exporter: Exporter, model: onnx.ModelProto, random: np.random.Generator) -> None:
    """The If decides which side is computed, and its output is the result."""
    model = inlined(model)
    judging.require_valid(model)
    judging.require_operators(model, "If", look_at="Which operator of ONNX has two branches?")
    x = pictures(random, 5) - 0.5
    inputs = [x - x.mean() + shift for shift in (0.3, -0.3)]
    _require_nothing_before(model, inputs)
    _require_nothing_after(model, inputs)
    _require_decided(model, inputs)
    _require_one_side(model, inputs)


def _require_nothing_before(model: onnx.ModelProto, inputs: Sequence[torch.Tensor]) -> None:
    """What the branches read is x itself, a single number, or the same for every x."""
    names = computed_for_branches(model)
    run = outcome(exposed(model, names)) if names else outcome(model)
    for x in inputs:
        for name, value, other in zip(names, run(x), run(x * 2 - 0.1), strict=False):
            if value.size > 1 and not np.array_equal(value, x.numpy()) and not np.array_equal(value, other):
                msg = Message(
                    "{name!r} is computed before the If, whatever the mean is; a branch only reads it.",
                    name=name,
                )
                look_at = (
                    "Which lines of yours stand inside a branch? What stands before it is computed for both."
                )
                shown = Difference(
                    f"x = {_shown(x)}", Message("branches that read x and its mean"), _shown(value)
                )
                raise Wrong(msg, look_at, difference=shown, evidence=judging.evidence(model, None, "If"))


def _require_nothing_after(model: onnx.ModelProto, inputs: Sequence[torch.Tensor]) -> None:
    """The result is an output of an If."""
    run = outcome(exposed(model, [*outputs_of(model, "If"), model.graph.output[0].name]))
    for x in inputs:
        *branch_values, result = run(x) or [np.zeros(0)]
        if not any(np.array_equal(value.ravel(), result.ravel(), equal_nan=True) for value in branch_values):
            text = Message(
                "the If gives {branch_values}; the model {shown}",
                branch_values=", ".join(map(_shown, branch_values))[:80],
                shown=_shown(result),
            )
            msg = "The result is not the If's output: it is computed after it, from both sides."
            look_at = (
                "Let each branch return its side of the result. What uses the If's output in your graph?"
            )
            shown = Difference(f"x = {_shown(x)}", Message("the result out of the If"), text)
            raise Wrong(msg, look_at, difference=shown, evidence=judging.evidence(model, None, "If"))


def _require_decided(model: onnx.ModelProto, inputs: Sequence[torch.Tensor]) -> None:
    """If the other branch is taken, the result is the other side."""
    runs = [outcome(changed) for changed in switched(model)]
    positive, negative = inputs
    other_sides = positive.abs() + 1, negative - negative.mean()
    for x, other_side in zip(inputs, other_sides, strict=True):
        expected = other_side.numpy()
        results = [outputs[0] for run in runs if (outputs := run(x))]
        if not any(compare_outputs(expected, value, atol=1e-4) for value in results):
            msg = "The branches are not the two sides: the other branch does not compute the other side."
            look_at = "What does each branch compute by itself? `where` in a branch computes both sides."
            got = _shown(results[0]) if results else Message("nothing")
            shown = Difference(
                Message("x = {shown}, in the other branch", shown=_shown(x)), _shown(expected), got
            )
            raise Wrong(msg, look_at, difference=shown, evidence=judging.evidence(model, None, "If"))


def _require_one_side(model: onnx.ModelProto, inputs: Sequence[torch.Tensor]) -> None:
    """No branch computes the other side along with its own."""
    for changed in branch_values(model):
        run = outcome(changed)
        for x, other_side in zip(inputs, (inputs[0].abs() + 1, inputs[1] - inputs[1].mean()), strict=True):
            for value in run(x):
                if compare_outputs(other_side, value):
                    msg = "A branch computes both sides and keeps one."
                    look_at = (
                        "Which nodes stand in the branch that this x takes? Only its own side belongs there."
                    )
                    shown = Difference(
                        f"x = {_shown(x)}",
                        Message("one side"),
                        Message("the other side, too: {shown}", shown=_shown(value)),
                    )
                    raise Wrong(msg, look_at, difference=shown, evidence=judging.evidence(model, None, "If"))


def _shown(values: Any) -> str:  # noqa: ANN401 - a tensor or an array
    return np.array2string(np.asarray(values), precision=3, threshold=8)


JUDGES = Judges(
    of_both_exporters(judge_graph, judge_numbers, judge_sides),
    expected=lambda work: judging.expected_model(_EXPECTED),
)
