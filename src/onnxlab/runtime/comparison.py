"""The course's one comparison of outputs: what PyTorch returned with what an ONNX file returned.

Chapter 01 shows this code; a test holds the two equal.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from onnxlab.tables import Table, table

TOLERANCE = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1e-4, 1e-5),
    torch.float16: (1e-2, 1e-3),
    torch.bfloat16: (2e-2, 1e-2),
}
"""rtol and atol by the type that PyTorch returns; an output of any other type must be equal."""


@dataclass(frozen=True)
class ComparedOutput:
    """One output for one set of inputs.

    Attributes:
        output: The output's name, or its place.
        difference: The largest difference; infinite if only one value is NaN, NaN if there is nothing to
            subtract.
        where: The element with that difference (of a wrong output, among the wrong elements); or "empty",
            "NaN" if every element is NaN in both, "texts".
        problem: What is wrong, or an empty string.
        inputs: What was tried.
    """

    output: str
    difference: float = float("nan")
    where: str = ""
    problem: str = ""
    inputs: str = ""

    def shown_difference(self) -> str:
        """Return the difference; of a right output a power of ten above it: digits vary between machines."""
        if np.isnan(self.difference):
            return self.where
        if self.problem:
            return f"{self.difference:.2g} at {self.where}"
        bound = 10 ** np.ceil(np.log10(max(self.difference, 1e-6)))
        return f"below {bound:.0e}" if self.difference else "0"


@dataclass(frozen=True)
class Comparison:
    """The outputs that were compared; true if there are any and all are right.

    Attributes:
        outputs: One row for each set of inputs and each output.
        notes: What a reader must know besides, such as that the module was in training mode.
    """

    outputs: tuple[ComparedOutput, ...]
    notes: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        """Whether something was compared and nothing is wrong."""
        return bool(self.outputs) and not self.problem

    @property
    def problem(self) -> str:
        """The first thing that is wrong, in a sentence; empty if nothing is."""
        if not self.outputs:
            return "nothing was compared"
        parts = ((row.inputs, row.output, row.problem) for row in self.outputs if row.problem)
        return ": ".join(filter(None, next(parts, ())))

    @property
    def difference(self) -> float:
        """The largest difference; NaN if there is none to compute."""
        return float(np.fmax.reduce([row.difference for row in self.outputs], initial=np.nan))

    def __bool__(self) -> bool:
        return self.right

    def raise_if_wrong(self) -> None:
        """Raise an AssertionError that holds the table, unless everything is right."""
        if not self.right:
            raise AssertionError(f"{self.problem}\n{self!r}")

    def table(self) -> Table:
        """Return the table that is printed."""
        rows = [
            {
                **({"inputs": row.inputs} if row.inputs else {}),
                "output": row.output,
                "largest difference": row.shown_difference(),
                "": f"wrong: {row.problem}" if row.problem else "right",
            }
            for row in self.outputs
        ]
        return table(rows, caption="\n".join(["" if self.outputs else self.problem, *self.notes]).strip())

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def named_leaves(values: object) -> list[tuple[str, Any]]:
    """Return the names and values in nested lists, tuples and dicts, without None, as an exporter does.

    Example:
        >>> named_leaves({"logits": 1, "past": [2, None]})
        [('logits', 1), ('past_0', 2)]
    """
    leaves, _ = pytree.tree_flatten_with_path(values)
    names = [re.sub(r"\W+", "_", pytree.keystr(path)).strip("_") for path, _ in leaves]
    return [(name, leaf) for name, (_, leaf) in zip(names, leaves, strict=True) if leaf is not None]


def as_tensor(value: Any) -> Any:  # noqa: ANN401 - of texts, which torch does not have, an array
    """Return a value as a tensor on the CPU, and texts as an array of objects."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        return value.dequantize() if value.is_quantized else value.to_dense()
    array = np.array(value)
    if array.dtype.name == "bfloat16":  # NumPy has no such type: it comes from the package ml_dtypes
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return array.astype(object) if array.dtype.kind in "OSUV" else torch.from_numpy(array)


def distances(
    wanted: torch.Tensor, got: torch.Tensor, rtol: float, atol: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return how far the elements are apart, and which are equal, both NaN, or close enough."""
    wide = torch.complex128 if wanted.is_complex() else torch.float64
    apart = (got.to(wide) - wanted.to(wide)).abs()
    close = (got == wanted) | ((got != got) & (wanted != wanted))
    close |= apart.isfinite() & (apart <= atol + rtol * wanted.to(wide).abs())
    return apart.masked_fill(close & ~apart.isfinite(), 0).nan_to_num(math.inf, math.inf), close


def compare_elements(
    name: str, wanted: torch.Tensor, got: torch.Tensor, rtol: float, atol: float
) -> ComparedOutput:
    """Compare two tensors of one type and shape."""
    apart, close = distances(wanted, got, rtol, atol)
    if close.all() and (wanted != wanted).all():
        return ComparedOutput(name, where="NaN" if wanted.numel() else "empty")
    worst = int(apart.masked_fill(close & ~close.all(), -1).argmax())
    where = [int(i) for i in np.unravel_index(worst, wanted.shape)]
    values = " instead of ".join(f"{x.flatten()[worst].item():.9g}" for x in (got, wanted))
    problem = f"{int((~close).sum())} of {close.numel()} elements, most at {where}: {values}"
    return ComparedOutput(name, float(apart.flatten()[worst]), str(where), "" if close.all() else problem)


def compare_output(
    name: str, expected: object, actual: object, rtol: float | None, atol: float | None
) -> ComparedOutput:
    """Compare one output with what PyTorch returned: type, shape, every element."""
    wanted, got = as_tensor(expected), as_tensor(actual)
    if isinstance(got, torch.Tensor) and type(expected) is type(got.new_zeros(()).item()):
        wanted = wanted.to(got.dtype)  # a Python number has no width
    if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
        types = [f"{x.dtype} {tuple(x.shape)}".removeprefix("torch.") for x in (got, wanted)]
        return ComparedOutput(name, problem=" instead of ".join(types))
    if isinstance(wanted, np.ndarray):
        problem = "" if np.array_equal(got, wanted) else f"{got} instead of {wanted}"
        return ComparedOutput(name, where="texts", problem=problem)
    kind = expected.dtype if isinstance(expected, torch.Tensor) else wanted.dtype
    if isinstance(expected, torch.Tensor) and expected.is_quantized:
        by_channel = "channel" in str(expected.qscheme())
        step = float(expected.q_per_channel_scales().max()) if by_channel else expected.q_scale()
        kind, atol = wanted.dtype, step if atol is None else atol  # rounded to the next whole number
    if kind not in TOLERANCE:
        return compare_elements(name, wanted, got, 0, -1)  # only what is equal is close
    defaults = zip((rtol, atol), TOLERANCE[kind], strict=True)
    return compare_elements(name, wanted, got, *(own if given is None else given for given, own in defaults))


def compare_outputs(
    expected: object, actual: object, *, rtol: float | None = None, atol: float | None = None
) -> Comparison:
    """Compare the outputs of PyTorch with those of a file: their number, types, shapes and every element.

    Outputs may be nested in lists, tuples and dicts; None is left out. They are paired by name where both
    sides are dicts with the same keys, and otherwise in order. An element is right if both values are equal
    or NaN, or if they differ by at most `atol + rtol * |expected|`. Whole numbers, Boolean values and texts
    must be equal. A number of Python, such as a size that `forward` returns, matches any width of its kind.
    A quantised tensor of PyTorch's is dequantised, and may be wrong by one step of its scale.

    `torch.testing.assert_close` has the same rule for an element. It differs in this: its defaults are for
    two runs of PyTorch and too narrow for another runtime, which adds in another order; it has no texts; and
    it takes rtol and atol together or not at all. `torch.onnx.verification` does not compare types, and it
    compares a file with the captured program, not with the module. ONNX's backend tests have one tolerance
    for all types.

    Args:
        expected: What PyTorch returned.
        actual: What the file returned: a list, or a dict by output name.
        rtol: The tolerance relative to PyTorch's value; by default that of the output's type in `TOLERANCE`.
        atol: The tolerance added to it.

    Returns:
        The comparison: true if it is right, printed as a table.

    Example:
        >>> compare_outputs((torch.ones(2), 3), [np.float32([1, 1]), np.int64(3)]).right
        True
        >>> print(compare_outputs(torch.tensor([1.0, 2.0]), [np.float32([1, 3])]).problem)
        0: 1 of 2 elements, most at [1]: 3 instead of 2
    """
    if isinstance(expected, dict) and isinstance(actual, dict) and set(expected) == set(actual):
        actual = {name: actual[name] for name in expected}
    wanted, got = named_leaves(expected), named_leaves(actual)
    if len(wanted) != len(got):
        problem = " instead of ".join(
            f"{len(leaves)} {[name for name, _ in leaves]}" for leaves in (got, wanted)
        )
        return Comparison((ComparedOutput("number of outputs", problem=problem),))
    names = [name for name, _ in (wanted if isinstance(expected, dict) else got)]
    pairs = zip(names, wanted, got, strict=True)
    return Comparison(
        tuple(compare_output(name, ours, theirs, rtol, atol) for name, (_, ours), (_, theirs) in pairs)
    )
