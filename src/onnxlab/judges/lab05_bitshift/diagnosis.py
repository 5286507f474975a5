"""What is right in the diagnosis of rshift-symbolic, part by part."""

import functools
from typing import Any

import numpy as np
import onnx
import torch

from onnxlab.exporters.export import Exporter, export
from onnxlab.judges.lab05_bitshift.shifts import all_shifts
from onnxlab.kit.judging import evidence
from onnxlab.kit.outcome import Wrong
from onnxlab.kit.samples import integers
from onnxlab.kit.work import Work
from onnxlab.labs.lab05_bitshift.diagnosis import case
from onnxlab.labs.lab05_bitshift.shifts import INTEGERS, Pair, Shift, type_name, width
from onnxlab.message import Message
from onnxlab.runtime.parity import run, smallest_counterexample

_MOST, _MOST_SHIFTED = 10_000, 1_000_000  # elements of a tensor in an answer, and of x >> k
_MOST_AXES = 8


def judge_range(work: Work, random: np.random.Generator) -> None:
    """Require tensors of the type, and a `k` that torch defines a shift for."""
    for dtype in INTEGERS:
        with case(dtype):
            _read_answer(work, dtype)


def judge_wrong(work: Work, random: np.random.Generator) -> None:
    """Require a pair that the exported model gets wrong, for each type that has one."""
    look_at = "A shift rounds down. How does a division of whole numbers round? Look for an x that tells."
    for dtype in INTEGERS:
        with case(dtype):
            pair, widths = _read_answer(work, dtype), _count_wrong_k(dtype)
            if pair is None and widths:
                name, bits = type_name(dtype), width(dtype)
                msg = Message(
                    "{name}: None says that all is right, but {widths} of the {bits} k have a wrong x.",
                    name=name,
                    widths=widths,
                    bits=bits,
                )
                raise Wrong(msg, "Compare for positive and negative, odd and even numbers.")
            if pair is not None and widths:
                _require_wrong(dtype, pair, look_at)


def judge_none(work: Work, random: np.random.Generator) -> None:
    """Require None for a type whose shifts are right, or a wrong shift that the judge's search has missed."""
    look_at = "Is there any wrong shift for this type? What can a search return that finds nothing?"
    for dtype in INTEGERS:
        with case(dtype):
            pair = _read_answer(work, dtype)
            if pair is not None and not _count_wrong_k(dtype):
                _require_wrong(dtype, pair, look_at)


def _read_answer(work: Work, dtype: torch.dtype) -> Pair | None:
    """Return the `x` and `k` that were found for a type; refuse what is not of the type, or no shift."""
    name = type_name(dtype)
    if not work.json(name):
        return None
    x, k = work.array(f"{name}-x"), work.array(f"{name}-k")
    for which, array in (("x", x), ("k", k)):
        if array.dtype.name != name:
            msg = Message(
                "find_wrong_shift({dtype}): {which} has the type {array.dtype.name}.",
                dtype=dtype,
                which=which,
                array=array,
            )
            raise Wrong(msg, "Make both tensors with dtype=dtype.")
        if not 1 <= array.size <= _MOST or array.ndim > _MOST_AXES:
            msg = Message(
                "find_wrong_shift({dtype}): {which} has the shape {shape}.",
                dtype=dtype,
                which=which,
                shape=list(array.shape),
            )
            raise Wrong(
                msg, "It may have 1 to {most} elements, in up to {axes} axes.", most=_MOST, axes=_MOST_AXES
            )
    try:
        size = int(np.prod(np.broadcast_shapes(x.shape, k.shape)))
    except ValueError:
        size = 0
    if not 1 <= size <= _MOST_SHIFTED:
        msg = Message(
            "find_wrong_shift({dtype}): x has the shape {shape}, k {shape2}.",
            dtype=dtype,
            shape=list(x.shape),
            shape2=list(k.shape),
        )
        raise Wrong(msg, "x >> k must have 1 to {most_shifted} elements.", most_shifted=_MOST_SHIFTED)
    outside = [bits for bits in k.ravel().tolist() if not 0 <= bits < width(dtype)]
    if outside:
        msg = Message(
            "find_wrong_shift({dtype}): k = {outside}; 0 to {width} count.",
            dtype=dtype,
            outside=outside[0],
            width=width(dtype) - 1,
        )
        raise Wrong(msg, "Shifts by all bits or more, or by less than none, are not asked for here.")
    # A file may hold any byte order; torch takes the machine's own only.
    x_tensor, k_tensor = (torch.from_numpy(np.ascontiguousarray(array, name)) for array in (x, k))
    return x_tensor, k_tensor


def _require_wrong(dtype: torch.dtype, pair: Pair, look_at: str) -> None:
    """Require that the exported model shifts `x` by `k` in another way than torch."""
    model = _exported(pair)
    if smallest_counterexample(Shift(), model, [pair]) is None:
        x, k = np.broadcast_arrays(*(tensor.numpy() for tensor in pair))
        both = np.asarray(run(model, *pair)[0]).ravel()[:3].tolist()
        operands = ", ".join(
            f"{a} >> {b}" for a, b in zip(x.ravel()[:3].tolist(), k.ravel()[:3].tolist(), strict=False)
        )
        msg = Message(
            "{type_name}: the exported model is right here. {operands}: torch {both}, the model {both}.",
            type_name=type_name(dtype),
            operands=operands,
            both=both,
        )
        raise Wrong(msg, look_at, evidence=evidence(model))


def _exported(pair: Pair) -> onnx.ModelProto:
    options: dict[str, Any] = {"input_names": ["x", "k"], "opset_version": 20}
    return export(Shift(), pair, Exporter.TORCHSCRIPT, run=False, **options).proto


@functools.cache
def _count_wrong_k(dtype: torch.dtype) -> int:
    """Count the numbers of bits `k` by which the exported model shifts some `x` wrongly.

    Up to 256 values of `x` are tried: small ones, random ones and the limits of the type.
    """
    values = torch.cat([torch.arange(64, dtype=dtype), integers(np.random.default_rng(0), dtype, 64)])
    values = torch.cat([values, -values]) if dtype.is_signed else values
    x, k = all_shifts(values)
    wrong = run(_exported((x, k)), x, k)[0] != Shift()(x, k).numpy()
    return len(set(k.numpy()[wrong].tolist()))
