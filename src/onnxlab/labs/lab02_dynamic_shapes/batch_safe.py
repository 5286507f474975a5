"""Exercise: repair a model that takes its example's batch of one for every batch."""

from collections.abc import Sequence

import numpy as np
import torch

from onnxlab.facts.export import Exporter
from onnxlab.labs.exercise import Answers, Exercise, Part
from onnxlab.labs.exporting import exported, require_type
from onnxlab.labs.judging import expected_model, require_numbers, require_valid
from onnxlab.labs.judging_graph import require_dynamic
from onnxlab.labs.work import Work

__all__ = ["EXERCISE", "Ranker"]

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
    """Return the model with weights drawn anew."""
    model = Ranker()
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(torch.from_numpy(random.normal(size=tuple(weights.shape))))
    return model.eval()


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export the repaired model with a batch of one, marked as dynamic."""
    module = answers["batch_safe"](ranker(random))
    require_type(module, torch.nn.Module, "batch_safe(model)")
    marked = {"input_names": ["x"], "dynamic_shapes": ({0: "batch"},)}
    exported(work, "repaired", module, _rows(random, 1), Exporter.TORCH_EXPORT, **marked)


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Valid, with the label it was given."""
    model = work.model("repaired")
    require_valid(model)
    require_dynamic(model, {"x": [0]})


def judge_one(work: Work, random: np.random.Generator) -> None:
    """The batch of the example."""
    look = "What does the original make of a batch of one: are its scores shifted?"
    _require_batches(work, random, (1,), look)


def judge_more(work: Work, random: np.random.Generator) -> None:
    """Other batches."""
    look = "Which Python numbers, and which Python decisions, still come from x.shape or len(x)?"
    _require_batches(work, random, (2, 3, 5, 17), look)


def _require_batches(work: Work, random: np.random.Generator, sizes: Sequence[int], look_at: str) -> None:
    inputs = [_rows(random, size) for size in sizes]
    require_numbers(ranker(work.questions()), work.model("repaired"), inputs, 1e-4, look_at=look_at)


def _rows(random: np.random.Generator, count: int) -> torch.Tensor:
    return torch.from_numpy(random.normal(size=(count, _FEATURES)).astype(np.float32))


EXERCISE = Exercise(
    id="batch-safe",
    title="Repair a model that froze its batch of one",
    points=5,
    answers=("batch_safe",),
    produce=produce,
    parts=(
        Part("a valid model whose batch is labelled dynamic", judge_model),
        Part("right for a batch of one", judge_one),
        Part("right for larger batches", judge_more),
    ),
    hints=(
        "Three places turn the number of rows into a Python number or a Python decision. Find them first.",
        "`scores.mean(0)` needs neither the loop nor `len`. For the decision: `torch.where` with a "
        "condition that is a tensor computed from x.",
        "`several = torch.ones_like(x[:, :1]).sum() > 1`, then "
        "`return torch.where(several, scores - scores.mean(0), scores)`.",
    ),
    holds_for="torch 2.13, onnx 1.23, onnxruntime 1.31",
    expected=lambda work: expected_model(_EXPECTED, ranker(work.questions()).score.state_dict()),
)
