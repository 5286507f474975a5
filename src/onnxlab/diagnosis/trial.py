"""A trial of a model file in a process of its own: checker, shape inference, loading, runs at some sizes.

A file can end the process that opens it, or keep it busy for ever. So each step is reported, as a line of
JSON, when it ends: what was not reported is the step that failed. The last line says that all was tried.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnxlab.model.distance import Array, largest_difference
from onnxlab.runtime.apart import attempt, open_by_path, run_once, say
from onnxlab.runtime.divergence import expose
from onnxlab.runtime.refusals import short_reason
from onnxlab.runtime.session import open_session
from onnxlab.runtime.values import SIZES, ModelInputs, Sizes, read_values

_LARGEST = 1 << 24
"""Bytes of a file up to which it is loaded a second time, to look inside."""
_DYNAMIC = ("DynamicQuantizeLinear", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul")
_FREE = ("Compress", "NonMaxSuppression", "NonZero", "StringNormalizer", "StringSplit", "Unique")
"""Operators whose result is as long as the values of their inputs say."""
_STATE = re.compile(r"past|cache|state|hidden|memory", re.IGNORECASE)


def main(model: Path, structure: Path, skip: int, optimised: str, given: str) -> None:
    """Report each step of the trial.

    Args:
        model: The file.
        structure: The same model without its large weights, for what reads all of it into memory.
        skip: How many sizes to leave out at the beginning: those that ended an earlier trial.
        optimised: Where to write the model as the runtime rewrites it; empty to leave that out.
        given: Values to run it with, as for `read_values`; empty to draw them.
    """
    say("start")
    refusal = attempt(lambda: onnx.checker.check_model(str(model)))
    say("checker", error=refusal)
    alone = onnx.load(structure, load_external_data=False)
    inferred, error = [alone], ""
    try:
        # With what the checker refuses, inference can end the process.
        inferred = [] if refusal else [onnx.shape_inference.infer_shapes(alone, strict_mode=True)]
    except Exception as refused:  # ONNX raises many kinds
        error = short_reason(refused)
    say("inference", error=error)
    session, error, without = _session(model, optimised), "", False
    if isinstance(session, str):
        error, session = session, _session(model, "", optimise=False)
        without = not isinstance(session, str)
    say("load", error=error, without_optimiser=without)
    if isinstance(session, str):
        return
    inputs = ModelInputs(inferred[0] if inferred else alone)
    trial = _Trial(session, inputs, alone, model if not without else None)
    if given:
        for batch in read_values(Path(given)):
            say("given", error=attempt(partial(run_once, session, batch)))
            trial.base(batch, {})
    if inputs.undrawable:
        say("understood", reasons=inputs.undrawable)
    else:
        trial.drawn(skip, examine=not given)
    _half(model, inputs)


def _session(model: Path, optimised: str, *, optimise: bool = True) -> Any:  # noqa: ANN401 - the runtime ships no types
    """Return a session, or why there is none."""
    # Not what depends on the processor: the symptoms of a file are the same everywhere.
    level = "ENABLE_EXTENDED" if optimise else "DISABLE_ALL"
    try:
        return open_by_path(model, level=level, rewritten=optimised)
    except Exception as error:  # the runtime raises plain Exception subclasses and RuntimeError
        return short_reason(error)


class _Trial:
    """Runs of a loaded file.

    Args:
        session: The session.
        inputs: What its inputs are.
        structure: The model without its large weights.
        optimised: The file, if the session is one with the optimiser on.
    """

    def __init__(
        self,
        session: Any,  # noqa: ANN401 - as above
        inputs: ModelInputs,
        structure: onnx.ModelProto,
        optimised: Path | None,
    ) -> None:
        self._session, self._inputs, self._structure, self._optimised = session, inputs, structure, optimised
        self._names = [value.name for value in session.get_outputs()]

    def drawn(self, skip: int, *, examine: bool) -> None:
        """Report where the model runs with drawn values: at some sizes, and with each axis at others."""
        inputs, base, error = self._inputs, None, ""
        for sizes in islice(inputs.sizes(), skip, None):
            say("trying", sizes=sizes)
            error = self._outcome(sizes)
            if not error:
                base = sizes
                break
        say("run", sizes=base, error="" if base is not None else error)
        if base is None:
            return
        if examine:
            self.base(inputs.draw(base), base)
        for axis, tried in inputs.neighbours(base):
            results = {size: self._at_size(base, axis, size) for size in tried}
            if all(results.values()):  # what fails a little further may run at a round number
                for size in (3 * base[axis], 4 * base[axis], 64, 96, 128, 224):
                    if size > base[axis] and size not in results:
                        results[size] = self._outcome({**base, axis: size})
            batch, state = axis in inputs.first, self._is_state(axis)
            say("axis", symbol=axis, base=base[axis], results=[*results.items()], batch=batch, state=state)

    def base(self, batch: Mapping[str, Array], sizes: Sizes) -> None:
        """Report what is seen in a run: again, finite, as declared, each element of a batch by itself."""
        outputs: list[Any] = []
        if attempt(lambda: outputs.extend(run_once(self._session, batch))):
            return
        # Three times: of few elements, two draws agree by chance.
        others = [run_once(self._session, batch) for _ in range(3)]
        runs = {name: [a, *more] for name, a, *more in zip(self._names, outputs, *others, strict=True)}
        random = [name for name, (a, *more) in runs.items() if any(differs(a, b, 0.0) for b in more)]
        say("again", differing=random)
        broken = [n for n, a in zip(self._names, outputs, strict=True) if is_broken(a)]
        fed = [n for n, a in batch.items() if is_broken(a)]
        say("finite", broken=broken, first=self._first_broken(batch) if broken and not fed else "", fed=fed)
        declared = [list(value.shape) for value in self._session.get_outputs()]
        made = [list(getattr(output, "shape", [])) for output in outputs]
        if not self._inputs.sets_sizes:  # drawn sizes are none that the declaration knows
            free = {
                name for node in self._structure.graph.node if node.op_type in _FREE for name in node.output
            }
            shapes = zip(self._names, declared, made, strict=True)
            say("shapes", shapes=[row for row in shapes if row[0] not in free])
        if not random and not broken:
            self._without_optimiser(batch, outputs)
        first = [values.dims[:1] for values in self._inputs.values if values.dims]
        whole = len(set(first)) == 1 and all(len(a) >= 2 for a in batch.values() if a.ndim)
        if sizes and whole and not random and first[0] and first[0][0] in self._inputs.first:
            self._rows(batch, sizes, outputs)

    def _rows(self, batch: Mapping[str, Array], sizes: Sizes, outputs: Sequence[Any]) -> None:
        """Report the outputs whose first element changes when the others of the batch do, and by how much."""
        others = self._inputs.draw(sizes, seed=100)
        # Not the first element alone: a runtime may compute a batch of one in another order.
        mixed = {n: np.concatenate([a[:1], others[n][1:]]) if a.ndim else a for n, a in batch.items()}
        changed: list[Any] = []
        if attempt(lambda: changed.extend(run_once(self._session, mixed))):
            return  # other whole numbers may be no valid input
        count = max(len(array) for array in batch.values() if array.ndim)
        moved = {}
        for name, a, b in zip(self._names, outputs, changed, strict=True):
            alike = isinstance(a, np.ndarray) and a.shape[:1] == (count,) and a.shape == b.shape
            if alike and differs(a[:1], b[:1], 1e-4):
                moved[name] = [largest_difference(a[:1], b[:1]), float(np.abs(a[:1]).max())]
        dynamic = [node.op_type for node in self._structure.graph.node if node.op_type in _DYNAMIC]
        say("rows", moved=moved, dynamic=dynamic[:1])

    def _without_optimiser(self, batch: Mapping[str, Array], outputs: Sequence[Any]) -> None:
        """Report the outputs that the runtime's optimiser changes."""
        # Whole numbers of few bits are rounded at other places where nodes are fused; the course measures it.
        rounded = any("Quantize" in node.op_type for node in self._structure.graph.node)
        if rounded or self._optimised is None or self._optimised.stat().st_size > _LARGEST:
            return
        session, plain = _session(self._optimised, "", optimise=False), []
        if not attempt(lambda: plain.extend(run_once(session, batch))):
            pairs = zip(self._names, plain, outputs, strict=True)
            say("optimiser", differing=[name for name, a, b in pairs if differs(a, b, 0.01)])

    def _first_broken(self, batch: Mapping[str, Array]) -> str:
        """Return the first node that makes a value which is not finite; empty if none is found."""
        if self._optimised is None or self._optimised.stat().st_size > _LARGEST:
            return ""
        proto, broken = onnx.load(self._optimised), _broken_inside(self._optimised, batch)
        nodes = (node for node in proto.graph.node if broken & {*node.output})
        return next((f"{node.op_type} {node.name or node.output[0]}" for node in nodes), "")

    def _outcome(self, sizes: Sizes) -> str:
        """Return why the model does not run at some sizes, or an empty string."""
        return attempt(lambda: run_once(self._session, self._inputs.draw(sizes)))

    def _at_size(self, base: Sizes, axis: str, size: int) -> str:
        """Return why the model does not run with an axis at another size, or an empty string.

        Two axes can depend on each other, as the length of a mask and of what it masks: where the one fails
        alone, another one grows by as much, is as long, or is 1; then all of them.
        """
        refusal, others = "", [other for other in self._inputs.axes if other != axis]
        grown = ({other: base[other] + size - base[axis]} for other in others)
        equal = ({other: size} for other in others)
        single = ({other: 1} for other in others)
        for more in ({}, *grown, *equal, *single, dict.fromkeys(others, size)):
            if min([*more.values(), size]) >= 1 and not (
                error := self._outcome({**base, axis: size, **more})
            ):
                return ""
            refusal = refusal or error
        return refusal

    def _is_state(self, axis: str) -> bool:
        """Whether an axis is nothing but the last one of states: the size of a head, which a weight fixes."""
        places = [
            (v.name, i == len(v.dims) - 1)
            for v in self._inputs.values
            for i, name in enumerate(v.dims or ())
            if name == axis and v.dims
        ]
        return all(last and _STATE.search(name) for name, last in places)


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


def _broken_inside(model: Path, batch: Mapping[str, Array]) -> set[str]:
    """Return the inner values of a file that are not finite, without the optimiser."""
    session = open_session(expose(model, only=True), optimize=False)
    names = [value.name for value in session.get_outputs()]
    return {name for name, array in zip(names, run_once(session, batch), strict=True) if is_broken(array)}


def _half(model: Path, inputs: ModelInputs) -> None:
    """Report the inner values of type float16 that are not finite."""
    if model.stat().st_size > _LARGEST or inputs.undrawable:
        return
    proto = onnx.load(model)
    if not any(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in proto.graph.initializer):
        return
    for size in SIZES:  # of the first axes, too: a small batch has few large values
        with suppress(Exception):  # sizes that it does not accept
            say("half", broken=sorted(_broken_inside(model, inputs.draw(dict.fromkeys(inputs.axes, size)))))
            return


if __name__ == "__main__":
    _model, _structure, _skip, _optimised, _given = sys.argv[1:]
    main(Path(_model), Path(_structure), int(_skip), _optimised, _given)
    say("end")
