"""What is right in suppress, part by part."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import onnx
from onnx import compose, parser

from onnxlab.kit.judging import require_interface, require_same_numbers, require_valid, require_well_formed
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.rewriting import Rewritten, made_by
from onnxlab.labs.lab12_detection.suppress import ASKS, FINE, DetectorQuestion
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.runtime.session import open_session

_SCHEMA = "Which shapes and types does onnx.defs.get_schema('NonMaxSuppression') ask for?"
# Between a threshold and each overlap or score: neither rounding nor a threshold with two digits decides a
# scene that is not made for it. And by how much `iou` has to be higher to be seen where candidates overlap.
_MARGIN, _HIGHER = 6e-3, 0.1
_APART = 1e-5  # scores of two candidates
_SEVERAL = 3  # candidates for an object


@dataclass(frozen=True)
class _Scene:
    """What a detector finds in a picture: objects, with several candidates for each."""

    where: str
    objects: int
    candidates: int  # for each object
    look_at: str
    all_classes: bool = False  # whether every class has high scores at each object
    low_scores: bool = False  # whether all scores are below the threshold
    any_shape: bool = False  # whether boxes are wide, tall, large, small

    def raw(self, question: DetectorQuestion, random: np.random.Generator) -> Array:
        """Draw the rows that the detector gets, again and again until no rounding decides and `iou` does."""
        while True:
            count = self.objects * self.candidates
            # Objects stand apart, on a line; the candidates for one are moved and scaled a little.
            centres = np.repeat(np.arange(self.objects) * 2.0, self.candidates)[:, None] + [[0.0, 3.0]]
            sizes = np.full((count, 2), 1.5)
            boxes = np.concatenate([centres, sizes], 1)
            boxes *= random.uniform(0.97, 1.03, size=boxes.shape)
            if self.any_shape:
                boxes[:, 2:] = random.uniform(0.2, 3, size=(count, 2))
                boxes[:1, 2] = 0
                boxes[:, 1] -= 3
            moved = min(0.75, 0.8 * (1 - question.iou)) * (self.candidates > 1)
            boxes[:, :2] += random.uniform(-moved, moved, size=(count, 2))
            logits = random.uniform(-4, -2, size=(count, question.classes))
            if not self.low_scores:
                # With several candidates for an object, some of them are below the threshold.
                low, high = (-2, 3) if self.candidates > 1 else (0.5, 4)
                for row, number in enumerate(random.integers(question.classes, size=count)):
                    classes = slice(None) if self.all_classes else number
                    logits[row, classes] = random.uniform(low, high, size=logits[row, classes].shape)
            raw = np.concatenate([boxes, logits], 1).astype(np.float32)
            raw = raw[random.permutation(count)]
            if count > _FEW or (
                not _close_to_threshold(question, *question.detect(raw)) and self._reaches(question, raw)
            ):
                return raw

    def _reaches(self, question: DetectorQuestion, raw: Array) -> bool:
        """Whether more is left with a higher `iou`, where candidates overlap and `most` allows it."""
        if self.candidates < _SEVERAL or question.most <= self.objects:
            return True
        higher = replace(question, iou=question.iou + _HIGHER)
        return len(_suppressed(higher, raw)[0]) > len(_suppressed(question, raw)[0])


def _at_threshold(question: DetectorQuestion, random: np.random.Generator) -> Array:
    """Return rows apart from each other whose scores are the threshold, and its neighbours."""
    least = np.float32(question.least)
    scores = [np.nextafter(least, np.float32(np.inf)), least, np.nextafter(least, np.float32(-np.inf))]
    return _rows(question, _apart(3), np.repeat(scores, question.classes).reshape(3, -1))


def _apart(count: int) -> Array:
    """Return boxes that stand apart on a line."""
    boxes: Array = np.stack(
        [np.arange(count) * 8, np.full(count, -4), np.full(count, 4), np.full(count, 2)], 1
    )
    return boxes


def _overlapping(question: DetectorQuestion, random: np.random.Generator) -> Array:
    """Return pairs whose overlap is the threshold, and just above and below it."""
    part = round(question.iou * FINE)
    boxes = []
    for row, exact in enumerate((part, part + 1, part - 1)):
        width, moved = (FINE + exact) / 2, (FINE - exact) / 2
        boxes += [[left + width / 2, 8 * row, width, 4] for left in (0, moved)]
    scores = question.least + np.linspace(2, 1, 6)[:, None] + np.zeros(question.classes)
    return _rows(question, np.array(boxes), scores)


def _in_a_row(question: DetectorQuestion, random: np.random.Generator) -> Array:
    """Return three boxes: the second one overlaps the first and the third, which do not overlap as much."""
    width = 64 * (1 + question.iou)
    boxes = [[place * 0.75 * 64 * (1 - question.iou), 0, width, 16] for place in range(3)]
    scores = question.least + np.array([[3.0], [2.0], [1.0]]) + np.zeros(question.classes)
    return _rows(question, np.array(boxes), scores)


def _equal(question: DetectorQuestion, random: np.random.Generator) -> Array:
    """Return candidates with equal scores, at two places in turn."""
    boxes = np.concatenate([_apart(2)] * 3) + np.arange(6)[:, None] * [0.125, 0, 0, 0]
    return _rows(question, boxes, np.full((6, question.classes), question.least + 1))


def _rows(question: DetectorQuestion, boxes: Array, scores: Array) -> Array:
    """Return the rows for which a detector that is exact finds these boxes and scores."""
    rows: Array = np.concatenate([boxes * 4, scores], 1).astype(np.float32)
    return rows


def _close_to_threshold(question: DetectorQuestion, boxes: Array, scores: Array) -> bool:
    """Whether rounding could decide: an overlap or a score near its threshold, or two near scores."""
    overlaps = _overlaps(_corners(boxes))
    ordered = np.sort(scores, axis=0)
    return bool(
        (np.abs(overlaps - question.iou) < _MARGIN).any()
        or (np.abs(scores - question.least) < _MARGIN).any()
        or (np.diff(ordered, axis=0) < _APART).any()
    )


def _corners(boxes: Array) -> Array:
    """Turn boxes from centre and size into two corners."""
    middle, reach = boxes[:, :2], boxes[:, 2:] / 2
    corners: Array = np.concatenate([middle - reach, middle + reach], 1)
    return corners


def _overlaps(corners: Array) -> Array:
    """Return the intersection over the union, for each pair of boxes."""
    low = np.maximum(corners[:, None, :2], corners[None, :, :2])
    high = np.minimum(corners[:, None, 2:], corners[None, :, 2:])
    both = (high - low).clip(0).prod(-1)
    area = (corners[:, 2:] - corners[:, :2]).prod(-1)
    union = area[:, None] + area[None, :] - both
    overlaps: Array = np.divide(both, union, out=np.zeros_like(both), where=union > 0)
    return overlaps


def _suppressed(
    question: DetectorQuestion, raw: Array, to_corners: Callable[[Array], Array] = _corners
) -> list[Array]:
    """Return the boxes, scores and classes that are left, class by class, best first."""
    boxes, scores = question.detect(raw)
    corners = _corners(boxes)
    overlaps = _overlaps(to_corners(boxes))
    rows: list[tuple[int, int]] = []
    for number in range(question.classes):
        selected: list[int] = []
        for index in np.argsort(-scores[:, number], kind="stable").tolist():
            eligible = scores[index, number] > np.float32(question.least) and len(selected) < question.most
            if eligible and not (overlaps[index, selected] > question.iou).any():
                selected.append(index)
        rows += [(index, number) for index in selected]
    indices, classes = np.array(rows, np.int64).reshape(-1, 2).T
    return [corners[indices], scores[indices, classes], classes]


def _require_structure(model: onnx.ModelProto, question: DetectorQuestion) -> None:
    """Require a valid model with the outputs asked for."""
    require_interface(model, [question.name], ["boxes", "scores", "classes"], question.where)
    require_well_formed(model, question.where, _SCHEMA)
    require_valid(model)


def _thresholds_swapped(question: DetectorQuestion, raw: Array) -> list[Array]:
    return _suppressed(replace(question, iou=question.least, least=question.iou), raw)


def _sorted_corners(boxes: Array) -> Array:
    """Read boxes as two corners in any order, as the operator does."""
    corners: Array = np.concatenate(
        [np.fmin(boxes[:, :2], boxes[:, 2:]), np.fmax(boxes[:, :2], boxes[:, 2:])], 1
    )
    return corners


_FORMAT = "Which box format does your NonMaxSuppression expect, and which does it get?"
# What an answer with a mistake returns, and where to look for it.
_MISTAKES: tuple[tuple[Callable[[DetectorQuestion, Array], list[Array]], str], ...] = (
    (lambda question, raw: _suppressed(replace(question, most=0), raw),
        "Nothing is left at all. What is the third input if it is left out?"),
    (lambda question, raw: _suppressed(replace(question, most=10**6), raw),
        "How many boxes of each class may be returned?"),
    (lambda question, raw: _suppressed(replace(question, iou=0.0), raw),
        "Which overlap is allowed? What is the fourth input if it is left out?"),
    (lambda question, raw: _suppressed(replace(question, least=-1.0), raw),
        "Which scores count? What is the fifth input if it is left out?"),
    (_thresholds_swapped, "Which threshold is for scores, and which for overlaps?"),
    (lambda question, raw: _suppressed(question, raw, _sorted_corners), _FORMAT),
    (lambda question, raw: _suppressed(question, raw, lambda boxes: _corners(_corners(boxes))), _FORMAT),
)  # fmt: skip
_FEW = (
    100  # candidates: among more, some are always near a threshold, which only sessions that round differ in
)
_CROWD = "For a box that is missing, or too much, compute its overlap with the better ones of its class."
_CLASSES = "A box is only dropped for a better one of the same class."
_MANY = (
    _Scene(
        Message("One object, found once"), 1, 1, "One box is left. What does each of your nodes make of it?"
    ),
    _Scene(
        Message("Two objects apart, found once each"), 2, 1, "Nothing overlaps here. Which thresholds count?"
    ),
    _Scene(Message("One object, found four times"), 1, 4, _CROWD),
    _Scene(Message("Six objects, found three times each"), 6, 3, _CROWD),
    _Scene(Message("Boxes of any shape"), 4, 3, _CROWD, any_shape=True),
    _Scene(Message("All classes at the same places"), 2, 2, _CLASSES, all_classes=True),
    _Scene(
        Message("Many objects of each class"), 9, 1, "How many boxes of each class may be returned?", True
    ),
)
_CROWDED = _Scene(Message("1500 objects"), 1500, 1, "Do all candidates count, however many there are?")
# Scenes that only a detector without rounding can have: what is drawn, and where to look.
_EXACT: tuple[tuple[str, Callable[[DetectorQuestion, np.random.Generator], Array], str], ...] = (
    (
        Message("Scores at the threshold"),
        _at_threshold,
        "A score counts above `least`. Are all its digits in the file?",
    ),
    (
        Message("Overlaps at the threshold"),
        _overlapping,
        "Dropped is above `iou`. Are all its digits in the file?",
    ),
    (Message("Three boxes in a row"), _in_a_row, "A box that is dropped drops no other one."),
    (Message("Equal scores"), _equal, "Of two equal scores the first one is the better one."),
)
_NONE = (
    _Scene(
        Message("Only candidates below the threshold"),
        3,
        2,
        "Nothing is left: shapes begin with 0.",
        low_scores=True,
    ),
    _Scene(
        Message("No candidate at all"), 0, 1, "n is 0. Which of your nodes does not accept an empty axis?"
    ),
)


def _require_scenes(
    *scenes: _Scene, exact: bool
) -> Callable[[onnx.ModelProto, DetectorQuestion, np.random.Generator], None]:
    """Return the requirement of right boxes for these scenes, for `Rewriting.judge`."""

    def require(model: onnx.ModelProto, question: DetectorQuestion, random: np.random.Generator) -> None:
        compare = partial(require_same_numbers, model, session=open_session(model))
        drawn: list[tuple[str, Callable[[DetectorQuestion, np.random.Generator], Array], str]] = [
            (scene.where, scene.raw, scene.look_at) for scene in scenes
        ]
        if exact and question.exact:
            drawn += _EXACT
        if exact and question.most > _FEW:
            drawn.append((_CROWDED.where, _CROWDED.raw, _CROWDED.look_at))
        for scene, raw_of, look_at in drawn:
            raw = raw_of(question, random)
            where = Message.compose(". ", [question.where, scene])
            with trying(where, **question.arguments, rows=raw):
                _require_suppressed(compare, question, raw, where, look_at)

    return require


# Where to look if the right number of boxes is left, by the output whose numbers are wrong.
_OF_OUTPUTS = {
    "boxes": "Is each box that of its row: x and y of its centre less half its size, then plus half of it?",
    "scores": "Is each score the detector's, of this box and of this class?",
    "classes": "Which column of NonMaxSuppression is the class? Rows are ordered by class, the best first.",
}


def _require_suppressed(
    compare: Callable[..., None], question: DetectorQuestion, raw: Array, where: str, look_at: str
) -> None:
    feeds = {question.name: raw}
    try:
        compare(feeds, _suppressed(question, raw), where, look_at)
    except Wrong as wrong:
        if "of the model it was made from" in wrong.message:
            msg = Message("{where}: the outputs are not those of the boxes that are left.", where=where)
            wrong.message = msg
        matches = []  # for all mistakes with these outputs, in every scene: one does not tell them apart
        scenes = [scene.raw(question, np.random.default_rng(0)) for scene in _MANY]
        for mistake, advice in () if look_at in [advice for *_, advice in _EXACT] else _MISTAKES:
            with contextlib.suppress(Wrong):
                for rows in (raw, *scenes):
                    compare({question.name: rows}, mistake(question, rows), where, advice)
                matches.append(advice)
        given = wrong.difference.given if wrong.difference else ""
        of_output = next((text for name, text in _OF_OUTPUTS.items() if f"output {name} at" in given), "")
        if of_output and len(raw) == 1:  # one box, as it should be: only its numbers are wrong
            matches = [of_output]
        elif of_output:
            matches = matches or [Message.compose(" ", [wrong.look_at, of_output])]
        elif "does not run" in wrong.message and "NonMaxSuppression" in wrong.message:
            matches = [_SCHEMA]
        elif "another shape" in wrong.message and wrong.look_at == look_at and len(raw) == 1:
            matches = matches or [
                "One box is left. Does a node drop every axis of size 1, that of the boxes too?"
            ]
        if matches:
            wrong.look_at = Message.compose(" Or: ", dict.fromkeys(matches))
        raise


def suppress(detector: onnx.ModelProto, iou: float, least: float, most: int) -> onnx.ModelProto:
    """Return a right answer; `author sync` writes it into the notebook of solutions."""
    # Its names can be those used here.
    detector = compose.add_prefix(detector, "detector.", rename_inputs=False)
    text = """<ir_version: 10, opset_import: ["" : 20]>
    after (float[n, 4] found, float[n, c] sure) => (float[k, 4] boxes, float[k] scores, int64[k] classes)
    <int64[1] most = {%d}, float[1] iou = {%.9g}, float[1] least = {%.9g}, int64[1] zero = {0},
     int64 one = {1}, int64 two = {2}, float half = {0.5}, int64[2] parts = {2, 2}, int64[2] which = {1, 2}> {
        candidates = Unsqueeze (found, zero)
        by_class = Transpose (sure)  certain = Unsqueeze (by_class, zero)
        chosen = NonMaxSuppression <center_point_box = 1> (candidates, certain, most, iou, least)
        classes = Gather <axis = 1> (chosen, one)  rows = Gather <axis = 1> (chosen, two)
        kept = Gather (found, rows)
        centre, size = Split <axis = 1> (kept, parts)  reach = Mul (size, half)
        low = Sub (centre, reach)  high = Add (centre, reach)  boxes = Concat <axis = 1> (low, high)
        places = Gather <axis = 1> (chosen, which)  scores = GatherND (by_class, places)
    }"""
    after = parser.parse_model(text % (most, iou, least))
    first, second = (value.name for value in detector.graph.output)
    return compose.merge_models(detector, after, [(first, "found"), (second, "sure")])


JUDGES = Rewritten(ASKS, _require_structure, made_by(suppress)).judges(
    _require_scenes(*_MANY, exact=True), _require_scenes(*_NONE, exact=False)
)
