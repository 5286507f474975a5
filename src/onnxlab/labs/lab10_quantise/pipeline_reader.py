"""Exercise pipeline-reader: calibrate a network with pictures prepared by its own pipeline.

What the statement says, and what is drawn to reach it:

- Batches come from the pipeline that is given: five pipelines with other names, steps and numbers.
- Every picture counts: in each question one picture alone has the day's largest range; it is the first, the
  last or one between, at an even or an odd place, and their number is even or odd; it is light on half of
  its pixels, or at its rim alone.
- The colours keep their order: one network weighs red most, of which the pictures have most.
- A batch is a dict of the network's input, whose name is drawn, and a float32 array [n, 3, h, w].
- Batches may be of any size, and as many as 1,000; `get_next()` may fill the same array again.
- None stands at the end.
- Readers do not disturb each other: two are made before either is read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import parser
from onnxruntime.quantization import CalibrationDataReader  # type: ignore[import-untyped]  # ships no types

from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import require_type
from onnxlab.kit.outcome import Wrong
from onnxlab.kit.rewriting import Question
from onnxlab.kit.samples import Sketch
from onnxlab.kit.work import Work
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.runtime.session import open_session

MOST_BATCHES = 1000
_PREPARE = """<ir_version: 10, opset_import: ["" : 20]>
prepare (uint8[h, w, 3] %(photo)s) => (float[1, 3, h, w] ready)
<int64[1] front = {0}, int64[3] backwards = {2, 1, 0}, float[3] %(a)s = {%(mean)s},
 float[3] %(b)s = {%(spread)s}> {
    f = Cast <to = 1> (%(photo)s)
    %(steps)s
    t = Transpose <perm = [2, 0, 1]> (d)
    ready = Unsqueeze (t, front)
}"""
_STANDARDISED = "s = Sub (f, %(a)s) d = Div (s, %(b)s)"


@dataclass(frozen=True)
class _Kind:
    """A kind of pipeline, and where among the day's pictures the one is that no other replaces.

    Attributes:
        where: What the pipeline is an example of.
        look_at: Where to look if the numbers are off.
        steps: Its nodes, from f to d.
        mean: The first three numbers of the pipeline, one for each colour.
        spread: The second three.
        place: The place of the one picture, as a share of the day: 0 for the first, 1 for the last.
        odd: Whether the place is made odd; None for the first and the last.
        red_at_the_rim: Whether the network weighs red most, and the one picture is light at its rim only.
    """

    where: str
    look_at: str
    steps: str
    mean: str
    spread: str
    place: float
    odd: bool | None = None
    red_at_the_rim: bool = False


_KINDS = (
    _Kind(Message("Pixels less their mean, by their spread"),
        "Compare the smallest and the largest number of your batches with those that the pipeline makes.",
        _STANDARDISED, "110, 120, 130", "50, 45, 40", 1),
    _Kind(Message("Pixels as they are, from 0 to 255"),
        "The pipeline is another one here. Do your batches come from it?", _STANDARDISED, "0, 0, 0",
        "1, 1, 1", 0.4, odd=True, red_at_the_rim=True),
    _Kind(Message("Blue before red"),
        "Which colour does the network get first, and which do your batches have there?",
        "g = Gather <axis = 2> (f, backwards) s = Sub (g, %(a)s) d = Div (s, %(b)s)", "160, 100, 30",
        "30, 40, 30", 0.6, odd=False),
    _Kind(Message("Pixels by a factor, to a power"),
        "The pipeline is another one here. Do your batches come from it?",
        "s = Div (f, %(b)s) d = Pow (s, %(a)s)", "1.5, 2, 1.2", "60, 70, 50", 0),
    _Kind(Message("The picture's own mean is taken away"),
        "The pipeline is another one here. Do your batches come from it?",
        "m = ReduceMean <keepdims = 1> (f) c = Sub (f, m) s = Add (c, %(a)s) d = Div (s, %(b)s)", "3, -2, 0",
        "40, 40, 40", 0.2, odd=True),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PipelineQuestion(Question):
    """A pipeline, a network and a day's pictures."""

    pipeline: onnx.ModelProto
    pictures: list[Array]

    @property
    def arguments(self) -> dict[str, Any]:
        """The pipeline, the network that gets its output, and a day's pictures."""
        return {"pipeline": self.pipeline, "network": self.model, "pictures": self.pictures}

    def prepared(self, pictures: list[Array]) -> Array:
        """Return what the pipeline makes of pictures, in one batch."""
        session, name = open_session(self.pipeline), self.pipeline.graph.input[0].name
        return np.concatenate([session.run(None, {name: picture})[0] for picture in pictures])


def draw_questions(random: np.random.Generator) -> Iterator[PipelineQuestion]:
    """Draw a pipeline, a network and a day's pictures of each kind."""
    for number, kind in enumerate(_KINDS):
        sketch = Sketch(random)
        names = {name: sketch.name() for name in ("photo", "a", "b")}
        numbers = {"mean": kind.mean, "spread": kind.spread, "steps": kind.steps % names}
        pipeline = parser.parse_model(_PREPARE % (names | numbers))
        count = 24 + 2 * int(random.integers(6)) + number % 2
        if kind.place == 1:  # more than any of the others
            count += 12
        pictures = [draw_picture(random) for _ in range(count)]
        place = round(kind.place * (len(pictures) - 1))
        if kind.odd is not None:
            place += place % 2 != kind.odd
        pictures[place] = draw_picture(random, bright=True, rim=kind.red_at_the_rim)
        network = _network(random, red=kind.red_at_the_rim)
        yield PipelineQuestion(kind.where, network, kind.look_at, pipeline=pipeline, pictures=pictures)


def _network(random: np.random.Generator, *, red: bool) -> onnx.ModelProto:
    """Draw three Convs whose outputs are about as large as their inputs; the first may weigh red most."""
    sketch, channels = Sketch(random), (3, 8, 8, 4)
    x = value = sketch.name()
    for number, (inputs, outputs) in enumerate(pairwise(channels)):
        values = sketch.normal(outputs, inputs, 3, 3) * np.sqrt(2 / (9 * inputs))
        if red and not number:
            values *= np.array([2, 0.2, 0.1]).reshape(3, 1, 1)
        weight = sketch.weight(values)
        bias = sketch.weight(0.1 * sketch.normal(outputs))
        value = sketch.add("Relu", value) if number else value
        value = sketch.add("Conv", value, weight, bias, kernel_shape=[3, 3], pads=[1] * 4)
    return sketch.model({x: ("n", 3, "h", "w")}, {value: ("n", 4, "h", "w")})


def draw_picture(random: np.random.Generator, *, bright: bool = False, rim: bool = False) -> Array:
    """Draw a picture, more red than blue: a dull one, or one from black to full light, at its rim alone."""
    if not bright:
        low, high = [35, 20, 5], [110, 85, 30]
        return random.uniform(low, high, size=(8, 10, 3)).astype(np.uint8)
    light = random.permutation(np.arange(80) % 2).reshape(8, 10, 1)  # on half of the pixels
    if rim:
        light = np.ones((8, 10, 1))
        light[1:-1, 1:-1] = 0
    return (light * random.uniform([230, 190, 60], [255, 220, 80], size=(8, 10, 3))).astype(np.uint8)


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Read all batches of the learner's readers, each made before the one in front of it is read."""
    questions = list(enumerate(draw_questions(random)))
    readers: list[Any] = []
    for number, question in [*questions, (len(questions), None)]:
        if question is not None:
            with question.as_case():
                readers.append(answers["PipelineReader"](*question.copies()))
                require_type(readers[-1], CalibrationDataReader, "PipelineReader()")
        if number:
            with questions[number - 1][1].as_case():
                _write_batches(work, number - 1, readers[number - 1])


def _write_batches(work: Work, number: int, reader: CalibrationDataReader) -> None:
    """Write the names in all batches of a reader, and the batches themselves, those of one shape together."""
    names: set[str] = set()
    by_kind: dict[str, list[Array]] = {}
    for _ in range(MOST_BATCHES):
        batch = reader.get_next()
        if batch is None:
            break
        require_type(batch, dict, "get_next()")
        names |= {str(name) for name in batch}
        for array in batch.values():
            require_type(array, np.ndarray, "A value in the dict of get_next()")
            # A copy: the reader may fill the same array again.
            by_kind.setdefault(f"{array.dtype}{array.shape[1:]}", []).append(np.array(array, ndmin=1))
    else:
        msg = Message(
            "get_next() still returns batches after {most_batches}; that is more than the check reads.",
            most_batches=MOST_BATCHES,
        )
        raise Wrong(msg, "Does get_next() return None at the end of the pictures?")
    if not by_kind:
        nothing = "The first get_next() returned None: there is nothing to calibrate with."
        raise Wrong(nothing, "quantize_static would say `No data is collected`.")
    for kind, arrays in by_kind.items():
        if arrays[0].dtype.kind not in "biufc":
            msg = Message(
                "get_next() returns arrays of {dtype}; float32 was expected.", dtype=arrays[0].dtype
            )
            raise Wrong(msg, "What does the pipeline give? Compare type and shape.")
        work.write_array(f"batches_{number}_{list(by_kind).index(kind)}", np.concatenate(arrays))
    work.write_json(f"names_{number}", [sorted(names), len(by_kind)])
