"""Exercise: a model that computes in Python, rewritten so that both exporters see all of it.

The statement as properties, each with what is drawn for it:

- the same two results, for its own gain: others are asked for before and after its call
- `model` stays as it is
- for both exporters, computed from x
- other numbers: from 1e-20 to 1e37, of both signs, all positive, all negative; the smallest and the
  largest in any place; equal ones; spans of about 0.001 on both sides
- other numbers of rows: 1 to some 4,500, also as many as there are columns
- gains are positive, negative and 0
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import onnx
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.labs.kit.exercise import Answers, Judges
from onnxlab.labs.kit.exporting import (
    axis_options,
    exported_or_stopped,
    of_both_exporters,
    require_type,
    require_unchanged,
)
from onnxlab.labs.kit.judging import (
    at_other_sizes,
    difference,
    expected_model,
    require_dynamic,
    require_exported,
    require_input_read,
    require_numbers,
    require_valid,
    shown_whole,
)
from onnxlab.labs.kit.outcome import Difference, trying
from onnxlab.labs.kit.samples import normal
from onnxlab.labs.kit.work import Work
from onnxlab.runtime.parity import Counterexample

__all__ = ["JUDGES", "Tangled", "produce"]

_ROWS, _COLUMNS = 4, 3

_EXPECTED = """<ir_version: 8, opset_import: ["" : 20]>
untangled (float[rows, 3] x) => (float[rows, 3] y, float[rows] means)
<float smallest = {0.001}, int64[1] columns = {1}>
{
    low = ReduceMin <keepdims = 0> (x)
    high = ReduceMax <keepdims = 0> (x)
    width = Sub (high, low)
    span = Clip (width, smallest)
    moved = Sub (x, low)
    stretched = Div (moved, span)
    y = Mul (stretched, gain)
    means = ReduceMean <keepdims = 0> (stretched, columns)
}"""


class Tangled(torch.nn.Module):
    """Scales numbers to the range from 0 to 1, and gives each row's mean, with detours through Python."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(_COLUMNS))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of three numbers."""
        low = x.min().item()
        span = max(x.max().item() - low, 0.001)
        x = (x - low) / span
        return x * self.gain, torch.Tensor([float(row.mean()) for row in x])


def tangled(random: np.random.Generator) -> Tangled:
    """Return the model with random gains."""
    model = Tangled()
    with torch.no_grad():
        gains = np.array([random.uniform(0.5, 2.0), random.uniform(-2.0, -0.5), 0.0])
        model.gain.copy_(torch.from_numpy(random.permutation(gains)))  # a gain of 0 cannot be divided away
    return model.eval()


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export the learner's module with both exporters, with a dynamic number of rows."""
    with trying("the model", model=tangled(work.questions())):
        model = tangled(random)
        answers["untangle"](tangled(random))  # of this model, and of the last one, nothing may be kept
        module = answers["untangle"](model)
        require_type(module, torch.nn.Module, "untangle(model)")
        answers["untangle"](tangled(random))
    for exporter in Exporter:
        options = axis_options(exporter, {"x": {0: "rows"}})
        example = normal(random, _ROWS, _COLUMNS)
        exported_or_stopped(work, exporter.name.lower(), module, example, exporter, **options)
    require_unchanged(model, tangled(work.questions()), [normal(random, _ROWS, _COLUMNS)])


def judge_graph(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
    """Valid, computed from x, for any number of rows."""
    with _model(work, exporter) as model:
        require_valid(model)
        require_input_read(model, "x")
        require_dynamic(model, {"x": [0]})


def judge_values(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
    """Numbers of every size, and spans around the smallest one."""
    large = -(10 ** random.uniform(2, 6))
    scales = (
        (1, 0),
        (-1, 5),
        (100, 0),
        (1e-4, 0),
        (1e-20, 0),
        (1e20, 0),
        (1e37, 0),
        (large, 0),
        (1, 9),
        (1, -9),
    )
    inputs = [normal(random, _ROWS, _COLUMNS) * scale + shift for scale, shift in scales]
    # Spans on both sides of the smallest one, near it and further away.
    near = 0.001 * np.array([random.uniform(0.9, 0.99), random.uniform(1.01, 1.1), random.uniform(2, 9)])
    inputs += [_spanning(random, float(span)) for span in near]
    inputs += [torch.full((_ROWS, _COLUMNS), value) for value in (0.0, 3.0, -7.5, random.normal())]
    look_at = (
        "Compare your module with the original in PyTorch first: what is the smallest number, what the span, "
        "and what if the input is flat? If they agree: is a constant of the graph a number of the example?"
    )
    with _model(work, exporter) as model:
        _require_numbers(work, model, inputs, look_at)


def judge_lengths(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
    """Other numbers of rows than the example's."""
    look_at = f"The example had {_ROWS} rows. Which line of yours asks for their number?"
    counts = 1, 2, 3, 9, int(random.integers(50, 1000)), int(random.integers(4200, 4800))
    inputs = [normal(random, count, _COLUMNS) for count in counts]
    with _model(work, exporter) as model:
        _require_numbers(work, model, inputs, at_other_sizes(look_at))


@contextmanager
def _model(work: Work, exporter: Exporter) -> Iterator[onnx.ModelProto]:
    with trying(f"the {exporter} export", model=tangled(work.questions())):
        yield require_exported(work, exporter.name.lower())


def _require_numbers(
    work: Work, model: onnx.ModelProto, inputs: list[torch.Tensor], look_at: str | dict[str, str]
) -> None:
    original = tangled(work.questions())
    describe = partial(_difference, original.gain.tolist())
    require_numbers(original, model, inputs, 1e-4, look_at=look_at, describe=describe)


def _difference(gain: list[float], counterexample: Counterexample) -> Difference:
    """Show what a wrong number can be computed from by hand."""
    texts = difference(counterexample)
    if counterexample.torch is None:
        return texts
    (x,), (row, *column) = counterexample.inputs, counterexample.index
    numbers = f"{shown_whole(x[row])} in row {row}"
    factor = f", gain {gain[column[0]]:.6g}, column {column[0]}" if column else ""
    result = "y" if column else "mean"
    shape = f"{x.dtype}{list(x.shape)}"
    return replace(texts, given=f"{shape} from {x.min():.6g} to {x.max():.6g}; {numbers}{factor}: {result}")


def _spanning(random: np.random.Generator, span: float) -> torch.Tensor:
    """Return rows whose smallest number is 0 and whose largest is the span, each in a random place."""
    rows = random.uniform(0, span, _ROWS * _COLUMNS).astype(np.float32)
    low, high = random.permutation(rows.size)[:2]
    rows[low], rows[high] = 0, span
    return torch.from_numpy(rows.reshape(_ROWS, _COLUMNS))


JUDGES = Judges(
    of_both_exporters(judge_graph, judge_values, judge_lengths),
    expected=lambda work: expected_model(_EXPECTED, tangled(work.questions()).state_dict()),
)
