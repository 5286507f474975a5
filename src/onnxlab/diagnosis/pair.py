"""Two model files side by side: what differs in their graphs, and in their outputs for the same inputs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnxlab.model.diff import diff
from onnxlab.model.distance import Array, largest_difference, magnitude
from onnxlab.model.load import load_alone
from onnxlab.plain_text import plain
from onnxlab.runtime.refusals import named_reason
from onnxlab.runtime.session import open_session
from onnxlab.runtime.values import ModelInputs


@dataclass(frozen=True)
class Pair:
    """The comparison of two files.

    Attributes:
        structure: What differs in their graphs, as text.
        outputs: A row for each output: its name, its shapes, the largest absolute difference.
        verdict: The result in a sentence.
        equal: Whether they have the same outputs, within what is allowed.
    """

    structure: str
    outputs: tuple[tuple[str, str, str], ...]
    verdict: str
    equal: bool

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        outputs = [dict(zip(("name", "shapes", "difference"), row, strict=True)) for row in self.outputs]
        return {
            "equal": self.equal,
            "verdict": self.verdict,
            "structure": self.structure.splitlines(),
            "outputs": outputs,
        }


def compare_files(first: Path, second: Path, *, atol: float = 1e-5, rtol: float = 1e-5) -> Pair:
    """Compare two files; both are run with the same normally distributed inputs where both accept them.

    Args:
        first: A file.
        second: Another.
        atol: The difference that is allowed.
        rtol: The difference that is allowed relative to an output's largest value, if that is more.

    Raises:
        ModelNotReadable: If one of them is not an ONNX model.
    """
    structure = str(diff(first, second))
    try:
        sessions = [open_session(path) for path in (first, second)]
    except Exception as error:  # the runtime raises plain Exception subclasses and RuntimeError
        return Pair(structure, (), f"One of them does not load: {plain(named_reason(error), 200)}", False)
    inputs = [ModelInputs(load_alone(path)) for path in (first, second)]
    kinds = [[(value.dtype, len(value.dims or ())) for value in one.values] for one in inputs]
    if kinds[0] != kinds[1] or inputs[0].undrawable:
        return Pair(structure, (), "Their inputs are of different types or ranks: they were not run.", False)
    refusal = ""
    for sizes in inputs[0].sizes():
        try:
            arrays = list(inputs[0].draw(sizes).values())
            results = [
                session.run(
                    None, {value.name: array for value, array in zip(one.values, arrays, strict=True)}
                )
                for session, one in zip(sessions, inputs, strict=True)
            ]
        except Exception as error:  # these sizes may be none that they accept, or need too much memory
            refusal = plain(named_reason(error), 200)
            continue
        names = [plain(value.name, 60) for value in sessions[0].get_outputs()]
        return _compared(structure, names, *results, atol=atol, rtol=rtol)
    return Pair(structure, (), f"They do not run with the same inputs: {refusal}", False)


def _compared(
    structure: str, names: list[str], ours: list[object], theirs: list[object], *, atol: float, rtol: float
) -> Pair:
    rows, equal = [], len(ours) == len(theirs)
    for name, a, b in zip(names, ours, theirs, strict=False):
        shapes = [value.shape if isinstance(value, np.ndarray) else None for value in (a, b)]
        if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)) or shapes[0] != shapes[1]:
            rows.append((name, f"{shapes[0]}, {shapes[1]}", "not comparable"))
            equal = False
            continue
        difference, allowed = _difference(a, b), atol
        if a.dtype.kind in "fc":
            sizes = magnitude(a)
            allowed = max(atol, rtol * float(sizes.max(where=np.isfinite(sizes), initial=0.0)))
        rows.append((name, str(shapes[0]), _described(a, b, difference)))
        equal = equal and difference <= allowed
    same = "Their outputs agree for normally distributed inputs."
    return Pair(structure, tuple(rows), same if equal else "Their outputs differ.", equal)


def _difference(a: Array, b: Array) -> float:
    if "O" in (a.dtype.kind, b.dtype.kind):  # texts
        return 0.0 if np.array_equal(a, b) else np.inf
    return largest_difference(a, b)


def _described(a: Array, b: Array, difference: float) -> str:
    """Return the largest difference in words; what is no number has no difference."""
    if np.isfinite(difference):
        return f"{difference:.3g}"
    if "O" in (a.dtype.kind, b.dtype.kind):
        return f"{np.count_nonzero(a != b)} of {a.size} texts differ"
    only = [int(np.count_nonzero(np.isnan(x) & ~np.isnan(y))) for x, y in ((a, b), (b, a))]
    where = [
        f"{count} in the {which}" for count, which in zip(only, ("first", "second"), strict=True) if count
    ]
    return f"NaN: {', '.join(where)} only" if where else "infinite in one only"
