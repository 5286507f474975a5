"""Exercise best-candidates: keep the k best candidates, or all of them where there are fewer."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import onnx
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.labs.kit.exercise import Answers, Exercise, Part
from onnxlab.labs.kit.exporting import axis_options, exported_or_stopped, of_both_exporters, require_type
from onnxlab.labs.kit.judging import (
    at_other_sizes,
    expected_model,
    require_dynamic,
    require_exported,
    require_input_read,
    require_numbers,
    require_valid,
)
from onnxlab.labs.kit.outcome import Difference, Wrong, trying
from onnxlab.labs.kit.work import Work

__all__ = ["EXERCISE"]

_EXAMPLE = 20  # candidates at the export
_OUTPUTS = ["best_boxes", "best_scores"]
_EXPECTED = """<ir_version: 8, opset_import: ["" : 18]>
best (float[n, 4] boxes, float[n] scores) => (float[m, 4] best_boxes, float[m] best_scores)
<int64[1] most = {%d}>
{
    there = Shape (scores)
    k = Min (there, most)
    best_scores, places = TopK (scores, k)
    best_boxes = Gather (boxes, places)
}"""


def _k(random: np.random.Generator) -> int:
    return int(random.integers(4, 9))


def _candidates(random: np.random.Generator, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw boxes and scores; no two scores are equal, and some are negative."""
    boxes = random.uniform(0, 100, size=(count, 4)).astype(np.float32)
    scores = (random.permutation(count) - count / 3 + random.uniform(0, 0.5, size=count)).astype(np.float32)
    return torch.from_numpy(boxes), torch.from_numpy(scores)


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Run the learner's module for several numbers of candidates; export it with both exporters."""
    k = _k(random)
    with trying(f"k = {k}", k=k):
        module = answers["BestCandidates"](k)
        require_type(module, torch.nn.Module, "BestCandidates(k)")
    with torch.no_grad():
        for count in _counts(k):
            boxes, scores = _candidates(random, count)
            with trying(f"k = {k} and {count} candidates", k=k, boxes=boxes, scores=scores):
                result = module(boxes.clone(), scores.clone())
                require_type(result, (tuple, list), "forward(boxes, scores)")
                if len(result) != 2:
                    msg = f"forward(boxes, scores) returned {len(result)} values; two were expected."
                    raise Wrong(msg, "Return the boxes first, then their scores.")
                for name, tensor in zip(_OUTPUTS, result, strict=True):
                    work.write_array(f"torch_{count}_{name}", tensor)
    for exporter in Exporter:
        options = axis_options(exporter, {"boxes": {0: "n"}, "scores": {0: "n"}})
        example = _candidates(random, _EXAMPLE)
        exported_or_stopped(
            work, exporter.name.lower(), module, example, exporter, output_names=_OUTPUTS, **options
        )


def _counts(k: int) -> tuple[int, ...]:
    return _EXAMPLE, k, k - 1, 1, 0


def judge_torch(work: Work, random: np.random.Generator) -> None:
    """Require the right outputs in PyTorch."""
    questions = work.questions()
    k = _k(questions)
    for count in _counts(k):
        boxes, scores = _candidates(questions, count)
        with trying(f"k = {k} and {count} candidates", k=k, boxes=boxes, scores=scores):
            for name, tensor in zip(_OUTPUTS, _best(k)(boxes, scores), strict=True):
                expected, got = tensor.numpy(), work.array(f"torch_{count}_{name}")
                where = f"k = {k} and {count} candidates; {name}"
                if got.shape != expected.shape or got.dtype != expected.dtype:
                    descriptions = [f"{array.dtype}{list(array.shape)}" for array in (expected, got)]
                    msg = f"In PyTorch, {name} has another shape or type than it should."
                    look_at = "How many candidates are there to be returned?"
                    raise Wrong(msg, look_at, difference=Difference(where, *descriptions))
                if not np.array_equal(got, expected):
                    descriptions = [np.array2string(array[:2], precision=4) for array in (expected, got)]
                    msg = f"In PyTorch, {name} are others than they should be."
                    look_at = "Which candidate has the highest score, and which box belongs to it?"
                    raise Wrong(msg, look_at, difference=Difference(where, *descriptions))


def _best(k: int) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    def best(boxes: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        order = torch.argsort(scores, descending=True)[:k]
        return boxes[order], scores[order]

    return best


def judge_graph(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
    """Require a valid model for any number of candidates."""
    with _model(work, exporter) as model:
        require_valid(model)
        require_dynamic(model, {"boxes": [0], "scores": [0]})
        for name in ("boxes", "scores"):
            require_input_read(model, name)


def judge_enough(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
    """Require the right outputs for k candidates or more."""
    k = _k(work.questions())
    look_at = f"Are k rows left, the best first, with the boxes that belong to them? Here k is {k}."
    _require_counts(exporter, work, random, (_EXAMPLE, k + 1, int(random.integers(_EXAMPLE, 500))), look_at)


def judge_fewer(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
    """Require the right outputs for fewer than k candidates."""
    k = _k(work.questions())
    look_at = (
        f"Which number does the graph take for k? Here k is {k}, the example had {_EXAMPLE} candidates: "
        "what Python decided then is decided for good."
    )
    _require_counts(exporter, work, random, (k, k - 1, 2, 1), look_at)


def judge_none(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
    """Require the right outputs for no candidate."""
    look_at = "What do the operators of your graph make of an axis of size 0?"
    _require_counts(exporter, work, random, (0,), look_at)


def _require_counts(
    exporter: Exporter, work: Work, random: np.random.Generator, counts: Sequence[int], look_at: str
) -> None:
    inputs = [_candidates(random, count) for count in counts]
    with _model(work, exporter) as model:
        best = _best(_k(work.questions()))
        require_numbers(best, model, inputs, look_at={**at_other_sizes(look_at), "outputs": look_at})


@contextmanager
def _model(work: Work, exporter: Exporter) -> Iterator[onnx.ModelProto]:
    with trying(f"the {exporter} export", k=_k(work.questions())):
        yield require_exported(work, exporter.name.lower())


EXERCISE = Exercise(
    order=2,
    id="best-candidates",
    title="Keep the k best candidates, or all where there are fewer",
    points=3,
    answers=("BestCandidates",),
    produce=produce,
    torch_export=True,
    parts=(
        Part("in PyTorch: right for every number of candidates", judge_torch),
        *of_both_exporters(
            ("a valid model for any number of candidates", judge_graph),
            ("right for k candidates or more", judge_enough),
            ("right for fewer", judge_fewer),
            ("right for none", judge_none),
        ),
    ),
    hints=(
        "`min(k, len(scores))` is a number of the example in one exporter. Is there a way that never asks "
        "how many candidates there are?",
        "A slice may reach beyond the end: `x[:k]` has all rows of x if there are fewer than k, in Python, "
        "in PyTorch and in ONNX.",
        "`order = scores.argsort(descending=True)[:self.k]`, then `return boxes[order], scores[order]`.",
    ),
    expected=lambda work: expected_model(_EXPECTED % _k(work.questions())),
)
