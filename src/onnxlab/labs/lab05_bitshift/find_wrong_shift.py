"""Exercise: a counterexample for the exporter's right shift, or none where there is none.

What is right is measured: the judge exports and compares. Where the exporter has no wrong shift for a type,
as for uint8 and as a later torch may have for all types, None is right.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from onnxlab.exporters.export import Exporter, export
from onnxlab.labs.kit.exercise import Answers, Exercise, Part
from onnxlab.labs.kit.exporting import require_type
from onnxlab.labs.kit.judging import evidence
from onnxlab.labs.kit.outcome import Wrong, trying
from onnxlab.labs.kit.samples import integers
from onnxlab.labs.kit.work import Work
from onnxlab.labs.lab05_bitshift.shifts import INTEGERS, Shift, every_shift, type_name, width
from onnxlab.runtime.parity import run, smallest_counterexample

__all__ = ["EXERCISE"]

_MOST = 10_000  # elements


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Ask for each type."""
    for dtype in INTEGERS:
        with trying(str(dtype), dtype=dtype):
            _keep(work, dtype, answers["find_wrong_shift"](dtype))


def _keep(work: Work, dtype: torch.dtype, value: Any) -> None:  # noqa: ANN401 - whatever was returned
    call, name = f"find_wrong_shift({dtype})", type_name(dtype)
    work.write_json(name, value is not None)
    if value is None:
        return
    require_type(value, (tuple, list), call)
    if len(value) != 2:
        msg = f"{call} returned {len(value)} things; x and k were expected."
        raise Wrong(msg, "Return two tensors: return x, k")
    work.write_array(f"{name}-x", _tensor(value[0], dtype, call))
    work.write_array(f"{name}-k", _tensor(value[1], dtype, call))


def _tensor(value: object, dtype: torch.dtype, call: str) -> object:
    """Return a tensor as it is, and plain numbers as a tensor of the type."""
    if not isinstance(value, int | list | tuple):
        return value
    try:
        return torch.tensor([value] if isinstance(value, int) else value, dtype=dtype)
    except (RuntimeError, TypeError, ValueError) as error:
        msg = f"{call}: {str(value)[:60]} does not fit: {str(error).partition(chr(10))[0]}"
        raise Wrong(msg, "Return two tensors of the type that was asked for.") from None


def judge_range(work: Work, random: np.random.Generator) -> None:
    """Tensors of the type, and a shift that is defined."""
    _each_type(lambda dtype: _found(work, dtype))


def judge_wrong(work: Work, random: np.random.Generator) -> None:
    """A pair that the exporter's model gets wrong, for each type that has one."""

    def judge(dtype: torch.dtype) -> None:
        found, widths = _found(work, dtype), _wrong_widths(dtype)
        if found is None and widths:
            bits = width(dtype)
            name = type_name(dtype)
            msg = f"{name}: None says that all is right, but {widths} of the {bits} k have a wrong x."
            raise Wrong(msg, "Compare for positive and negative, odd and even numbers.")
        if found is not None and widths:
            look = (
                "A shift rounds down. How does a division of whole numbers round? Look for an x that tells."
            )
            _require_wrong(dtype, found, look)

    _each_type(judge)


def judge_none(work: Work, random: np.random.Generator) -> None:
    """None, or an even better search than the judge's, for a type whose shifts are right."""

    def judge(dtype: torch.dtype) -> None:
        found = _found(work, dtype)
        if found is not None and not _wrong_widths(dtype):
            look = "Is there any wrong shift for this type? What can a search return that finds nothing?"
            _require_wrong(dtype, found, look)

    _each_type(judge)


def _each_type(judge: Callable[[torch.dtype], object]) -> None:
    for dtype in INTEGERS:
        with trying(str(dtype), dtype=dtype):
            judge(dtype)


def _found(work: Work, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor] | None:
    name = type_name(dtype)
    if not work.json(name):
        return None
    x, k = work.array(f"{name}-x"), work.array(f"{name}-k")
    for which, array in (("x", x), ("k", k)):
        if array.dtype.name != name:
            msg = f"find_wrong_shift({dtype}): {which} has the type {array.dtype.name}."
            raise Wrong(msg, "Make both tensors with dtype=dtype.")
        if not 1 <= array.size <= _MOST or array.ndim > 4:
            msg = f"find_wrong_shift({dtype}): {which} has the shape {list(array.shape)}."
            raise Wrong(msg, f"1 to {_MOST} elements are enough.")
    try:
        together = int(np.prod(np.broadcast_shapes(x.shape, k.shape)))
    except ValueError:
        together = 0
    if not 1 <= together <= _MOST:
        msg = f"find_wrong_shift({dtype}): x has the shape {list(x.shape)}, k {list(k.shape)}."
        raise Wrong(msg, f"x >> k must have 1 to {_MOST} elements.")
    outside = [each for each in k.ravel().tolist() if not 0 <= each < width(dtype)]
    if outside:
        msg = f"find_wrong_shift({dtype}): k = {outside[0]}; 0 to {width(dtype) - 1} count."
        raise Wrong(msg, "Shifts by all bits or more, or by less than none, are not asked for here.")
    plain_x, plain_k = (
        torch.from_numpy(np.ascontiguousarray(array, name)) for array in (x, k)
    )  # any byte order
    return plain_x, plain_k


def _require_wrong(dtype: torch.dtype, found: tuple[torch.Tensor, torch.Tensor], look_at: str) -> None:
    model = _exported(found)
    if smallest_counterexample(Shift(), model, [found]) is None:
        x, k = np.broadcast_arrays(*(part.numpy() for part in found))
        both = np.asarray(run(model, *found)[0]).ravel()[:3].tolist()
        given = ", ".join(
            f"{a} >> {b}" for a, b in zip(x.ravel()[:3].tolist(), k.ravel()[:3].tolist(), strict=False)
        )
        msg = (
            f"{type_name(dtype)}: the exported model is right here. {given}: torch {both}, the model {both}."
        )
        raise Wrong(msg, look_at, evidence=evidence(model))


def _exported(inputs: tuple[torch.Tensor, torch.Tensor]) -> Any:  # noqa: ANN401 - onnx has no types here
    options: dict[str, Any] = {"input_names": ["x", "k"], "opset_version": 20}
    return export(Shift(), inputs, Exporter.TORCHSCRIPT, run=False, **options).proto


@functools.cache
def _wrong_widths(dtype: torch.dtype) -> int:
    """For how many k there is a wrong x among some two hundred."""
    values = torch.cat([torch.arange(64, dtype=dtype), integers(np.random.default_rng(0), dtype, 64)])
    values = torch.cat([values, -values]) if dtype.is_signed else values
    x, k = every_shift(values)
    wrong = run(_exported((x, k)), x, k)[0] != Shift()(x, k).numpy()
    return len(set(k.numpy()[wrong].tolist()))


EXERCISE = Exercise(
    order=2,
    id="find-wrong-shift",
    title="Find a shift that the exported model gets wrong",
    points=3,
    answers=("find_wrong_shift",),
    produce=produce,
    parts=(
        Part("tensors of the type asked for, and 0 <= k < its number of bits", judge_range),
        Part("the exported model gives something else than torch", judge_wrong),
        Part("nothing is made up where every shift is right", judge_none),
    ),
    hints=(
        "Which ONNX operators does the rule write for this type? Evaluate them by hand for a few numbers.",
        "`Div` of whole numbers rounds towards zero, a shift rounds down. They differ below zero only.",
        "For a signed type return -1 and 1: torch gives -1, the model 0. Is there an x below zero in uint8? "
        "If there is no wrong shift, return None.",
    ),
)
