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

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import zip_longest

import numpy as np
import onnx
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.labs.kit.exercise import Answers, Judges
from onnxlab.labs.kit.exporting import axis_options, exported_or_stopped, of_both_exporters, require_type
from onnxlab.labs.kit.judging import (
    beside,
    evidence,
    expected_model,
    number_texts,
    require_dynamic,
    require_exported,
    require_input_read,
    require_valid,
)
from onnxlab.labs.kit.outcome import Difference, Wrong, trying
from onnxlab.labs.kit.work import Work
from onnxlab.model.distance import Array
from onnxlab.runtime.refusals import short_reason
from onnxlab.runtime.session import open_session

__all__ = ["JUDGES", "produce"]

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


def _ks(random: np.random.Generator) -> list[int]:
    """Draw numbers of candidates to keep: less than the example has, more, and one."""
    return [int(random.integers(4, 9)), int(random.integers(120, 400)), 1]


def _candidates(random: np.random.Generator, count: int, kind: str = "any") -> tuple[Array, Array]:
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
    return [*_enough(k), *_fewer(k), (0, "any")]


def _enough(k: int) -> list[tuple[int, str]]:
    sizes = [(_EXAMPLE, "any"), (k, "equal"), (k + 1, "neighbours"), (2 * k, "equal"), (2 * k, "infinite")]
    return [(count, kind) for count, kind in sizes if count >= k] + [(12000, "any"), (k + 3, "all -inf")]


def _fewer(k: int) -> list[tuple[int, str]]:
    sizes = ((k - 1, "any"), (k - 1, "infinite"), (2, "all -inf"), (1, "infinite"), (1, "any"))
    return [(count, kind) for count, kind in sizes if 0 < count < k]


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Run the learner's modules for several numbers of candidates; export them with both exporters."""
    modules = {}
    for k in _ks(random):
        with trying(f"k = {k}", k=k):
            modules[k] = answers["BestCandidates"](k)
            require_type(modules[k], torch.nn.Module, "BestCandidates(k)")
    with torch.no_grad():
        for number, (k, boxes, scores) in enumerate(_questions(random, list(modules))):
            with trying(f"k = {k} and {len(scores)} candidates", k=k, boxes=boxes, scores=scores):
                given = boxes.clone(), scores.clone()
                result = modules[k](*given)
                require_type(result, (tuple, list), "forward(boxes, scores)")
                if len(result) != 2:
                    msg = f"forward(boxes, scores) returned {len(result)} values; two were expected."
                    raise Wrong(msg, "Return the boxes first, then their scores.")
                for before, after, name in zip((boxes, scores), given, ("boxes", "scores"), strict=True):
                    if not torch.equal(before, after):
                        msg = f"forward() changes its argument {name}."
                        raise Wrong(msg, "The caller's tensors stay as they are; what is new is returned.")
                for name, tensor in zip(_OUTPUTS, result, strict=True):
                    work.write_array(f"torch_{number}_{name}", tensor)
    for exporter in Exporter:
        options = axis_options(exporter, {"boxes": {0: "n"}, "scores": {0: "n"}})
        for k in _exported_ks(exporter, list(modules)):
            example = tuple(map(torch.from_numpy, _candidates(random, _EXAMPLE)))
            name = f"{exporter.name.lower()}_{k}"
            exported_or_stopped(work, name, modules[k], example, exporter, output_names=_OUTPUTS, **options)


def _exported_ks(exporter: Exporter, ks: Sequence[int]) -> Sequence[int]:
    return ks if exporter is Exporter.TORCHSCRIPT else ks[:1]  # torch.export needs ten times as long


def _questions(
    random: np.random.Generator, ks: Sequence[int]
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Draw candidates for each k, in turn."""
    for cases in zip_longest(*map(_cases, ks)):
        for k, case in zip(ks, cases, strict=True):
            if case is not None:
                boxes, scores = _candidates(random, *case)
                yield k, torch.from_numpy(boxes), torch.from_numpy(scores)


def judge_torch(work: Work, random: np.random.Generator) -> None:
    """Require the right outputs in PyTorch."""
    questions = work.questions()
    ks = _ks(questions)
    for number, (k, boxes, scores) in enumerate(_questions(questions, ks)):
        with trying(f"k = {k} and {len(scores)} candidates", k=k, boxes=boxes, scores=scores):
            outputs = [work.array(f"torch_{number}_{name}") for name in _OUTPUTS]
            look_at = "Which candidates have the highest scores, and which box belongs to each?"
            _require_best(k, boxes.numpy(), scores.numpy(), outputs, "In PyTorch, ", look_at)


def _require_best(
    k: int, boxes: Array, scores: Array, outputs: Sequence[Array], where: str, look_at: str
) -> None:
    """Require the best candidates, best first; among equal scores in any order."""
    expected_scores = -np.sort(-scores)[:k]
    shapes = (len(expected_scores), 4), (len(expected_scores),)
    case = f"k = {k} and {len(scores)} candidates"
    for name, got, shape in zip(_OUTPUTS, outputs, shapes, strict=True):
        if got.shape != shape or got.dtype != np.float32:
            difference = Difference(
                f"{case}; {name}", f"float32{list(shape)}", f"{got.dtype}{list(got.shape)}"
            )
            msg = f"{where}{name} has another shape or type than it should."
            raise Wrong(
                msg, f"How many candidates are there to be returned? {look_at}", difference=difference
            )
    got_boxes, got_scores = outputs
    wrong_rows = np.flatnonzero(got_scores != expected_scores)
    if len(wrong_rows):
        row = int(wrong_rows[0])
        difference = Difference(f"{case}; score {row}", *number_texts(expected_scores[row], got_scores[row]))
        msg = f"{where}best_scores are not the highest scores, or not in order."
        raise Wrong(msg, look_at, difference=difference)
    eligible = scores >= expected_scores.min(initial=np.inf)
    left = Counter(map(_pair, boxes[eligible], scores[eligible]))
    for row, pair in enumerate(map(_pair, got_boxes, got_scores)):
        left[pair] -= 1
        if left[pair] < 0:
            own = boxes[np.flatnonzero(scores == expected_scores[row])]
            texts = [
                np.array2string(box, precision=8, floatmode="maxprec") for box in (own[0], got_boxes[row])
            ]
            expected = f"{texts[0]}{f', or one of {len(own) - 1} more' if len(own) > 1 else ''}"
            msg = f"{where}a box does not belong to its score, or is returned twice."
            number = f"{expected_scores[row]:.6g}"
            difference = Difference(f"{case}; box {row}, whose score is {number}", expected, texts[1])
            raise Wrong(msg, look_at, difference=difference)


def _pair(box: Array, score: np.float32) -> tuple[bytes, float]:
    """Return a candidate as a key; -0.0 is equal to 0.0."""
    return box.tobytes(), float(score) + 0.0


def judge_graph(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
    """Require valid models for any number of candidates."""
    for _, model, case in _models(work, exporter):
        with case:
            require_valid(model)
            require_dynamic(model, {"boxes": [0], "scores": [0]})
            for name in ("boxes", "scores"):
                require_input_read(model, name)


def judge_enough(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
    """Require the right outputs for k candidates or more."""
    look_at = (
        "Are k rows left, the best first, with the boxes that belong to them? "
        f"The example had {_EXAMPLE} candidates: what Python decided then is decided for good."
    )
    _require_cases(exporter, work, random, _enough, look_at)


def judge_fewer(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
    """Require the right outputs for fewer than k candidates."""
    look_at = (
        f"Which number does the graph take for k? The example had {_EXAMPLE} candidates: "
        "what Python decided then is decided for good."
    )
    _require_cases(exporter, work, random, _fewer, look_at)


def judge_none(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
    """Require the right outputs for no candidate."""
    look_at = "What do the operators of your graph make of an axis of size 0?"
    _require_cases(exporter, work, random, lambda k: [(0, "any")], look_at)


def _require_cases(
    exporter: Exporter,
    work: Work,
    random: np.random.Generator,
    cases: Callable[[int], list[tuple[int, str]]],
    look_at: str,
) -> None:
    for k, model, case in _models(work, exporter):
        with case:
            require_valid(model)
            session = open_session(model)
            for count, kind in cases(k):
                boxes, scores = _candidates(random, count, kind)
                feeds = {"boxes": boxes, "scores": scores}
                with trying(f"k = {k} and {count} candidates", model=model, inputs=(boxes, scores)):
                    try:
                        outputs = list(map(np.asarray, session.run(None, feeds)))
                    except Exception as error:  # the runtime raises many kinds
                        difference = Difference(
                            f"k = {k} and {count} candidates", "boxes and scores", "an error"
                        )
                        msg = f"ONNX Runtime stops: {short_reason(error)}"
                        raise Wrong(msg, look_at, difference=difference, evidence=evidence(model)) from None
                    try:
                        if len(outputs) != len(_OUTPUTS):
                            msg = f"The model has {len(outputs)} outputs; two were expected."
                            raise Wrong(msg, look_at)
                        _require_best(k, boxes, scores, outputs, "", look_at)
                    except Wrong as wrong:
                        wrong.evidence = evidence(model)
                        raise


def _models(
    work: Work, exporter: Exporter
) -> Iterator[tuple[int, onnx.ModelProto, AbstractContextManager[None]]]:
    """Yield the models of an exporter, each with its k and the case to judge it in."""
    for k in _exported_ks(exporter, _ks(work.questions())):
        with _case(exporter, k):
            model = require_exported(work, f"{exporter.name.lower()}_{k}")
        yield k, model, _case(exporter, k)


@contextmanager
def _case(exporter: Exporter, k: int) -> Iterator[None]:
    """Attach k to what is raised, and show a right model for it beside the learner's."""
    with trying(f"the {exporter} export with k = {k}", k=k), beside(lambda: expected_model(_EXPECTED % k)):
        yield


JUDGES = Judges((judge_torch, *of_both_exporters(judge_graph, judge_enough, judge_fewer, judge_none)))
