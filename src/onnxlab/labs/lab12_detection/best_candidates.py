"""Exercise best-candidates: keep the k best candidates, or all of them where there are fewer.

What is asked, and what is drawn for it:

- k of 1 or more: 1, 4 to 8, and more than the example has; three modules that are asked in turn;
- the k best, best first; all where there are fewer, none where there are none: 0, 1, 2, k - 1, k, k + 1,
  thousands of candidates;
- any scores but nan: equal ones, neighbours in float32, infinite ones, all of them -inf;
- among equal scores the order is free: a box has to belong to its score, and none is returned twice;
- boxes of any numbers, and the same box twice; outputs are exact, float32, [m, 4] and [m];
- the arguments stay as they are;
- both exporters' models: the same.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

import numpy as np
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import axis_options, exported_or_stopped, require_type
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.message import Message
from onnxlab.model.distance import Array

EXAMPLE = 20  # candidates at the export
OUTPUTS = ["best_boxes", "best_scores"]


def draw_ks(random: np.random.Generator) -> list[int]:
    """Draw numbers of candidates to keep: less than the example has, more, and one."""
    return [int(random.integers(4, 9)), int(random.integers(120, 400)), 1]


def candidates(random: np.random.Generator, count: int, kind: str = "any") -> tuple[Array, Array]:
    """Draw boxes and scores: [count, 4] and [count]."""
    boxes = random.normal(size=(count, 4)).astype(np.float32) * 100
    scores = (random.normal(size=count) * 10.0 ** random.integers(-30, 31, size=count)).astype(np.float32)
    if kind == "equal":
        scores = random.choice(np.array([-2.5, -0.0, 0.0, 0.25, 0.5], np.float32), count)
        boxes[: count // 4] = boxes[count // 4 : 2 * (count // 4)]
    elif kind == "neighbours":
        scores = (np.float32(0.7).view(np.int32) + random.permutation(count)).astype(np.int32)
        scores = scores.view(np.float32)
    elif kind == "infinite":
        scores[random.random(count) < 0.6] = -np.inf
        scores[: count // 5] = np.inf
    elif kind == "all -inf":
        scores[:] = -np.inf
    order = random.permutation(count)
    return boxes[order], scores[order]


def _cases(k: int) -> list[tuple[int, str]]:
    """Return numbers of candidates and kinds of scores: many, few, none."""
    return [*enough(k), *fewer(k), (0, "any")]


def enough(k: int) -> list[tuple[int, str]]:
    """Return counts and kinds of candidates, of k or more."""
    sizes = [(EXAMPLE, "any"), (k, "equal"), (k + 1, "neighbours"), (2 * k, "equal"), (2 * k, "infinite")]
    return [(count, kind) for count, kind in sizes if count >= k] + [(12000, "any"), (k + 3, "all -inf")]


def fewer(k: int) -> list[tuple[int, str]]:
    """Return counts and kinds of candidates, of fewer than k."""
    sizes = ((k - 1, "any"), (k - 1, "infinite"), (2, "all -inf"), (1, "infinite"), (1, "any"))
    return [(count, kind) for count, kind in sizes if 0 < count < k]


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Run the learner's modules for several numbers of candidates; export them with both exporters."""
    modules = {}
    for k in draw_ks(random):
        with trying(f"k = {k}", k=k):
            modules[k] = answers["BestCandidates"](k)
            require_type(modules[k], torch.nn.Module, "BestCandidates(k)")
    with torch.no_grad():
        for number, (k, boxes, scores) in enumerate(draw_questions(random, list(modules))):
            case = Message("k = {k}, candidates: {count}", k=k, count=len(scores))
            with trying(case, k=k, boxes=boxes, scores=scores):
                given = boxes.clone(), scores.clone()
                result = modules[k](*given)
                require_type(result, (tuple, list), "forward(boxes, scores)")
                if len(result) != 2:
                    msg = Message(
                        "Values that forward(boxes, scores) returned: {n}; two were expected.", n=len(result)
                    )
                    raise Wrong(msg, "Return the boxes first, then their scores.")
                for before, after, name in zip((boxes, scores), given, ("boxes", "scores"), strict=True):
                    if not torch.equal(before, after):
                        msg = Message("forward() changes its argument {name}.", name=name)
                        raise Wrong(msg, "The caller's tensors stay as they are; what is new is returned.")
                for name, tensor in zip(OUTPUTS, result, strict=True):
                    work.write_array(f"torch_{number}_{name}", tensor)
    for exporter in Exporter:
        options = axis_options(exporter, {"boxes": {0: "n"}, "scores": {0: "n"}})
        for k in exported_ks(exporter, list(modules)):
            example = tuple(map(torch.from_numpy, candidates(random, EXAMPLE)))
            name = f"{exporter.name.lower()}_{k}"
            exported_or_stopped(work, name, modules[k], example, exporter, output_names=OUTPUTS, **options)


def exported_ks(exporter: Exporter, ks: Sequence[int]) -> Sequence[int]:
    """Return the values of k whose modules an exporter exports."""
    return ks if exporter is Exporter.TORCHSCRIPT else ks[:1]  # torch.export needs ten times as long


def draw_questions(
    random: np.random.Generator, ks: Sequence[int]
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Draw candidates for each k, in turn."""
    for cases in zip_longest(*map(_cases, ks)):
        for k, case in zip(ks, cases, strict=True):
            if case is not None:
                boxes, scores = candidates(random, *case)
                yield k, torch.from_numpy(boxes), torch.from_numpy(scores)
