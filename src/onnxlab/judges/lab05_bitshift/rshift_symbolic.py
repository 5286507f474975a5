"""What is right in rshift-symbolic, part by part."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import onnx
import torch

from onnxlab.judges.lab05_bitshift.diagnosis import judge_none, judge_range, judge_wrong
from onnxlab.judges.lab05_bitshift.shifts import all_shifts, broadcast_advice, require_output_types
from onnxlab.kit import judging
from onnxlab.kit.exercise import Judges
from onnxlab.kit.outcome import Wrong
from onnxlab.kit.samples import integers
from onnxlab.kit.work import Work
from onnxlab.labs.lab05_bitshift.rshift_symbolic import draw_constants
from onnxlab.labs.lab05_bitshift.shifts import (
    INTEGERS,
    Shapes,
    Shift,
    ShiftBy,
    draw_broadcasts,
    draw_shifts,
    type_name,
    width,
)
from onnxlab.message import Message

_EXPECTED = """<ir_version: 6, opset_import: ["" : 11]>
shift (TYPE[OF_X] x, TYPE[OF_K] k) => (TYPE[OF_Y] y)
<int64 zero = {0}, int64 minus_one = {-1}, int64 two = {2}, float base = {2}>
{
    wide = Cast <to = 7> (x)
    bits = Cast <to = 7> (k)
    below = Less (wide, zero)
    turned = Sub (minus_one, wide)
    start = Where (below, turned, wide)
    some = Div (bits, two)
    some_float = Cast <to = 1> (some)
    some_power = Pow (base, some_float)
    some_divisor = Cast <to = 7> (some_power)
    once = Div (start, some_divisor)
    rest = Sub (bits, some)
    rest_float = Cast <to = 1> (rest)
    rest_power = Pow (base, rest_float)
    rest_divisor = Cast <to = 7> (rest_power)
    twice = Div (once, rest_divisor)
    turned_back = Sub (minus_one, twice)
    end = Where (below, turned_back, twice)
    y = Cast <to = NUMBER> (end)
}"""


@contextmanager
def _named(dtype: torch.dtype, shapes: Shapes | None = None) -> Iterator[None]:
    """Put the type's name before the message of a failure, and a right model beside the learner's."""
    try:
        with judging.expecting(partial(_expected, dtype, shapes=shapes)):
            yield
    except Wrong as wrong:
        wrong.message = Message("{dtype}: {reason}", dtype=type_name(dtype), reason=wrong.message)
        raise


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Require a valid model for each type, with dynamic axes and a result of that type."""
    for dtype in INTEGERS:
        model = work.model(type_name(dtype))
        with _named(dtype):
            judging.require_valid(model)
            judging.require_dynamic(model, {"x": [0], "k": [0]})
            require_output_types(model, dtype)


def judge_positive(work: Work, random: np.random.Generator) -> None:
    """Shift numbers from 0 upwards, of uint8 as well: a rule replaces the exporter's for every type."""
    look_at = "Which number is the divisor, or how far are the bits moved?"
    for dtype in INTEGERS:
        _require_shifts(work, torch.arange(100, dtype=dtype), look_at, range(width(dtype) - 1))


def judge_negative(work: Work, random: np.random.Generator) -> None:
    """Shift numbers below 0 by a few bits."""
    look_at = "A shift rounds down: -5 >> 1 is -3. How does your rule round?"
    for dtype in INTEGERS[1:]:
        _require_shifts(work, torch.arange(-40, 0, dtype=dtype), look_at, range(5))


def judge_extremes(work: Work, random: np.random.Generator) -> None:
    """Shift the smallest and the largest numbers by every number of bits."""
    look_at = "How large is 2**k here, and does every type on the way hold it, and x, exactly?"
    for dtype in INTEGERS:
        values = torch.arange(-128, 128, dtype=dtype) if dtype is torch.int8 else integers(random, dtype, 60)
        _require_shifts(work, values, look_at)


def judge_by_number(work: Work, random: np.random.Generator) -> None:
    """Shift by a Python number: it reaches the rule as a constant of type int64."""
    drawn = draw_constants(work.questions())
    for dtype in INTEGERS:
        for name, by in (("by-number", drawn[dtype]), ("by-most", width(dtype) - 1)):
            model, inputs = work.model(f"{type_name(dtype)}-{name}"), [integers(random, dtype, 20)]
            look_at = Message(
                "Here k is the Python number {by}: a constant without axes, int64 whatever x is.", by=by
            )
            with judging.expecting(partial(_expected, dtype, by)):
                advice = {"numbers": look_at, "load": look_at}
                judging.require_numbers(ShiftBy(by), model, inputs, look_at=advice)


def judge_shapes(work: Work, random: np.random.Generator) -> None:
    """Shift tensors of several axes; `k` is broadcast to `x`, or `x` to `k`."""
    for dtype, shapes in draw_broadcasts(work.questions()).items():
        cases = [draw_shifts(random, dtype, shapes) for _ in range(3)]
        with _named(dtype, shapes):
            model = work.model(f"{type_name(dtype)}-unlike-shapes")
            judging.require_numbers(
                Shift(), model, cases, look_at=judging.at_other_sizes(broadcast_advice(shapes))
            )


def _require_shifts(work: Work, values: torch.Tensor, look_at: str, by: range | None = None) -> None:
    model = work.model(type_name(values.dtype))
    with judging.expecting(partial(_expected, values.dtype)):
        judging.require_numbers(Shift(), model, [all_shifts(values, by)], look_at=look_at)


def _expected(dtype: torch.dtype, by: int | None = None, shapes: Shapes | None = None) -> bytes:
    """Return a right model for one type."""
    name = type_name(dtype)
    text = _EXPECTED.replace("TYPE", name)
    shapes_of_values = (*shapes, np.broadcast_shapes(*shapes)) if shapes else (("n",),) * 3
    for value, shape in zip("XKY", shapes_of_values, strict=True):
        text = text.replace(f"OF_{value}", ", ".join(map(str, shape)))
    text = text.replace("NUMBER", str(onnx.TensorProto.DataType.Value(name.upper())))
    if by is not None:
        text = text.replace(f", {name}[n] k)", ")").replace("<int64 zero", f"<int64 k = {{{by}}}, int64 zero")
    return judging.expected_model(text)


JUDGES = Judges(
    (
        judge_range,
        judge_wrong,
        judge_none,
        judge_model,
        judge_positive,
        judge_negative,
        judge_extremes,
        judge_by_number,
        judge_shapes,
    )
)
