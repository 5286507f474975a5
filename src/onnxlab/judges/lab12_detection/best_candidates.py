"""What is right in best-candidates, part by part."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import onnx

from onnxlab.exporters.export import Exporter
from onnxlab.kit.exercise import Judges
from onnxlab.kit.exporting import of_both_exporters
from onnxlab.kit.judging import (
    evidence,
    expected_model,
    expecting,
    number_texts,
    require_dynamic,
    require_exported,
    require_input_read,
    require_valid,
)
from onnxlab.kit.outcome import Difference, Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.labs.lab12_detection.best_candidates import (
    EXAMPLE,
    OUTPUTS,
    candidates,
    draw_ks,
    draw_questions,
    enough,
    exported_ks,
    fewer,
)
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.runtime.refusals import short_reason
from onnxlab.runtime.session import open_session

_EXPECTED = """<ir_version: 8, opset_import: ["" : 18]>
best (float[n, 4] boxes, float[n] scores) => (float[m, 4] best_boxes, float[m] best_scores)
<int64[1] most = {%d}>
{
    count = Shape (scores)
    k = Min (count, most)
    best_scores, places = TopK (scores, k)
    best_boxes = Gather (boxes, places)
}"""


def judge_torch(work: Work, random: np.random.Generator) -> None:
    """Require the right outputs in PyTorch."""
    questions = work.questions()
    ks = draw_ks(questions)
    for number, (k, boxes, scores) in enumerate(draw_questions(questions, ks)):
        case = Message("k = {k}, candidates: {count}", k=k, count=len(scores))
        with trying(case, k=k, boxes=boxes, scores=scores):
            outputs = [work.array(f"torch_{number}_{name}") for name in OUTPUTS]
            look_at = "Which candidates have the highest scores, and which box belongs to each?"
            _require_best(k, boxes.numpy(), scores.numpy(), outputs, Message("In PyTorch, "), look_at)


def _require_best(
    k: int, boxes: Array, scores: Array, outputs: Sequence[Array], where: str, look_at: str
) -> None:
    """Require the best candidates, best first; among equal scores in any order."""
    expected_scores = -np.sort(-scores)[:k]
    shapes = (len(expected_scores), 4), (len(expected_scores),)
    case = Message("k = {k}, candidates: {count}", k=k, count=len(scores))
    for name, got, shape in zip(OUTPUTS, outputs, shapes, strict=True):
        if got.shape != shape or got.dtype != np.float32:
            difference = Difference(
                Message.compose("; ", [case, name]),
                Message("float32{shape}", shape=list(shape)),
                f"{got.dtype}{list(got.shape)}",
            )
            msg = Message("{where}{name} has another shape or type than it should.", where=where, name=name)
            raise Wrong(
                msg,
                "How many candidates are there to be returned? {value}",
                difference=difference,
                value=look_at,
            )
    got_boxes, got_scores = outputs
    wrong_rows = np.flatnonzero(got_scores != expected_scores)
    if len(wrong_rows):
        row = int(wrong_rows[0])
        difference = Difference(
            Message("{case}; score {row}", case=case, row=row),
            *number_texts(expected_scores[row], got_scores[row]),
        )
        msg = Message("{where}best_scores are not the highest scores, or not in order.", where=where)
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
            expected = texts[0]
            if more := len(own) - 1:
                expected = Message("{box}, or one of {more} more", box=expected, more=more)
            msg = Message("{where}a box does not belong to its score, or is returned twice.", where=where)
            number = f"{expected_scores[row]:.6g}"
            difference = Difference(
                Message("{case}; box {row}, whose score is {number}", case=case, row=row, number=number),
                expected,
                texts[1],
            )
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
    look_at = Message(
        "Are k rows left, the best first, with the boxes that belong to them? "
        "The example had {example} candidates: what Python decided then is decided for good.",
        example=EXAMPLE,
    )
    _require_cases(exporter, work, random, enough, look_at)


def judge_fewer(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
    """Require the right outputs for fewer than k candidates."""
    look_at = Message(
        "Which number does the graph use for k? The example had {example} candidates: "
        "what Python decided then is decided for good.",
        example=EXAMPLE,
    )
    _require_cases(exporter, work, random, fewer, look_at)


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
                boxes, scores = candidates(random, count, kind)
                feeds = {"boxes": boxes, "scores": scores}
                name = Message("k = {k}, candidates: {count}", k=k, count=count)
                with trying(name, model=model, inputs=(boxes, scores)):
                    try:
                        outputs = list(map(np.asarray, session.run(None, feeds)))
                    except Exception as error:  # the runtime raises many kinds
                        difference = Difference(name, Message("boxes and scores"), Message("an error"))
                        msg = Message("ONNX Runtime stops: {reason}", reason=short_reason(error))
                        raise Wrong(msg, look_at, difference=difference, evidence=evidence(model)) from None
                    try:
                        if len(outputs) != len(OUTPUTS):
                            raise Wrong(
                                "Outputs of the model: {n}; two were expected.", look_at, n=len(outputs)
                            )
                        _require_best(k, boxes, scores, outputs, "", look_at)
                    except Wrong as wrong:
                        wrong.evidence = evidence(model)
                        raise


def _models(
    work: Work, exporter: Exporter
) -> Iterator[tuple[int, onnx.ModelProto, AbstractContextManager[None]]]:
    """Yield the models of an exporter, each with its k and the case to judge it in."""
    for k in exported_ks(exporter, draw_ks(work.questions())):
        with _case(exporter, k):
            model = require_exported(work, f"{exporter.name.lower()}_{k}")
        yield k, model, _case(exporter, k)


@contextmanager
def _case(exporter: Exporter, k: int) -> Iterator[None]:
    """Attach k to what is raised, and show a right model for it beside the learner's."""
    case = Message("the {exporter} export with k = {k}", exporter=exporter, k=k)
    with trying(case, k=k), expecting(lambda: expected_model(_EXPECTED % k)):
        yield


JUDGES = Judges((judge_torch, *of_both_exporters(judge_graph, judge_enough, judge_fewer, judge_none)))
