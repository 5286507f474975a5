"""What is right in untangle, part by part."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import onnx
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.kit import judging
from onnxlab.kit.exercise import Judges
from onnxlab.kit.exporting import (
    of_both_exporters,
)
from onnxlab.kit.outcome import Difference, trying
from onnxlab.kit.samples import normal
from onnxlab.kit.work import Work
from onnxlab.labs.lab03_trace_breakers.untangle import COLUMNS, ROWS, tangled
from onnxlab.message import Message
from onnxlab.runtime.parity import Counterexample

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


def judge_graph(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
    """Valid, computed from x, for any number of rows."""
    with _model(work, exporter) as model:
        judging.require_valid(model)
        judging.require_input_read(model, "x")
        judging.require_dynamic(model, {"x": [0]})


def judge_values(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
    """Numbers of every size, and spans around the smallest one."""
    large = -(10 ** random.uniform(2, 6))
    scales = (
        (1, 0), (-1, 5), (100, 0), (1e-4, 0), (1e-20, 0), (1e20, 0), (1e37, 0), (large, 0), (1, 9), (1, -9),
    )  # fmt: skip
    inputs = [normal(random, ROWS, COLUMNS) * scale + shift for scale, shift in scales]
    # Spans on both sides of the smallest one, near it and further away.
    near = 0.001 * np.array([random.uniform(0.9, 0.99), random.uniform(1.01, 1.1), random.uniform(2, 9)])
    inputs += [_spanning(random, float(span)) for span in near]
    inputs += [torch.full((ROWS, COLUMNS), value) for value in (0.0, 3.0, -7.5, 1e38, random.normal())]
    look_at = (
        "Compare your module with the original in PyTorch first: what is the smallest number, what the span, "
        "and what if the input is flat? If they agree: is a constant of the graph a number of the example?"
    )
    with _model(work, exporter) as model:
        _require_numbers(work, model, inputs, look_at)


def judge_lengths(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
    """Other numbers of rows than the example's."""
    look_at = Message("The example had {rows} rows. Which line of yours asks for their number?", rows=ROWS)
    counts = 1, 2, 3, 9, int(random.integers(50, 1000)), int(random.integers(4200, 4800))
    inputs = [normal(random, count, COLUMNS) for count in counts]
    with _model(work, exporter) as model:
        _require_numbers(work, model, inputs, judging.at_other_sizes(look_at))


@contextmanager
def _model(work: Work, exporter: Exporter) -> Iterator[onnx.ModelProto]:
    with trying(Message("the {exporter} export", exporter=exporter), model=tangled(work.questions())):
        yield judging.require_exported(work, exporter.name.lower())


def _require_numbers(
    work: Work, model: onnx.ModelProto, inputs: list[torch.Tensor], look_at: str | dict[str, str]
) -> None:
    original = tangled(work.questions())
    describe = partial(_difference, original.gain.tolist())
    judging.require_numbers(original, model, inputs, 1e-4, look_at=look_at, describe=describe)


def _difference(gain: list[float], counterexample: Counterexample) -> Difference:
    """Show what a wrong number can be computed from by hand."""
    texts = judging.difference(counterexample)
    if counterexample.torch is None:
        return texts
    (x,), (row, *column) = counterexample.inputs, counterexample.index
    numbers = Message("row {row} is {numbers}", row=row, numbers=judging.shown_whole(x[row]))
    result = (
        Message(
            "gain {gain:.6g} in column {column}: {result}", gain=gain[column[0]], column=column[0], result="y"
        )
        if column
        else "mean"
    )
    shape = f"{x.dtype}{list(x.shape)}"
    span = Message("x from {low:.6g} to {high:.6g}, {shape}", low=x.min(), high=x.max(), shape=shape)
    return replace(texts, given=Message.compose("; ", [span, numbers, result]))


def _spanning(random: np.random.Generator, span: float) -> torch.Tensor:
    """Return rows whose smallest number is 0 and whose largest is the span, each in a random place."""
    rows = random.uniform(0, span, ROWS * COLUMNS).astype(np.float32)
    low, high = random.permutation(rows.size)[:2]
    rows[low], rows[high] = 0, span
    return torch.from_numpy(rows.reshape(ROWS, COLUMNS))


JUDGES = Judges(
    of_both_exporters(judge_graph, judge_values, judge_lengths),
    expected=lambda work: judging.expected_model(_EXPECTED, tangled(work.questions()).state_dict()),
)
