"""What is right in max-unpool-symbolic, part by part."""

from functools import partial

import numpy as np

from onnxlab.kit import judging
from onnxlab.kit.exercise import Judges
from onnxlab.kit.outcome import Difference
from onnxlab.kit.work import Work
from onnxlab.labs.lab07_pooling_indices.max_unpool_symbolic import AXES, Picture, Unpool, pictures, pool
from onnxlab.message import Message
from onnxlab.runtime.parity import Counterexample


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Require valid models at opset 11 with a dynamic batch."""
    for name, picture in pictures(work.questions()).items():
        model = work.model(name)
        with judging.expecting(partial(_expected, picture)):
            judging.require_opset(model, 11)
            judging.require_valid(model)
            judging.require_dynamic(model, AXES)


def judge_one_channel(work: Work, random: np.random.Generator) -> None:
    """Unpool one picture with one channel: torch and ONNX count its places alike."""
    look_at = "Which index does the first value have, and which element of your result is that?"
    _require_numbers(work, random, "one_channel", [1], look_at)


def judge_channels(work: Work, random: np.random.Generator) -> None:
    """Unpool one picture with several channels."""
    look_at = "Which channel did this value go to? Run it with one channel filled with zeros."
    _require_numbers(work, random, "few_channels", [1], look_at)
    look_at = "Height and width differ here. Which of them do you multiply by?"
    _require_numbers(work, random, "many_channels", [1], look_at)


def judge_batches(work: Work, random: np.random.Generator) -> None:
    """Unpool more pictures than there were at export."""
    look_at = "At export there was one picture. Where does the next begin, and what still holds that number?"
    for name in ("few_channels", "many_channels"):
        _require_numbers(work, random, name, [2, 5, int(random.integers(150, 300))], look_at)


def judge_odd(work: Work, random: np.random.Generator) -> None:
    """Unpool pictures with an odd height, an odd width, and both."""
    for name in ("odd", "odd_height", "odd_width"):
        _, height, width = pictures(work.questions())[name]
        look_at = Message(
            "{height} x {width} pixels were pooled to {height2} x {width2}. "
            "What tells your node the size before the pooling?",
            height=height,
            width=width,
            height2=height // 2,
            width2=width // 2,
        )
        _require_numbers(work, random, name, [1, 2, 3], look_at)


def _require_numbers(
    work: Work, random: np.random.Generator, name: str, batches: list[int], look_at: str
) -> None:
    picture = pictures(work.questions())[name]
    cases = [pool(random, batch, picture) for batch in batches]
    with judging.expecting(partial(_expected, picture)):
        judging.require_numbers(
            Unpool(picture),
            work.model(name),
            cases,
            0.0,
            0.0,
            look_at=judging.at_other_sizes(look_at),
            describe=partial(_difference, picture),
        )


def _expected(picture: Picture) -> bytes:
    """Return a right model for pictures of one size."""
    channels, height, width = picture
    pooled, unpooled = f"{channels}, {height // 2}, {width // 2}", f"{channels}, {height}, {width}"
    return judging.expected_model(f"""<ir_version: 6, opset_import: ["" : 11]>
    unpool (float[batch, {pooled}] values, int64[batch, {pooled}] index) => (float[batch, {unpooled}] y)
    <int64 zero = {{0}}, int64 one = {{1}}, int64 pixels = {{{height * width}}}, int64[1] from = {{0}},
     int64[1] to = {{2}}, int64[2] single = {{1, 1}}, int64[2] size = {{{height}, {width}}}>
    {{
        shape = Shape (values)
        front = Slice (shape, from, to)
        count = ReduceProd <keepdims = 0> (front)
        channel = Range (zero, count, one)
        first = Mul (channel, pixels)
        begin_shape = Concat <axis = 0> (front, single)
        begin = Reshape (first, begin_shape)
        place = Add (index, begin)
        whole = Concat <axis = 0> (front, size)
        y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (values, place, whole)
    }}""")


def _difference(picture: Picture, counterexample: Counterexample) -> Difference:
    what = Message(
        "pooled pictures, before that of shape {value}", value=[len(counterexample.inputs[0]), *picture]
    )
    if counterexample.torch is None:
        reason = counterexample.reason.rpartition("Status Message: ")[2]  # the runtime's own words
        return Difference(what, Message("what torch gives"), reason[:160])
    number, channel, row, column = counterexample.index
    expected, got = judging.number_texts(counterexample.torch, counterexample.runtime, 4)
    right = Message(
        "{expected} in picture {number}, channel {channel}, at row {row}, column {column}",
        expected=expected,
        number=number,
        channel=channel,
        row=row,
        column=column,
    )
    return Difference(what, right, got)


JUDGES = Judges((judge_model, judge_one_channel, judge_channels, judge_batches, judge_odd))
