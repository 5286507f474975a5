"""What is right in batch-safe, part by part."""

from collections.abc import Sequence

import numpy as np
import torch

from onnxlab.kit.exercise import Judges
from onnxlab.kit.judging import expected_model, require_dynamic, require_numbers, require_valid
from onnxlab.kit.samples import normal
from onnxlab.kit.work import Work
from onnxlab.labs.lab02_dynamic_shapes.batch_safe import FEATURES, SCORES, ranker

_EXPECTED = f"""<ir_version: 8, opset_import: ["" : 20]>
batch_safe (float[batch, {FEATURES}] x) => (float[batch, {SCORES}] y)
<int64[1] rows = {{0}}, int64[1] one = {{1}}>
{{
    scores = Gemm <transB = 1> (x, weight, bias)
    mean = ReduceMean (scores, rows)
    relative = Sub (scores, mean)
    count = Shape <start = 0, end = 1> (x)
    several = Greater (count, one)
    y = Where (several, relative, scores)
}}"""


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Valid, with the batch declared dynamic."""
    model = work.model("repaired")
    require_valid(model)
    require_dynamic(model, {"x": [0]})


def judge_one(work: Work, random: np.random.Generator) -> None:
    """The batch of one, with every kind of number."""
    look_at = "What does the original make of a batch of one: are its scores shifted? And 0 times inf is nan."
    row = normal(random, 1, FEATURES)
    _require_batches(work, [row, row * 0, *_odd_rows(random, row)], look_at)


def judge_more(work: Work, random: np.random.Generator) -> None:
    """Other batches, one of them too large to be unrolled."""
    look_at = (
        "What is subtracted from each row: the mean of all rows? If so: which Python numbers, and which "
        "Python decisions, still come from x.shape or len(x)?"
    )
    sizes = 2, 3, 5, 17, int(random.integers(100, 1000)), int(random.integers(4200, 4800))
    _require_batches(work, [normal(random, size, FEATURES) for size in sizes], look_at)
    look_at = "What does your module do with large or small scores besides subtracting their mean?"
    for scale in (1e4, 1e30, 1e-4, 1e-30):
        rows = normal(random, int(random.integers(2, 9)), FEATURES) * scale
        _require_batches(work, [rows], look_at, max(scale, 1))


def judge_alike(work: Work, random: np.random.Generator) -> None:
    """Equal rows, rows of zeros and odd numbers: an answer must not count the rows by their values."""
    look_at = "How does your module count the rows: by their number, or by their values?"
    row, count = normal(random, 1, FEATURES), int(random.integers(2, 9))
    rows = normal(random, count, FEATURES)
    one_left = rows * 0
    one_left[int(random.integers(count))] = row
    two = normal(random, 2, FEATURES)
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
        other[int(random.integers(len(rows))), int(random.integers(FEATURES))] = value
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
