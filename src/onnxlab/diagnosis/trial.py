"""A trial of a model file in a process of its own: checker, shape inference, loading, runs at some sizes.

A file can end the process that opens it, or keep it busy for ever. So each step is reported, as a line of
JSON, when it ends: what was not reported is the step that failed. The last line says that all was tried.
"""

import functools
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types

from onnxlab.model.distance import Array, largest_difference
from onnxlab.runtime.refusals import short_reason
from onnxlab.runtime.session import NUMPY_TYPES

_SIZES = (32, 8, 4, 16, 64, 3, 5, 2, 1, 128, 224, 512)
_LARGEST = 1 << 24
"""Elements of an input at most."""

Sizes = Mapping[str, int]


def main(model: Path, structure: Path, skip: int, optimised: Path | None) -> None:
    """Report each step of the trial.

    Args:
        model: The file.
        structure: The same model without its large weights, for what reads all of it into memory.
        skip: How many sizes to leave out at the beginning: those that ended an earlier trial.
        optimised: Where to write the model as the runtime rewrites it; None to leave that out.
    """
    refusal = attempt(lambda: onnx.checker.check_model(str(model)))
    say("checker", error=refusal)
    alone = onnx.load(structure, load_external_data=False)
    infer = functools.partial(onnx.shape_inference.infer_shapes, alone, strict_mode=True)
    say("inference", error="" if refusal else attempt(infer))
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    # Not what depends on the processor: the symptoms of a file are the same everywhere.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    if optimised is not None:
        options.optimized_model_filepath = str(optimised)
    try:
        session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime raises plain Exception subclasses and RuntimeError
        say("load", error=short_reason(error))
        return
    say("load", error="")
    inputs = [Input(value) for value in session.get_inputs()]
    if any(value.kind is None for value in inputs):
        say("understood", names=[value.name for value in inputs if value.kind is None])
        return
    run(session, inputs, skip)
    inner_values(model, options, inputs)


def say(step: str, **facts: object) -> None:
    """Report a step."""
    print(json.dumps({"step": step, **facts}), flush=True)


def attempt(action: Callable[[], object]) -> str:
    """Return the reason why an action fails, or an empty string."""
    try:
        action()
    except Exception as error:  # ONNX raises many kinds
        return short_reason(error)
    return ""


class Input:
    """An input of a session: its axes by name, and arrays for it."""

    def __init__(self, value: Any) -> None:  # noqa: ANN401 - the runtime's NodeArg has no type information
        self.name = str(value.name)
        kind = NUMPY_TYPES.get(value.type)
        self.kind = np.dtype(kind) if kind else None  # None: a string, a sequence, a map
        # An axis without a name is an axis of its own.
        self.axes = [
            axis if isinstance(axis, int) and axis >= 0 else str(axis or f"{value.name} axis {i}")
            for i, axis in enumerate(value.shape)
        ]

    def array(self, sizes: Sizes, seed: int = 0) -> Array:
        """Return finite values: of a normal distribution, or 0 and 1 where the type has no fractions."""
        shape = [axis if isinstance(axis, int) else sizes[axis] for axis in self.axes]
        if np.prod(shape, dtype=object) > _LARGEST:
            raise MemoryError(shape)
        random = np.random.default_rng(seed)
        assert self.kind is not None
        if self.kind.kind == "f":
            return random.standard_normal(shape).astype(self.kind)
        return random.integers(0, 2, shape).astype(self.kind)


def feed(inputs: Sequence[Input], sizes: Sizes) -> dict[str, Array]:
    """Return arrays of the given sizes for all inputs."""
    return {value.name: value.array(sizes, seed) for seed, value in enumerate(inputs)}


def starts(symbols: Sequence[str], first: frozenset[str]) -> Iterator[dict[str, int]]:
    """Yield sizes to begin with; the first axes, which are often batches, stay small."""
    if not symbols:
        yield {}
        return
    # A batch of another size last: a file that was frozen at it accepts no other.
    for size, batch in [*product(_SIZES, (2, 1)), *product(_SIZES[:6], (3, 4, 5, 8, 16, 32))]:
        yield {symbol: batch if symbol in first else size for symbol in symbols}


def run(session: Any, inputs: Sequence[Input], skip: int) -> None:  # noqa: ANN401 - the runtime ships no types
    """Report where the model runs: at one set of sizes, again, and with each axis at other sizes."""
    symbols = symbols_of(inputs)
    first = frozenset(symbol for symbol in symbols if all(symbol not in value.axes[1:] for value in inputs))
    base, error = None, ""
    for sizes in islice(starts(symbols, first), skip, None):
        say("trying", sizes=sizes)
        error = outcome(session, inputs, sizes)
        if not error:
            base = sizes
            break
    whole = any(value.kind and value.kind.kind != "f" for value in inputs)
    say("run", sizes=base, error="" if base is not None else error, whole=whole)
    if base is None:
        return
    arrays = feed(inputs, base)
    outputs, again = session.run(None, arrays), session.run(None, arrays)
    names = [value.name for value in session.get_outputs()]
    say("again", differing=[n for n, a, b in zip(names, outputs, again, strict=True) if differs(a, b, 0.0)])
    say("finite", broken=[n for n, a in zip(names, outputs, strict=True) if is_broken(a)])
    declared = [list(value.shape) for value in session.get_outputs()]
    made = [list(getattr(output, "shape", [])) for output in outputs]
    say("shapes", shapes=list(zip(names, declared, made, strict=True)))
    for symbol in symbols:
        size = base[symbol]
        tried = sorted({size + 1, 2 * size, 2 * size + 1} | ({1} if symbol in first else set()) - {size})
        results = {new: at_size(session, inputs, base, symbol, new) for new in tried}
        if all(results.values()):  # what fails a little further may run at a round number
            for new in (3 * size, 4 * size, 64, 96, 128, 224):
                if new > size and new not in results:
                    results[new] = outcome(session, inputs, {**base, symbol: new})
        say("axis", symbol=symbol, base=size, results=list(results.items()), batch=symbol in first)
    batches = [symbol for symbol in first if all(value.axes[:1] == [symbol] for value in inputs)]
    if batches and base[batches[0]] >= 2:
        alone = changed_with_the_batch(session, inputs, base, arrays, outputs)
        say("rows", differing=[n for n, bad in zip(names, alone, strict=True) if bad])


def symbols_of(inputs: Sequence[Input]) -> list[str]:
    """Return the names of the inputs' dynamic axes, each once."""
    return list(dict.fromkeys(axis for value in inputs for axis in value.axes if isinstance(axis, str)))


def outcome(session: Any, inputs: Sequence[Input], sizes: Sizes) -> str:  # noqa: ANN401 - as above
    """Return why the model does not run at some sizes, or an empty string."""
    return attempt(lambda: session.run(None, feed(inputs, sizes)))


def at_size(session: Any, inputs: Sequence[Input], base: Sizes, symbol: str, size: int) -> str:  # noqa: ANN401
    """Return why the model does not run with an axis at another size, or an empty string.

    Two axes can depend on each other, as the length of a mask and of what it masks: where the one fails
    alone, it is tried with another one, and with all.
    """
    symbols, refusal = symbols_of(inputs), ""
    for others in ([], *([other] for other in symbols if other != symbol), symbols):
        error = outcome(session, inputs, {**base, **dict.fromkeys(others, size), symbol: size})
        if not error:
            return ""
        refusal = refusal or error
    return refusal


def changed_with_the_batch(
    session: Any,  # noqa: ANN401 - as above
    inputs: Sequence[Input],
    sizes: Sizes,
    arrays: Mapping[str, Array],
    outputs: Sequence[Any],
) -> list[bool]:
    """Return for each output whether its first element changes when the others of the batch do."""
    others = {value.name: value.array(sizes, seed=100 + i) for i, value in enumerate(inputs)}
    # Not the first element alone: a runtime may compute a batch of one in another order.
    mixed = {name: np.concatenate([array[:1], others[name][1:]]) for name, array in arrays.items()}
    try:
        changed = session.run(None, mixed)
    except Exception:  # other whole numbers may be no valid input
        return [False] * len(outputs)
    batch = len(next(iter(arrays.values())))
    return [
        isinstance(a, np.ndarray)
        and a.shape[:1] == (batch,)
        and a.shape == b.shape
        and differs(a[:1], b[:1], 1e-4)
        for a, b in zip(outputs, changed, strict=True)
    ]


def differs(a: Any, b: Any, tolerance: float) -> bool:  # noqa: ANN401 - arrays, lists or maps
    """Whether two outputs differ, relative to the largest value."""
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return False
    if a.shape != b.shape or a.dtype.kind not in "fiub":
        return bool(a.shape != b.shape)
    scale = max(1.0, float(np.abs(np.nan_to_num(a.astype(np.float64))).max(initial=0.0)))
    return bool(largest_difference(a, b) > tolerance * scale)


def is_broken(array: Any) -> bool:  # noqa: ANN401 - an array, or a list
    """Whether an output has values that are not finite."""
    return isinstance(array, np.ndarray) and array.dtype.kind == "f" and not bool(np.isfinite(array).all())


def inner_values(model: Path, options: Any, inputs: Sequence[Input]) -> None:  # noqa: ANN401 - as above
    """Report the inner values of type float16 that are not finite."""
    if model.stat().st_size > _LARGEST:
        return
    proto = onnx.load(model)
    if not any(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in proto.graph.initializer):
        return
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.optimized_model_filepath = ""
    from onnxlab.runtime.divergence import expose  # loads torch, which few files need

    data = expose(proto, only=True).SerializeToString()
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    large = starts(symbols_of(inputs), frozenset())  # a small batch has few large values
    sizes = next((sizes for sizes in large if not outcome(session, inputs, sizes)), None)
    values = session.run(None, feed(inputs, sizes)) if sizes is not None else []
    names = [value.name for value in session.get_outputs()][: len(values)]
    say("half", broken=[n for n, a in zip(names, values, strict=True) if is_broken(a)])


if __name__ == "__main__":
    _model, _structure, _skip, *_optimised = sys.argv[1:]
    main(Path(_model), Path(_structure), int(_skip), next(map(Path, _optimised), None))
    say("end")
