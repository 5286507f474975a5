"""What is right in to-global-indices, part by part."""

import numpy as np

from onnxlab.kit.exercise import Judges
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.work import Work
from onnxlab.labs.lab07_pooling_indices.to_global_indices import conversion_case, draw_indices
from onnxlab.message import Message
from onnxlab.model.distance import Array

_LARGE = 20  # pixels of a side; the pictures that are really pooled have fewer


def judge_global(work: Work, random: np.random.Generator) -> None:
    """Require ONNX Runtime's indices, made from torch's."""
    for number, indices in enumerate(draw_indices(work.questions())):
        with conversion_case("to_global_indices", indices.torch, indices.shape):
            _require(work, "to_global_indices", number, indices.shape, indices.torch, indices.runtime)


def judge_channel(work: Work, random: np.random.Generator) -> None:
    """Require torch's indices, made from ONNX Runtime's."""
    for number, indices in enumerate(draw_indices(work.questions())):
        with conversion_case("to_channel_indices", indices.runtime, indices.shape):
            _require(work, "to_channel_indices", number, indices.shape, indices.runtime, indices.torch)


def _require(work: Work, name: str, number: int, shape: tuple[int, ...], answer: Array, right: Array) -> None:
    """Require the indices that an answer should have made of the given ones."""
    got = work.array(f"{name}_{number}")
    where = Message("pictures of shape {shape}", shape=list(shape))
    if got.shape != right.shape:
        difference = Difference(
            where,
            Message("shape {shape}", shape=list(right.shape)),
            Message("shape {shape}", shape=list(got.shape)),
        )
        msg = Message("{name}() changed the shape of the indices.", name=name)
        look_at = "The answer has one number for each number given."
    elif got.dtype != right.dtype:
        difference = Difference(where, str(right.dtype), str(got.dtype))
        msg = Message("{name}() changed the type of the indices.", name=name)
        look_at = "MaxUnpool accepts only int64."
    elif len(mismatches := np.argwhere(got != right)):
        place = tuple(map(int, mismatches[0]))
        text = Message(
            "{answer} at picture {place}, channel {place2}, of {where}",
            answer=answer[place],
            place=place[0],
            place2=place[1],
            where=where,
        )
        difference = Difference(text, str(right[place]), str(got[place]))
        msg = Message("{name}() points to the wrong element.", name=name)
        look_at = (
            "Write down, for two channels of 3 x 3 pixels, which numbers each way of counting gives to them."
        )
        if max(shape[2:]) >= _LARGE:
            largest = f"{int(max(right.max(), answer.max())):,}"
            look_at = Message(
                "Here numbers go up to {most}. Is that a whole number of the types on the way?", most=largest
            )
    else:
        return
    raise Wrong(msg, look_at, difference=difference)


JUDGES = Judges((judge_global, judge_channel))
