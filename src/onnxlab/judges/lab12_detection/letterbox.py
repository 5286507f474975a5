"""What is right in letterbox, part by part."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
from onnx import compose, parser

from onnxlab.kit.judging import require_interface, require_same_numbers, require_valid, require_well_formed
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.rewriting import Rewritten, made_by
from onnxlab.labs.lab12_detection.letterbox import ASKS, LetterboxQuestion
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.runtime.session import open_session

_GREY = 0.5
_BY_HAND = (
    "Go through it by hand for the size shown: new height and width, rows and columns before, "
    "what Resize and Pad make, which numbers of a box belong to x."
)
_ROUNDED = (
    "Compute new height and width for the size shown by hand. Does Resize get them as sizes, and "
    "each axis by itself?"
)
_AT_LEAST_ONE = "To what does the shorter side round here? At least one row stays."

_RESIZE = """<ir_version: 10, opset_import: ["" : 20]>
resize (float[1, 3, h, w] batch, int64[2] size) => (float[1, 3, a, b] resized)
{ resized = Resize <axes = [2, 3], mode = "%s"> (batch, , , size) }"""


def _right_boxes(
    question: LetterboxQuestion,
    picture: Array,
    *,
    round_half_up: bool = True,
    larger_first: bool = False,
    centred: bool = True,
    grey: float = _GREY,
    mode: str = "linear",
    own_ratio: bool = True,
    ratios_exchanged: bool = False,
    half_row: bool = False,
    height_first: bool = False,
    clipped: tuple[bool, bool] = (True, True),
    moved: bool = True,
    scaled_first: bool = False,
) -> Array:
    """Return the right boxes for a picture, or with other options those of a wrong answer."""
    old = np.array(picture.shape[1:])  # height and width
    longer = int(old.max())
    new = np.maximum(1, (2 * old * question.side + round_half_up * longer) // (2 * longer))
    corner = (question.side - new + larger_first) // 2 * centred
    (boxes,) = question.session.run(
        None, {question.name: _canvas(picture, question.side, new, corner, grey, mode)}
    )
    order = [0, 1, 0, 1] if height_first else [1, 0, 1, 0]  # x, y, x, y from height, width
    ratio = (old / new if own_ratio else np.full(2, longer / new.max()))[order]
    start = (
        ((question.side - new) / 2 if half_row else corner)[order] * moved / (ratio if scaled_first else 1)
    )
    ratio = ratio[[1, 0, 3, 2]] if ratios_exchanged else ratio
    mapped = (np.asarray(boxes, np.float64) - start) * ratio
    mapped = mapped.clip(0 if clipped[0] else None, old[order] if clipped[1] else None)
    rounded: Array = mapped.astype(np.float32)
    return rounded


def _canvas(picture: Array, side: int, size: Array, corner: Array, grey: float, mode: str) -> Array:
    """Return a grey square with the picture, scaled to a size, at a corner."""
    (height, width), (top, left) = size.tolist(), corner.tolist()
    canvas = np.full((1, 3, side, side), grey, np.float32)
    (resized,) = _resizing(mode).run(None, {"batch": picture[None], "size": size})
    canvas[:, :, top : top + height, left : left + width] = resized
    return canvas


@cache
def _resizing(mode: str) -> ort.InferenceSession:
    """Return a session that resizes: PyTorch rounds otherwise between the pixels of a large picture."""
    return open_session(parser.parse_model(_RESIZE % mode))


# Options of `LetterboxQuestion.boxes` for a mistake, and where to look for it.
_MISTAKES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"own_ratio": False}, "Rounding gives height and width a ratio of their own. Which one takes x back?"),
    ({"ratios_exchanged": True}, "x goes back by the ratio of the widths, y by that of the heights."),
    ({"half_row": True}, "The picture begins at a whole row and column: what is subtracted on the way back?"),
    ({"clipped": (False, False)}, "These boxes reach beyond the picture: none may."),
    ({"clipped": (True, False)}, "Boxes are clipped at 0 only; none may reach beyond the other end either."),
    ({"clipped": (False, True)}, "Boxes are clipped at one end only; none may reach below 0 either."),
    ({"moved": False}, "The picture does not begin at the corner of the canvas."),
    ({"scaled_first": True}, "The rows before the picture are rows of the canvas: which step comes first?"),
    ({"height_first": True}, "A box begins with x, and a shape with the height."),
    ({"round_half_up": False}, "How is the shorter side rounded?"),
    ({"larger_first": True}, "An odd number of rows or columns is left over. How many of them come first?"),
    ({"centred": False}, "Where on the canvas does the picture begin?"),
    ({"grey": 0.0}, "Which number fills the canvas around the picture?"),
    ({"mode": "nearest"}, "How does Resize make one pixel of several?"),
)


def _require_structure(model: onnx.ModelProto, question: LetterboxQuestion) -> None:
    """Require a valid model from a picture to boxes."""
    require_interface(model, ["picture"], ["boxes"], question.where)
    require_well_formed(model, question.where)
    require_valid(model)


def _sizes_that_divide(side: int, random: np.random.Generator) -> list[tuple[int, int]]:
    """Return heights and widths for which nothing is rounded and no half row or column is left."""
    shorter = side - 2 * int(random.integers(1, side // 4 + 1)) if side > 3 else side
    return [(side, side), (side, shorter), (shorter, side), (2 * shorter, 2 * side), (3 * side, 3 * shorter)]


def _odd_sizes(side: int, random: np.random.Generator) -> list[tuple[int, int]]:
    """Return odd heights and widths: a wide, a tall and a square picture; then any that are drawn."""
    low, high = (2 * random.integers((2, side), (side // 2 + 3, 2 * side + 1)) + 1).tolist()
    square = 2 * int(random.integers(2, side + 2)) + 1
    odd = 4 * int(random.integers(side // 4 + 1)) + 1  # odd / 2 ends with .5: half a row is left
    halves = [(odd, 2 * side), (2 * side, odd)]
    others = random.integers(2, 5 * side + 2, size=(6, 2)).tolist()
    sizes = [(low, high), (high, low), (square, square), *halves, *others]
    sizes += [*_sizes_scaled_short(side, random), *_sizes_half_missed(side)]
    return [(height, width) for height, width in sizes]


def _sizes_half_missed(side: int) -> list[tuple[int, int]]:
    """Return a size for float32 and one for float64 whose half is lost where the scale is computed first."""
    sizes = []
    for dtype in (np.float32, np.float64):
        longer, other = np.ogrid[3:300, 1:300]
        halves = (other < longer) & (2 * other * side % (2 * longer) == longer)
        scale = np.array(side, dtype) / longer.astype(dtype)
        by_scale = np.floor(other.astype(dtype) * scale + np.array(0.5, dtype))
        right = (2 * other * side + longer) // (2 * longer)
        missed = np.argwhere(halves & (by_scale != right) & (right > 1))[:1]
        sizes += [(int(row) + 3, int(column) + 1) for row, column in missed]
    return sizes


def _sizes_scaled_short(side: int, random: np.random.Generator) -> list[tuple[int, int]]:
    """Return a wide and a tall picture, for which a row or column is missing after a scale in float32."""
    old = np.arange(side + 1, 12 * side + 60)
    scale = np.float32(side) / old.astype(np.float32)
    short = old[np.floor(old.astype(np.float32) * scale) < side]
    if not len(short):  # as for a side of 1, 2 or 4
        return []
    return [(int(random.integers(2, size)), int(size)) for size in random.choice(short, 2)] + [
        (int(random.choice(short)), 2)
    ]


def _thin_sizes(side: int, random: np.random.Generator) -> list[tuple[int, int]]:
    """Return heights and widths whose shorter side would round to 0, or becomes 1; and one pixel."""
    long, very_long = int(random.integers(3 * side, 6 * side)), int(random.integers(400, 700))
    several = int(random.integers(3, 6))  # rows that become one: half of 1.5 * several * side is left
    one = several * side * 7 // 6 + 1
    return [(1, long), (long, 1), (1, 1), (several, one), (one, several), (2, very_long), (very_long, 3)]


def _require_sizes(
    sizes: Callable[[int, np.random.Generator], list[tuple[int, int]]], look_at: str
) -> Callable[[onnx.ModelProto, LetterboxQuestion, np.random.Generator], None]:
    """Return the requirement of right boxes for pictures of these sizes, for `Rewriting.judge`."""

    def require(model: onnx.ModelProto, question: LetterboxQuestion, random: np.random.Generator) -> None:
        compare = partial(require_same_numbers, model, session=open_session(model))
        for height, width in sizes(question.side, random):
            picture = (random.random((3, height, width)) * 3 - 1).astype(np.float32)
            where = Message(
                "{question.where}, a picture of height {height} and width {width}",
                question=question,
                height=height,
                width=width,
            )
            with trying(where.lower(), network=question.model, picture=picture):
                _require_boxes(compare, question, picture, where, look_at)

    return require


def _require_boxes(
    compare: Callable[..., None], question: LetterboxQuestion, picture: Array, where: str, look_at: str
) -> None:
    feeds = {"picture": picture}
    try:
        compare(feeds, [_right_boxes(question, picture)], where, look_at)
    except Wrong as wrong:
        if "of the model it was made from" in wrong.message:
            msg = Message("{where}: the outputs are not the boxes on the picture.", where=where)
            wrong.message = msg
        elif "Reshape" in wrong.message:  # the first node of the network
            wrong.look_at = Message(
                "Has what the network gets here the shape [1, 3, {case.side}, {case.side}]?", case=question
            )
        for mistake, advice in _MISTAKES:
            with suppress(Wrong):
                compare(feeds, [_right_boxes(question, picture, **mistake)], where, advice)
                wrong.look_at = advice
                break
        raise


def letterbox(network: onnx.ModelProto) -> onnx.ModelProto:
    """Return a right answer; `author sync` writes it into the notebook of solutions."""
    network = compose.add_prefix(network, "network.")  # its names can be those used here
    side = network.graph.input[0].type.tensor_type.shape.dim[2].dim_value
    text = """<ir_version: 10, opset_import: ["" : 20]>
    before (float[3, h, w] picture)
      => (float[1, 3, s, s] canvas, float[4] start, float[4] ratio, float[4] limit)
    <int64[1] side = {%d}, int64[1] one = {1}, int64[1] two = {2}, int64[1] zero = {0}, float grey = {0.5},
     int64[2] axes = {2, 3}, int64[4] xyxy = {1, 0, 1, 0}> {
        old = Shape <start = 1> (picture)  longer = ReduceMax (old)  scaled = Mul (old, side)
        doubled = Mul (scaled, two)  above = Add (doubled, longer)  below = Mul (longer, two)
        rounded = Div (above, below)  new = Max (rounded, one)
        batch = Unsqueeze (picture, zero)
        resized = Resize <mode = "linear", axes = [2, 3]> (batch, , , new)
        rest = Sub (side, new)  first = Div (rest, two)  last = Sub (rest, first)
        pads = Concat <axis = 0> (first, last)
        canvas = Pad (resized, pads, grey, axes)
        f = Cast <to = 1> (first)  o = Cast <to = 1> (old)  n = Cast <to = 1> (new)  r = Div (o, n)
        start = Gather (f, xyxy)  ratio = Gather (r, xyxy)  limit = Gather (o, xyxy)
    }"""
    after = parser.parse_model("""<ir_version: 10, opset_import: ["" : 20]>
    after (float[n, 4] found, float[4] begin, float[4] by, float[4] most) => (float[n, 4] boxes)
    <float nothing = {0}> {
        moved = Sub (found, begin)  back = Mul (moved, by)
        inside = Max (back, nothing)  boxes = Min (inside, most)
    }""")
    canvas = network.graph.input[0].name
    model = compose.merge_models(parser.parse_model(text % side), network, [("canvas", canvas)])
    joined = {network.graph.output[0].name: "found", "start": "begin", "ratio": "by", "limit": "most"}
    return compose.merge_models(model, after, list(joined.items()))


JUDGES = Rewritten(ASKS, _require_structure, made_by(letterbox)).judges(
    _require_sizes(_sizes_that_divide, _BY_HAND),
    _require_sizes(_odd_sizes, _ROUNDED),
    _require_sizes(_thin_sizes, _AT_LEAST_ONE),
)
