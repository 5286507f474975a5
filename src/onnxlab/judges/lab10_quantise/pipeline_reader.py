"""What is right in pipeline-reader, part by part."""

import numpy as np

from onnxlab.judges.lab10_quantise.int8 import relative_error, run_in_int8
from onnxlab.kit.exercise import Judges
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.work import Work
from onnxlab.labs.lab10_quantise.pipeline_reader import (
    MOST_BATCHES,
    PipelineQuestion,
    draw_picture,
    draw_questions,
)
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.runtime.refusals import short_reason
from onnxlab.runtime.session import open_session

_ALLOWED = (
    0.1  # relative error; with a right calibration 0.02 to 0.06, and for 1 network of 1,150 more than 0.1
)
_MORE = 1.2  # times the error with the day's own pictures, where that is large


def _other_pictures(random: np.random.Generator, question: PipelineQuestion) -> list[Array]:
    """Draw other pictures of the same day: dull ones, and as many that are like its bright one."""
    bright = max(question.pictures, key=np.max)
    at_the_rim = not bright[1:-1, 1:-1].any()  # then it stays there

    def moved() -> Array:
        if at_the_rim:
            return np.flip(bright, tuple(np.flatnonzero(random.integers(2, size=2)).tolist()))
        return np.roll(bright, random.integers(1, 8, size=2), axis=(0, 1))

    like_it = [(random.uniform(0.85, 1) * moved()).astype(np.uint8) for _ in range(6)]
    return [*like_it, *(draw_picture(random) for _ in range(6))]


def judge_batches(work: Work, random: np.random.Generator) -> None:
    """Require batches that the network accepts."""
    for number, question in enumerate(draw_questions(work.questions())):
        with question.as_case():
            _batches(work, number, question)


def judge_numbers(work: Work, random: np.random.Generator) -> None:
    """Require that the network's numbers in 8 bits are near those in float32."""
    for number, question in enumerate(draw_questions(work.questions())):
        with question.as_case():
            batches = _batches(work, number, question)
            x = question.prepared(_other_pictures(random, question))
            (expected,) = open_session(question.model).run(None, {question.name: x})
            calibration = [{question.name: batch} for batch in batches]
            try:
                (got,) = run_in_int8(question.model, calibration, {question.name: x})
            except Exception as error:  # the runtime and its tool raise many kinds
                msg = Message(
                    "{question.where}: quantize_static fails with these batches: {reason}",
                    question=question,
                    reason=short_reason(error),
                )
                raise Wrong(msg, question.look_at) from None
            lost = relative_error(expected, got)
            if not (lost <= _ALLOWED or lost <= _MORE * _lost_at_best(question, x, expected)):
                held, right, dull = map(
                    _colours,
                    (
                        batches,
                        [question.prepared(question.pictures)],
                        [question.prepared([draw_picture(random) for _ in range(6)])],
                    ),
                )
                ranges = [
                    Message.compose(
                        "; ",
                        [Message("{low:.3g} to {high:.3g}", low=low, high=high) for low, _, high in channels],
                    )
                    for channels in (right, held)
                ]
                difference = Difference(
                    Message("each colour of the day's pictures, and of your batches"), *ranges
                )
                msg = Message(
                    "{question.where}: calibrated with your batches, the int8 network's outputs are off by "
                    "{lost:.0%}; at most {allowed:.0%} is allowed.",
                    question=question,
                    lost=lost,
                    allowed=_ALLOWED,
                )
                look_at = question.look_at
                if np.allclose(held[::-1], right, rtol=1e-3) and not np.allclose(held, right, rtol=1e-3):
                    look_at = "Your batches hold the colours in another order. Where is it changed?"
                elif np.allclose(held[:, ::2], dull[:, ::2], atol=0.15 * np.ptp(dull)):
                    look_at = "One picture of the day has a larger range than all others. Which did you use?"
                raise Wrong(msg, look_at, difference=difference)


def _lost_at_best(question: PipelineQuestion, x: Array, expected: Array) -> float:
    """Return the error with the day's own pictures as batches: 8 bits are few for some networks."""
    calibration = [{question.name: question.prepared(question.pictures)}]
    (got,) = run_in_int8(question.model, calibration, {question.name: x})
    return relative_error(expected, got)


def _colours(batches: list[Array]) -> Array:
    """Return, for each colour, the smallest number, the mean and the largest one."""
    colours = np.concatenate([np.moveaxis(batch, 1, 0).reshape(3, -1) for batch in batches], 1)
    return np.stack([colours.min(1), colours.mean(1), colours.max(1)], 1)


def _batches(work: Work, number: int, question: PipelineQuestion) -> list[Array]:
    """Return a reader's batches, and require that the network accepts them."""
    written = work.json(f"names_{number}")
    if not (isinstance(written, list) and len(written) == 2 and isinstance(written[1], int)):
        raise Wrong("{question.where}: the batches cannot be read.", question=question)
    names, count = written
    if names != [question.name]:
        difference = Difference(Message("names in the batches"), question.name, str(names)[:80])
        msg = Message(
            "{question.where}: the batches are not named as the network's input.", question=question
        )
        raise Wrong(msg, "What is `network.graph.input[0].name`?", difference=difference)
    batches = [work.array(f"batches_{number}_{part}") for part in range(min(count, MOST_BATCHES))]
    for batch in batches:
        if batch.dtype != np.float32 or batch.ndim != 4 or batch.shape[1] != 3 or not batch.size:
            layout = "float32[n, 3, h, w]"
            difference = Difference(Message("a batch"), layout, f"{batch.dtype}{list(batch.shape)}")
            msg = Message("{question.where}: the network does not accept such a batch.", question=question)
            raise Wrong(msg, "What does the pipeline give? Compare type and shape.", difference=difference)
    return batches


JUDGES = Judges((judge_batches, judge_numbers))
