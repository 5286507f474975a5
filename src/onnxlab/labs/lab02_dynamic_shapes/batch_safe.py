"""Exercise: repair a model whose export only works for a batch of one, as in its example.

The statement as properties, each with what is drawn for it:

- what `Ranker` computes, for its own weights: others are asked for before and after its call
- `model` stays as it is
- a batch of one: its scores as they are, with infinities and nan
- other batches, 2 to some 4,500, two rows too, whatever the rows are: equal, zero, but for one, wholly nan
- numbers of any size, from 1e-30 to 1e30
"""

from collections.abc import Sequence

import numpy as np
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.labs.kit.exercise import Answers, Judges
from onnxlab.labs.kit.exporting import axis_options, exported, require_type, require_unchanged
from onnxlab.labs.kit.judging import expected_model, require_dynamic, require_numbers, require_valid
from onnxlab.labs.kit.outcome import trying
from onnxlab.labs.kit.samples import normal, normal_weights
from onnxlab.labs.kit.work import Work

__all__ = ["JUDGES", "Ranker", "produce"]

_FEATURES, _SCORES = 4, 3

_EXPECTED = f"""<ir_version: 8, opset_import: ["" : 20]>
batch_safe (float[batch, {_FEATURES}] x) => (float[batch, {_SCORES}] y)
<int64[1] rows = {{0}}, int64[1] one = {{1}}>
{{
    scores = Gemm <transB = 1> (x, weight, bias)
    mean = ReduceMean (scores, rows)
    relative = Sub (scores, mean)
    count = Shape <start = 0, end = 1> (x)
    several = Greater (count, one)
    y = Where (several, relative, scores)
}}"""


class Ranker(torch.nn.Module):
    """Scores rows, relative to the mean of the batch if there is more than one row."""

    def __init__(self) -> None:
        super().__init__()
        self.score = torch.nn.Linear(_FEATURES, _SCORES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows of four numbers."""
        scores: torch.Tensor = self.score(x)
        total = torch.zeros_like(scores[0])
        for i in range(x.shape[0]):
            total = total + scores[i]
        mean = total / len(x)
        return scores - mean if x.shape[0] > 1 else scores


def ranker(random: np.random.Generator) -> Ranker:
    """Return the model with random weights."""
    model = Ranker()
    normal_weights(random, model)
    return model


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export the repaired model with a batch of one, declared dynamic."""
    with trying("the model", model=ranker(work.questions())):
        model = ranker(random)
        answers["batch_safe"](ranker(random))  # of this model, and of the last one, nothing may be kept
        module = answers["batch_safe"](model)
        require_type(module, torch.nn.Module, "batch_safe(model)")
        answers["batch_safe"](ranker(random))
    options = axis_options(Exporter.TORCH_EXPORT, {"x": {0: "batch"}})
    exported(work, "repaired", module, normal(random, 1, _FEATURES), Exporter.TORCH_EXPORT, **options)
    require_unchanged(model, ranker(work.questions()), [normal(random, rows, _FEATURES) for rows in (1, 3)])


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Valid, with the batch declared dynamic."""
    model = work.model("repaired")
    require_valid(model)
    require_dynamic(model, {"x": [0]})


def judge_one(work: Work, random: np.random.Generator) -> None:
    """The batch of one, with every kind of number."""
    look_at = "What does the original make of a batch of one: are its scores shifted? And 0 times inf is nan."
    row = normal(random, 1, _FEATURES)
    _require_batches(work, [row, row * 0, *_odd_rows(random, row)], look_at)


def judge_more(work: Work, random: np.random.Generator) -> None:
    """Other batches, one of them too large to be unrolled."""
    look_at = (
        "What is subtracted from each row: the mean of all rows? If so: which Python numbers, and which "
        "Python decisions, still come from x.shape or len(x)?"
    )
    sizes = 2, 3, 5, 17, int(random.integers(100, 1000)), int(random.integers(4200, 4800))
    _require_batches(work, [normal(random, size, _FEATURES) for size in sizes], look_at)
    look_at = "What does your module do with large or small scores besides subtracting their mean?"
    for scale in (1e4, 1e30, 1e-4, 1e-30):
        rows = normal(random, int(random.integers(2, 9)), _FEATURES) * scale
        _require_batches(work, [rows], look_at, max(scale, 1))


def judge_alike(work: Work, random: np.random.Generator) -> None:
    """Equal rows, rows of zeros and odd numbers: an answer must not count the rows by their values."""
    look_at = "How does your module count the rows: by their number, or by what stands in them?"
    row, count = normal(random, 1, _FEATURES), int(random.integers(2, 9))
    rows = normal(random, count, _FEATURES)
    one_left = rows * 0
    one_left[int(random.integers(count))] = row
    two = normal(random, 2, _FEATURES)
    wholly_nan = [batch.clone() for batch in (rows, two)]
    for batch in wholly_nan:
        batch[int(random.integers(len(batch)))] = torch.nan
    alike = [row.repeat(count, 1), rows * 0, row.repeat(2, 1), two * 0, torch.cat([row, row * 0])]
    _require_batches(work, [*alike, one_left, *wholly_nan], look_at)
    look_at = (
        "What do infinities and nan become on the way? A mean of them is one itself, and so is every "
        "difference from it; do you count rows, or replace numbers, by their values?"
    )
    _require_batches(work, [*_odd_rows(random, rows), *_odd_rows(random, two)], look_at)


def _odd_rows(random: np.random.Generator, rows: torch.Tensor) -> list[torch.Tensor]:
    """Return copies of the rows with one infinity, or one nan, in a random place."""
    changed = []
    for value in (np.inf, -np.inf, np.nan):
        other = rows.clone()
        other[int(random.integers(len(rows))), int(random.integers(_FEATURES))] = value
        changed.append(other)
    return changed


def _require_batches(work: Work, inputs: Sequence[torch.Tensor], look_at: str, scale: float = 1.0) -> None:
    exact = ranker(work.questions()).double()  # a sum of many float32 depends on the order

    def reference(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = exact(x.double()).float()
        return result

    require_numbers(reference, work.model("repaired"), inputs, 1e-4 * scale, look_at=look_at)


JUDGES = Judges(
    (judge_model, judge_one, judge_more, judge_alike),
    expected=lambda work: expected_model(_EXPECTED, ranker(work.questions()).score.state_dict()),
)
