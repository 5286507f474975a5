"""Exercise suppress: add non-maximum suppression to a detector's file, also where no box is left.

What is asked, and what is drawn for it:

- a detector with one input and two outputs: one class, some, twenty; its outputs are called boxes and scores
  and are read by other nodes; likely names, nodes without a name; scores of a Sigmoid, and any others;
- boxes by their corners, of any shape, with negative coordinates and a width of 0; scores; classes, int64;
- a score counts above `least`: scores at it and the next float32 on both sides, `least` with all its digits
  and below 0;
- a box is dropped above `iou`: overlaps at it and beside it, `iou` with all its digits;
- for a better one that is kept: a row of boxes of which each overlaps the next; by class: the same places for
  all classes; the first of two equal scores is the better one;
- at most `most` of each class: one, some, more than there are;
- ordered by class, the best first; many boxes (1500), one, none, and no candidate.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types

from onnxlab.kit.outcome import trying
from onnxlab.kit.rewriting import Question, Rewriting
from onnxlab.kit.samples import Sketch
from onnxlab.kit.variations import shuffle_nodes, unname_nodes
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.runtime.session import open_session


@dataclass(frozen=True, kw_only=True)
class DetectorQuestion(Question):
    """A detector and the thresholds of the suppression."""

    classes: int
    iou: float
    least: float
    most: int
    exact: bool  # whether boxes and scores are what the detector gets, so that they can be at a threshold

    @property
    def arguments(self) -> dict[str, Any]:
        """The detector and the thresholds."""
        return {"detector": self.model, "iou": self.iou, "least": self.least, "most": self.most}

    def as_case(self) -> AbstractContextManager[None]:
        """Attach this case to whatever is raised in the block."""
        return trying(self.where.lower(), **self.arguments)

    @cached_property
    def session(self) -> ort.InferenceSession:
        """A session of the detector."""
        return open_session(self.model)

    def detect(self, raw: Array) -> tuple[Array, Array]:
        """Return boxes and scores of the detector."""
        boxes, scores = self.session.run(None, {self.name: raw})
        return np.asarray(boxes), np.asarray(scores)


# Names that an answer may give to its own values; the first two are those of the detector's outputs.
_LIKELY_NAMES = (
    "boxes", "scores", "classes", "found", "sure", "chosen", "candidates", "by_class", "certain", "rows",
    "most", "iou", "least", "zero", "one", "two", "half", "kept", "corners", "places", "index", "low", "high",
)  # fmt: skip


def _questions(random: np.random.Generator) -> Iterator[DetectorQuestion]:
    """Draw detectors and their thresholds."""
    some, many = int(random.integers(2, 5)), 20
    for classes, exact, most, least, overlaps in (
        (1, False, int(random.integers(2, 5)), random.uniform(0.15, 0.3), (0.25, 0.4)),
        (some, False, int(random.integers(2, 5)), random.uniform(0.15, 0.3), (0.6, 0.75)),
        (1, True, 2000, _digits(random, 0.15, 0.3), (0.05, 0.4)),
        (many, True, 1, _digits(random, -1.5, -0.5), (0.4, 0.6)),
        (2, True, 3, _digits(random, 0.1, 0.9), (0.6, 0.8)),
    ):
        detector = _detector(Sketch(random), classes, exact=exact)
        if classes == some:
            _rename(random, detector)
        if classes > 1:
            unname_nodes(random, detector)
            shuffle_nodes(random, detector)
        iou = _exact_overlap(random, *overlaps) if exact else float(np.float32(random.uniform(*overlaps)))
        where = (
            Message("A detector with {classes} classes", classes=classes)
            if classes > 1
            else Message("A detector with one class")
        )
        yield DetectorQuestion(
            where, detector, classes=classes, iou=iou, least=float(np.float32(least)), most=most, exact=exact
        )


def _digits(random: np.random.Generator, low: float, high: float) -> float:
    """Draw a float32 that has to be written with all its digits."""
    while True:
        number = np.float32(random.uniform(low, high))
        if all(np.float32(form % number) != number for form in ("%.6f", "%.7f", "%.6g", "%.7g")):
            return float(number)


FINE = 2**20  # overlaps are drawn as multiples of its inverse


def _exact_overlap(random: np.random.Generator, low: float, high: float) -> float:
    """Draw an overlap that two boxes can have exactly, and that fewer digits move past a box."""
    while True:
        part = 2 * int(FINE * random.uniform(low, high) / 2) + 1
        iou, next_one = part / FINE, (part + 1) / FINE
        if not any(iou < round(iou, digits) < next_one for digits in range(1, 7)):
            return iou


def _detector(s: Sketch, classes: int, *, exact: bool) -> onnx.ModelProto:
    """Draw the last nodes of a detector: from rows of numbers to boxes (centre, size) and scores."""
    x = s.name()
    numbers, logits = s.split("Split", x, s.weight(np.array([4, classes])), results=2, axis=1)
    factor = 0.25 if exact else s.random.uniform(5, 20)
    boxes = s.add("Mul", numbers, s.weight(np.full(4, factor)))
    scores = s.add("Identity" if exact else "Sigmoid", logits)
    for name in (boxes, scores):  # others read them as well
        s.add("Shape", name)
    return s.model({x: ("n", 4 + classes)}, {boxes: ("n", 4), scores: ("n", classes)})


def _rename(random: np.random.Generator, model: onnx.ModelProto) -> None:
    """Give a detector's outputs and other values likely names; its input keeps the one it has."""
    graph = model.graph
    ends = [value.name for value in graph.output]
    inner = {name for node in graph.node for name in (*node.input, *node.output)}
    others = sorted(inner - {*ends, graph.input[0].name})
    mapping = dict(zip([*ends, *random.permutation(others).tolist()], _LIKELY_NAMES, strict=False))
    for node in graph.node:
        node.input[:] = [mapping.get(name, name) for name in node.input]
        node.output[:] = [mapping.get(name, name) for name in node.output]
    for value in (*graph.output, *graph.initializer):
        value.name = mapping[value.name]


ASKS = Rewriting("suppress", "suppressed", _questions)

produce = ASKS.produce
