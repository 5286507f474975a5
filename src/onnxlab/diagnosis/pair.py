"""Two model files side by side: what differs in their graphs, and in their outputs for the same inputs."""

from dataclasses import dataclass
from pathlib import Path

from onnxlab.diagnosis.trial import Input, feed, starts, symbols_of
from onnxlab.model.diff import diff
from onnxlab.model.distance import largest_difference
from onnxlab.plain_text import plain
from onnxlab.runtime.refusals import named_reason
from onnxlab.runtime.session import open_session


@dataclass(frozen=True)
class Pair:
    """The comparison of two files.

    Attributes:
        structure: What differs in their graphs, as text.
        outputs: A row for each output: its name, its shapes, the largest absolute difference.
        verdict: The result in a sentence.
        equal: Whether they have the same outputs, to 0.00001 of the largest value.
    """

    structure: str
    outputs: tuple[tuple[str, str, str], ...]
    verdict: str
    equal: bool


def compare_files(first: Path, second: Path) -> Pair:
    """Compare two files; both are run with the same normally distributed inputs where both accept them.

    Raises:
        ModelNotReadable: If one of them is not an ONNX model.
    """
    structure = str(diff(first, second))
    try:
        sessions = [open_session(path) for path in (first, second)]
    except Exception as error:  # the runtime raises plain Exception subclasses and RuntimeError
        return Pair(structure, (), f"One of them does not load: {plain(named_reason(error), 200)}", False)
    inputs = [[Input(value) for value in session.get_inputs()] for session in sessions]
    kinds = [[(value.kind, len(value.axes)) for value in values] for values in inputs]
    if kinds[0] != kinds[1] or any(kind is None for kind, _ in kinds[0]):
        return Pair(structure, (), "Their inputs are of different types or ranks: they were not run.", False)
    symbols = symbols_of([*inputs[0], *inputs[1]])
    refusal = ""
    for sizes in starts(symbols, frozenset()):
        arrays = list(feed(inputs[0], sizes).values())
        try:
            results = [
                session.run(None, {value.name: array for value, array in zip(values, arrays, strict=True)})
                for session, values in zip(sessions, inputs, strict=True)
            ]
        except Exception as error:  # these sizes may be none that they accept
            refusal = plain(named_reason(error), 200)
            continue
        return _compared(structure, [value.name for value in sessions[0].get_outputs()], *results)
    return Pair(structure, (), f"They do not run with the same inputs: {refusal}", False)


def _compared(structure: str, names: list[str], ours: list[object], theirs: list[object]) -> Pair:
    rows, equal = [], len(ours) == len(theirs)
    for name, a, b in zip(names, ours, theirs, strict=False):
        shapes = [getattr(value, "shape", None) for value in (a, b)]
        if shapes[0] is None or shapes[0] != shapes[1]:
            rows.append((plain(name, 60), f"{shapes[0]}, {shapes[1]}", "not comparable"))
            equal = False
            continue
        difference = largest_difference(a, b)  # type: ignore[arg-type]  # both have a shape: they are arrays
        scale = max(1.0, largest_difference(a, a * 0))  # type: ignore[arg-type, operator]  # as above
        rows.append((plain(name, 60), str(shapes[0]), f"{difference:.3g}"))
        equal = equal and difference <= 1e-5 * scale
    same = "Their outputs agree for normally distributed inputs."
    return Pair(structure, tuple(rows), same if equal else "Their outputs differ.", equal)
