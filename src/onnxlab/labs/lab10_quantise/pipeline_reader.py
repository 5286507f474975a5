"""Exercise pipeline-reader: calibrate a network with pictures prepared by its own pipeline."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import parser
from onnxruntime.quantization import CalibrationDataReader  # type: ignore[import-untyped]  # ships no types

from onnxlab.labs.kit.exercise import Answers, Exercise, Part
from onnxlab.labs.kit.exporting import require_type
from onnxlab.labs.kit.outcome import Difference, Wrong
from onnxlab.labs.kit.rewriting import Question
from onnxlab.labs.kit.samples import Sketch
from onnxlab.labs.kit.work import Work
from onnxlab.labs.lab10_quantise.int8 import relative_error, run_in_int8
from onnxlab.model.distance import Array
from onnxlab.runtime.session import open_session

__all__ = ["EXERCISE"]

_MOST_BATCHES = 500
_ALLOWED = 0.1  # relative error; 0.02 to 0.06 with a right calibration
_PREPARE = """<ir_version: 10, opset_import: ["" : 20]>
prepare (uint8[h, w, 3] photo) => (float[1, 3, h, w] ready)
<int64[1] front = {0}, int64[3] backwards = {2, 1, 0}, float[3] mean = {%s}, float[3] spread = {%s}> {
    f = Cast <to = 1> (photo)
    %s
    t = Transpose <perm = [2, 0, 1]> (d)
    ready = Unsqueeze (t, front)
}"""
_STANDARDISED = "s = Sub (f, mean) d = Div (s, spread)"
# What the pipeline is an example of, its steps, mean and spread of the three colours, and where to look.
_KINDS = (
    (
        "Pixels less their mean, by their spread",
        _STANDARDISED,
        ("110, 120, 130", "50, 45, 40"),
        "Compare the smallest and the largest number of your batches with those that the pipeline makes.",
    ),
    (
        "Pixels as they are, from 0 to 255",
        _STANDARDISED,
        ("0, 0, 0", "1, 1, 1"),
        "The pipeline is another one here. Do your batches come from it?",
    ),
    (
        "Blue before red",
        "g = Gather <axis = 2> (f, backwards) s = Sub (g, mean) d = Div (s, spread)",
        ("160, 100, 30", "30, 40, 30"),
        "Which colour does the network get first, and which do your batches have there?",
    ),
)


@dataclass(frozen=True, kw_only=True)
class _Question(Question):
    pipeline: onnx.ModelProto
    pictures: list[Array]

    @property
    def arguments(self) -> dict[str, Any]:
        """The pipeline, the network that gets its output, and a day's pictures."""
        return {"pipeline": self.pipeline, "network": self.model, "pictures": self.pictures}

    def prepared(self, pictures: list[Array]) -> Array:
        """Return what the pipeline makes of pictures, in one batch."""
        session = open_session(self.pipeline)
        return np.concatenate([session.run(None, {"photo": picture})[0] for picture in pictures])


def _questions(random: np.random.Generator) -> Iterator[_Question]:
    """Draw a pipeline, a network and a day's pictures of each kind."""
    for where, steps, numbers, look_at in _KINDS:
        pipeline, network = parser.parse_model(_PREPARE % (*numbers, steps)), _network(random)
        yield _Question(where, network, look_at, pipeline=pipeline, pictures=_pictures(random, 30))


def _network(random: np.random.Generator) -> onnx.ModelProto:
    """Draw three Convs whose outputs are about as large as their inputs."""
    sketch, channels = Sketch(random), (3, 8, 8, 4)
    x = value = sketch.name()
    for number, (inputs, outputs) in enumerate(pairwise(channels)):
        weight = sketch.weight(sketch.normal(outputs, inputs, 3, 3) * np.sqrt(2 / (9 * inputs)))
        bias = sketch.weight(0.1 * sketch.normal(outputs))
        value = sketch.add("Relu", value) if number else value
        value = sketch.add("Conv", value, weight, bias, kernel_shape=[3, 3], pads=[1] * 4)
    return sketch.model({x: ("n", 3, "h", "w")}, {value: ("n", 4, "h", "w")})


def _pictures(random: np.random.Generator, count: int) -> list[Array]:
    """Draw a day's pictures: first dark ones, then brighter ones; more red than blue."""
    brightnesses = np.sort(random.uniform(0.1, 1.0, size=count))
    return [
        (brightness * random.uniform([60, 30, 0], [255, 200, 70], size=(8, 8, 3))).astype(np.uint8)
        for brightness in brightnesses
    ]


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Read all batches of the learner's reader, and keep them."""
    for number, question in enumerate(_questions(random)):
        with question.as_case():
            reader = answers["PipelineReader"](*question.copies())
            require_type(reader, CalibrationDataReader, "PipelineReader()")
            names, arrays = _all_batches(reader)
            work.write_json(f"names_{number}", names)
            work.write_array(f"batches_{number}", arrays)


def _all_batches(reader: CalibrationDataReader) -> tuple[list[str], Array]:
    """Return the names in all batches, and all batches as one array."""
    names: set[str] = set()
    arrays: list[Array] = []
    for _ in range(_MOST_BATCHES):
        batch = reader.get_next()
        if batch is None:
            break
        require_type(batch, dict, "get_next()")
        names |= {str(name) for name in batch}
        arrays += [np.asarray(array) for array in batch.values()]
    else:
        msg = (
            f"get_next() still gives batches after {_MOST_BATCHES}; "
            "quantize_static would never come to an end."
        )
        raise Wrong(msg, "At the end of the pictures, get_next() returns None.")
    if not arrays:
        msg = "The first get_next() returned None: there is nothing to calibrate with."
        raise Wrong(msg, "quantize_static would say `No data is collected`.")
    if len({(array.shape[1:], array.dtype) for array in arrays}) > 1 or not arrays[0].ndim:
        msg = f"The batches are not of one kind: {arrays[0].dtype}{list(arrays[0].shape)} and others."
        raise Wrong(msg, "Each batch has four axes, and the same type.")
    return sorted(names), np.concatenate(arrays)


def judge_batches(work: Work, random: np.random.Generator) -> None:
    """Require batches that the network takes."""
    for number, question in enumerate(_questions(work.questions())):
        with question.as_case():
            _batch(work, number, question)


def judge_numbers(work: Work, random: np.random.Generator) -> None:
    """Require that the network's numbers in 8 bits are near those in float32."""
    for number, question in enumerate(_questions(work.questions())):
        with question.as_case():
            batch = _batch(work, number, question)
            x = question.prepared(_pictures(random, 12))
            (expected,) = open_session(question.model).run(None, {question.name: x})
            try:
                (got,) = run_in_int8(question.model, [{question.name: batch}], {question.name: x})
            except Exception as error:  # the runtime and its tool raise many kinds
                msg = f"{question.where}: quantize_static fails with these batches: {str(error)[:200]}"
                raise Wrong(msg, question.look_at) from None
            lost = relative_error(expected, got)
            if not lost <= _ALLOWED:
                ranges = [f"from {array.min():.3g} to {array.max():.3g}" for array in (x, batch)]
                difference = Difference("what the network gets, and what your batches hold", *ranges)
                msg = (
                    f"{question.where}: calibrated with your batches, the int8 network's numbers are off by "
                    f"{lost:.0%}; at most {_ALLOWED:.0%} is allowed."
                )
                look_at = question.look_at
                if abs(batch.min() - x.min()) < 0.1 and batch.max() < 0.8 * x.max():
                    look_at = "The pictures are of a whole day. Which of them did you use?"
                raise Wrong(msg, look_at, difference=difference)


def _batch(work: Work, number: int, question: _Question) -> Array:
    """Return a reader's batches as one array, and require that the network takes it."""
    names, batch = work.json(f"names_{number}"), work.array(f"batches_{number}")
    if names != [question.name]:
        difference = Difference("names in the batches", question.name, str(names)[:80])
        msg = f"{question.where}: the batches are not named as the network's input."
        raise Wrong(msg, "What is `network.graph.input[0].name`?", difference=difference)
    layout = "float32[n, 3, h, w]"
    if batch.dtype != np.float32 or batch.ndim != 4 or batch.shape[1] != 3 or not batch.size:
        difference = Difference("all batches together", layout, f"{batch.dtype}{list(batch.shape)}")
        msg = f"{question.where}: the network does not take such a batch."
        raise Wrong(msg, "What does the pipeline give? Compare type and shape.", difference=difference)
    return batch


EXERCISE = Exercise(
    order=1,
    id="pipeline-reader",
    title="Calibrate with what the network really gets",
    points=4,
    answers=("PipelineReader",),
    produce=produce,
    parts=(
        Part("a reader whose batches the network takes", judge_batches),
        Part("in 8 bits the numbers are nearly those of float32", judge_numbers),
    ),
    hints=(
        "Nobody says how the pictures are prepared, and nobody has to: the pipeline is there. Run it.",
        "`run(pipeline, picture)` gives a list with one array, which is a batch of one. get_next() returns "
        "`{name: array}` with the name of the network's input, and None when there is no picture left.",
        "In __init__: `self.name = network.graph.input[0].name` and "
        "`self.batches = iter([run(pipeline, picture)[0] for picture in pictures])`. In get_next: "
        "`batch = next(self.batches, None)`; return None if it is None, else `{self.name: batch}`.",
    ),
)
