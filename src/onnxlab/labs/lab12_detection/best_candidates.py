"""Exercise: the k best candidates, or all of them where there are fewer."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.labs.kit.exercise import Answers, Exercise, Part
from onnxlab.labs.kit.exporting import exported_or_stopped, require_type
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
_NAMES = {"input_names": ["boxes", "scores"], "output_names": ["best_boxes", "best_scores"]}
_MARKS: dict[Exporter, dict[str, Any]] = {
    Exporter.TORCHSCRIPT: {"dynamic_axes": {"boxes": {0: "n"}, "scores": {0: "n"}}},
    Exporter.TORCH_EXPORT: {"dynamic_shapes": ({0: "n"}, {0: "n"})},
}
_EXPECTED = """<ir_version: 8, opset_import: ["" : 18]>
best (float[n, 4] boxes, float[n] scores) => (float[m, 4] best_boxes, float[m] best_scores)
<int64[1] most = {%d}>
{
    there = Shape (scores)
    k = Min (there, most)
    best_scores, places = TopK (scores, k)
    best_boxes = Gather (boxes, places)
}"""

Judge = Callable[[Work, np.random.Generator], None]


def _k(random: np.random.Generator) -> int:
    return int(random.integers(4, 9))


def _candidates(random: np.random.Generator, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw boxes and scores; no two scores are equal, and some are negative."""
    boxes = random.uniform(0, 100, size=(count, 4)).astype(np.float32)
    scores = (random.permutation(count) - count / 3 + random.uniform(0, 0.5, size=count)).astype(np.float32)
    return torch.from_numpy(boxes), torch.from_numpy(scores)


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Run it in PyTorch for several counts; export it with both exporters."""
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
                for name, tensor in zip(_NAMES["output_names"], result, strict=True):
                    work.write_array(f"torch_{count}_{name}", tensor)
    for exporter, marks in _MARKS.items():
        example = _candidates(random, _EXAMPLE)
        exported_or_stopped(work, exporter.name.lower(), module, example, exporter, **_NAMES, **marks)


def _counts(k: int) -> tuple[int, ...]:
    return _EXAMPLE, k, k - 1, 1, 0


def judge_torch(work: Work, random: np.random.Generator) -> None:
    """What came out in PyTorch."""
    questions = work.questions()
    k = _k(questions)
    for count in _counts(k):
        boxes, scores = _candidates(questions, count)
        with trying(f"k = {k} and {count} candidates", k=k, boxes=boxes, scores=scores):
            for name, tensor in zip(_NAMES["output_names"], _best(k)(boxes, scores), strict=True):
                right, got = tensor.numpy(), work.array(f"torch_{count}_{name}")
                given = f"k = {k} and {count} candidates; {name}"
                if got.shape != right.shape or got.dtype != right.dtype:
                    sides = [f"{array.dtype}{list(array.shape)}" for array in (right, got)]
                    msg = f"In PyTorch, {name} has another shape or type than it should."
                    look = "How many candidates are there to be returned?"
                    raise Wrong(msg, look, difference=Difference(given, *sides))
                if not np.array_equal(got, right):
                    sides = [np.array2string(array[:2], precision=4) for array in (right, got)]
                    msg = f"In PyTorch, {name} are others than they should be."
                    look = "Which candidate has the highest score, and which box belongs to it?"
                    raise Wrong(msg, look, difference=Difference(given, *sides))


def _best(k: int) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    def best(boxes: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        order = torch.argsort(scores, descending=True)[:k]
        return boxes[order], scores[order]

    return best


def _judge_graph(exporter: Exporter) -> Judge:
    def judge(work: Work, random: np.random.Generator) -> None:
        model = require_exported(work, exporter.name.lower())
        require_valid(model)
        require_dynamic(model, {"boxes": [0], "scores": [0]})
        for name in ("boxes", "scores"):
            require_input_read(model, name)

    return judge


def _judge_counts(
    exporter: Exporter, look_at: Callable[[int], str], counts: Callable[[int, int], tuple[int, ...]]
) -> Judge:
    def judge(work: Work, random: np.random.Generator) -> None:
        model, k = require_exported(work, exporter.name.lower()), _k(work.questions())
        many = int(random.integers(_EXAMPLE, 500))
        inputs = [_candidates(random, count) for count in counts(k, many)]
        look = look_at(k)
        require_numbers(_best(k), model, inputs, look_at={**at_other_sizes(look), "outputs": look})

    return judge


def _judge_enough(exporter: Exporter) -> Judge:
    def look_at(k: int) -> str:
        return f"Are k rows left, the best first, with the boxes that belong to them? Here k is {k}."

    return _judge_counts(exporter, look_at, lambda k, many: (_EXAMPLE, k + 1, many))


def _judge_fewer(exporter: Exporter) -> Judge:
    def look_at(k: int) -> str:
        return (
            f"Which number does the graph take for k? Here k is {k}, the example had {_EXAMPLE} candidates: "
            "what Python decided then is decided for good."
        )

    return _judge_counts(exporter, look_at, lambda k, many: (k, k - 1, 2, 1))


def _judge_none(exporter: Exporter) -> Judge:
    look = "What do the operators of your graph make of an axis of size 0?"
    return _judge_counts(exporter, lambda _: look, lambda k, many: (0,))


def _with_case(exporter: Exporter, judge: Judge) -> Judge:
    def judge_case(work: Work, random: np.random.Generator) -> None:
        with trying(f"the {exporter} export", k=_k(work.questions())):
            judge(work, random)

    return judge_case


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
        *(
            Part(f"{exporter}: {title}", _with_case(exporter, judge(exporter)))
            for exporter in Exporter
            for title, judge in (
                ("a valid model for any number of candidates", _judge_graph),
                ("right for k candidates or more", _judge_enough),
                ("right for fewer", _judge_fewer),
                ("right for none", _judge_none),
            )
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
