"""Where two models that should compute the same begin to differ: which nodes of the second make the error.

Three runs with one input: all values of the first model, all of the second, and then the second cut at
every value that has a counterpart in the first and fed with the first model's. What differs now was made
between the cut and the value, and not before. A last run proves it: with the first model's value at that one
place the outputs must come closer.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
import onnx
import onnx.inliner

from onnxlab.model.diff import diff
from onnxlab.model.distance import Array
from onnxlab.model.graph import GraphNode, edges
from onnxlab.model.load import ModelLike, load
from onnxlab.runtime.divergence import expose, inner_values, nodes_between
from onnxlab.runtime.session import open_session

EXPECTED = {"float32": 5e-5, "float16": 5e-3, "bfloat16": 4e-2, "int8": 0.15}
"""The error, relative to the values, that a few operations in a type make by rounding alone."""

_INT8_SPREAD = 3  # one region of an int8 file is a suspect from so many times the median of all
_ALIKE, _EQUAL = 0.1, 0.01  # errors up to which values with one name, or in one shape, are counterparts
_GAIN = math.sqrt(2)  # 3 dB: what a suspect's repair must gain
_MOST = 5  # suspects that are repaired
_SAMPLE = 64  # elements that are compared before whole values are
_MADE = "@made"  # after the name of a value whose readers are fed


@dataclass(frozen=True)
class Region:
    """The nodes of the second model between values that have counterparts, and the error they make.

    Attributes:
        value: The value that they make.
        counterpart: The same value of the first model.
        nodes: The nodes, in order; the last makes the value.
        kind: The narrowest type they compute in.
        whole: The value's error relative to its counterpart, with all that came before.
        added: The error that these nodes add.
        repaired: The largest error of an output after the value was replaced; None where that was not tried.
    """

    value: str
    counterpart: str
    nodes: tuple[GraphNode, ...]
    kind: str
    whole: float
    added: float
    repaired: float | None = None


@dataclass(frozen=True)
class Origin:
    """Where the error of the second model's outputs is made.

    Attributes:
        matched: How many values of the second model have a counterpart.
        values: How many it has.
        error: The largest error of an output, with the runtime's optimiser off.
        suspects: The regions that add more than their types explain, in the order of the graph.
        repaired: The largest error of an output with all suspects' values replaced.
        most: The regions that add most, where there is no suspect.
        unmatched: The first node whose value has a counterpart of another shape, with both shapes; or None.
    """

    matched: int
    values: int
    error: float
    suspects: tuple[Region, ...]
    repaired: float | None
    most: tuple[Region, ...]
    unmatched: tuple[GraphNode, str, str] | None


def error_origin(
    first: ModelLike, second: ModelLike, inputs: tuple[Mapping[str, Array], Mapping[str, Array]]
) -> Origin:
    """Find the nodes of the second model that make the difference of its outputs.

    Args:
        first: The model that is taken to be right.
        second: The other.
        inputs: The same values for the inputs of each, by name.

    Example:
        >>> from onnxlab.history import recorded_graph
        >>> silu, x = recorded_graph("1.8.1", "silu_9"), {"input": np.ones(3, np.float32)}
        >>> origin = error_origin(silu, silu, (x, x))
        >>> origin.matched, origin.suspects
        (2, ())
    """
    ours, theirs = (_Traced(model, feed) for model, feed in zip((first, second), inputs, strict=True))
    return _Search(ours, theirs).origin()


def relative_error(expected: Array, actual: Array) -> float:
    """Return the root of the mean square error relative to that of the expected values.

    Of whole numbers and Boolean values it is the share that differs. What is a mask in both, infinite or too
    large for float16 with the same sign, is left out.

    Example:
        >>> relative_error(np.float32([3, 4]), np.float32([3, 4.5]))
        0.1
    """
    if expected.shape != actual.shape:
        return math.inf
    if "f" not in expected.dtype.kind + actual.dtype.kind:
        return float(np.mean(expected != actual)) if expected.size else 0.0
    half = np.float16 in (expected.dtype, actual.dtype)
    a, b = expected.astype(np.float64).ravel(), actual.astype(np.float64).ravel()
    largest = 3e4 if half else 1e30
    if not a @ a <= largest**2:  # otherwise nothing in it is a mask or NaN, and looking for them takes long
        masks = (np.abs(a) > largest) & (np.abs(b) > 1e3) & (np.sign(a) == np.sign(b))
        kept = ~(masks | (np.isnan(a) & np.isnan(b)))
        a, b = a[kept], b[kept]
    difference = a - b
    signal, noise = float(a @ a), float(difference @ difference)
    if not math.isfinite(noise):
        return math.inf
    return math.sqrt(noise / signal) if signal else math.inf * noise if noise else 0.0


class _Traced:
    """A model with what all its values are for one input."""

    def __init__(self, model: ModelLike, feed: Mapping[str, Array]) -> None:
        loaded = load(model)
        self.model = onnx.inliner.inline_local_functions(loaded) if loaded.functions else loaded
        self.feed = feed
        self.makers, self.reads = edges(self.model)
        self.outputs = [value.name for value in self.model.graph.output]
        names = [name for name in inner_values(self.model) if self.makers[name].op != "Constant"]
        self.values = _run(expose(self.model, names, only=True), names, feed)
        self.place = {name: int(node.path) / len(self.model.graph.node) for name, node in self.makers.items()}
        self._halves = {
            tensor.name: onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).name
            for tensor in self.model.graph.initializer
        }

    def kind(self, nodes: Sequence[GraphNode]) -> str:
        """Return the narrowest type that some nodes compute in, by their values and weights."""
        if any(quantises(node.op) for node in nodes):
            return "int8"
        names = [name for node in nodes for name in (*node.inputs, *node.outputs)]
        types = {str(self.values[name].dtype) for name in names if name in self.values}
        types |= {self._halves.get(name, "") for name in names}
        return next((kind for kind in ("bfloat16", "float16") if kind in types), "float32")

    def fed(self, values: Mapping[str, Array], wanted: Iterable[str]) -> dict[str, Array]:
        """Return values of a run in which the readers of some values get others, each in its own type.

        Of a value that is fed, what its node makes is returned.
        """
        cut = onnx.ModelProto()
        cut.CopyFrom(self.model)
        graph = cut.graph
        for node in graph.node:
            for i, name in enumerate(node.output):
                if name in values:
                    node.output[i] = name + _MADE
        for name in values:
            kind = onnx.helper.np_dtype_to_tensor_dtype(self.values[name].dtype)
            graph.input.append(onnx.helper.make_tensor_value_info(name, kind, None))
        del graph.value_info[:], graph.output[:]
        made = {name: name + _MADE if name in values else name for name in wanted}
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in made.values())
        feed = {**self.feed, **{name: _as_type(x, self.values[name].dtype) for name, x in values.items()}}
        results = _run(cut, list(made.values()), feed)
        return {name: results[inner] for name, inner in made.items() if inner in results}


def quantises(operator: str) -> bool:
    """Whether an operator makes or reads whole numbers that stand for fractions.

    Example:
        >>> [quantises(name) for name in ("QLinearConv", "DequantizeLinear", "Conv")]
        [True, True, False]
    """
    return any(word in operator for word in ("Quant", "Dequant", "QLinear", "Integer", "NBits", "::QGemm"))


def _as_type(array: Array, dtype: np.dtype[np.generic]) -> Array:
    if dtype == np.float16:  # a mask of -1e9 would be -inf, and a row of such NaN
        array = np.where(np.isfinite(array), np.clip(array, -65504, 65504), array)
    return array.astype(dtype)


def _run(model: onnx.ModelProto, names: Sequence[str], feed: Mapping[str, Array]) -> dict[str, Array]:
    """Run a model whose outputs are `names`; a value that cannot be one is left out."""
    if not names:
        return {}
    try:
        session = open_session(model, optimize=False)
        results = session.run(list(names), {value.name: feed[value.name] for value in session.get_inputs()})
    except Exception:  # the runtime raises plain Exception subclasses; half of the values may do
        if len(names) == 1:
            return {}
        values: dict[str, Array] = {}
        for part in (names[: len(names) // 2], names[len(names) // 2 :]):
            kept = {value.name: value for value in model.graph.output}
            smaller = onnx.ModelProto()
            smaller.CopyFrom(model)
            del smaller.graph.output[:]
            smaller.graph.output.extend(kept[name] for name in part)
            values |= _run(smaller, part, feed)
        return values
    pairs = zip(names, results, strict=True)
    return {name: x for name, x in pairs if isinstance(x, np.ndarray) and x.dtype.kind in "fiub"}


class _Search:
    """The values of two models that are counterparts, and the errors between them."""

    def __init__(self, ours: _Traced, theirs: _Traced) -> None:
        self.ours, self.theirs = ours, theirs
        self.counterparts: dict[str, str] = {}  # by the name in the second model
        self._taken: set[str] = set()
        self._structural = self._matched_nodes()
        self._match()

    def origin(self) -> Origin:
        theirs = self.theirs
        targets = sorted(self.counterparts, key=lambda name: (int(theirs.makers[name].path), name))
        expected = {name: self.ours.values[self.counterparts[name]] for name in targets}
        replayed = theirs.fed(expected, targets)
        regions = []
        for name in targets:
            nodes = nodes_between(theirs.makers, theirs.reads, name, self.counterparts)
            whole = relative_error(expected[name], theirs.values[name])
            added = relative_error(expected[name], replayed[name]) if name in replayed else 0.0
            kind = theirs.kind(nodes)
            regions.append(Region(name, self.counterparts[name], nodes, kind, whole, added))
        limits = self._limits(regions)
        excess = {region.value: region.added / limits[region.kind] for region in regions}
        before = self._output_errors({})
        ranked = sorted(regions, key=lambda region: -excess[region.value])
        worst = [region for region in ranked if self._is_suspect(region, limits)][:_MOST]
        suspects = [*filter(None, (self._repaired(region, before) for region in worst))]
        together = {region.value: expected[region.value] for region in suspects}
        most = [region for region in ranked if math.isfinite(region.added) and region.added > 0][:3]
        return Origin(
            matched=len(targets),
            values=len(theirs.values),
            error=max(before.values(), default=0.0),
            suspects=tuple(sorted(suspects, key=lambda region: targets.index(region.value))),
            repaired=max(self._output_errors(together).values(), default=0.0) if together else None,
            most=() if suspects else tuple(most),
            unmatched=self._unmatched(),
        )

    def _limits(self, regions: Sequence[Region]) -> dict[str, float]:
        rounded = [region.added for region in regions if region.kind == "int8" and 0 < region.added < 1]
        return {**EXPECTED, "int8": max(EXPECTED["int8"], _INT8_SPREAD * median(rounded or [0.0]))}

    def _is_suspect(self, region: Region, limits: Mapping[str, float]) -> bool:
        # The first model's value may not fit the second's type: what only the replay shows is no fault.
        limit = limits[region.kind]
        return region.added > limit and (region.kind == "int8" or region.whole > limit)

    def _output_errors(self, values: Mapping[str, Array]) -> dict[str, float]:
        """Return the error of each output with some values replaced by the first model's."""
        made = dict(values)
        wanted = [name for name in self._outputs if name not in values]
        made |= self.theirs.fed(values, wanted) if values else self.theirs.values
        return {
            name: relative_error(self.ours.values[counterpart], made[name])
            for name, counterpart in self._outputs.items()
            if name in made
        }

    def _repaired(self, region: Region, before: Mapping[str, float]) -> Region | None:
        """Return a suspect with what its repair leaves of the error; None if no output gains by it."""
        after = self._output_errors({region.value: self.ours.values[region.counterpart]})
        pairs = [(before[name], error) for name, error in after.items() if name in before]
        # Of outputs in another shape it cannot be said what a repair gains.
        if not any(error > _GAIN * left or error == left == math.inf for error, left in pairs):
            return None
        return replace(region, repaired=max(after.values(), default=0.0))

    # Counterparts

    def _matched_nodes(self) -> dict[str, str]:
        """Return the values of nodes that the structural comparison pairs, where the operator is the same."""
        ours, theirs = (
            {node.path: node for node in side.makers.values()} for side in (self.ours, self.theirs)
        )
        changes = diff(self.ours.model, self.theirs.model)
        pairs = [*changes.same, *((change.before.path, change.after.path) for change in changes.changed)]
        return {
            value: counterpart
            for path, other in pairs
            if path in ours and other in theirs and ours[path].op == theirs[other].op
            for counterpart, value in zip(ours[path].outputs, theirs[other].outputs, strict=False)
        }

    def _match(self) -> None:
        """Pair outputs, then names and nodes whose values are alike, then equal values, then the rest."""
        ours, theirs = self.ours, self.theirs
        by_name = set(ours.outputs) == set(theirs.outputs)
        pairs = zip(theirs.outputs, theirs.outputs if by_name else ours.outputs, strict=False)
        self._outputs = {a: b for a, b in pairs if a in theirs.values and b in ours.values}
        for name, counterpart in self._outputs.items():
            self._pair(name, counterpart, math.inf)
        for name in theirs.values:
            self._pair(name, name, _ALIKE)
        for name in theirs.values:
            self._pair(name, self._structural.get(name, ""), _ALIKE)
        self._match_equal()
        for name in theirs.values:
            self._pair(name, name, math.inf)
            self._pair(name, self._structural.get(name, ""), math.inf)

    def _pair(self, name: str, counterpart: str, most: float) -> None:
        if name in self.counterparts or counterpart in self._taken:
            return
        a, b = self.ours.values.get(counterpart), self.theirs.values.get(name)
        if a is None or b is None or a.shape != b.shape or (a.dtype.kind == "f") != (b.dtype.kind == "f"):
            return
        if most == math.inf or relative_error(a, b) <= most:
            self.counterparts[name] = counterpart
            self._taken.add(counterpart)

    def _match_equal(self) -> None:
        """Pair values that hold the same numbers, whatever made them; the nearest in order first."""
        free: dict[tuple[int, ...], list[tuple[str, Array]]] = defaultdict(list)
        for name, array in self.ours.values.items():
            if name not in self._taken and _is_telling(array):
                free[array.shape].append((name, _sample(array)))
        for name, array in self.theirs.values.items():
            node = self.theirs.makers[name]
            copies = node.op == "Cast" and node.inputs[0] in self.counterparts
            if name in self.counterparts or copies or node.op == "DequantizeLinear" or not _is_telling(array):
                continue
            sample, place = _sample(array), self.theirs.place[name]
            alike = [
                other for other, numbers in free[array.shape] if relative_error(numbers, sample) <= _ALIKE
            ]
            for other in sorted(alike, key=lambda other: abs(self.ours.place[other] - place)):
                self._pair(name, other, _EQUAL)

    def _unmatched(self) -> tuple[GraphNode, str, str] | None:
        """Return the first node whose counterpart makes another shape, with both shapes."""
        for name, b in self.theirs.values.items():
            a = self.ours.values.get(self._structural.get(name, name))
            if name not in self.counterparts and a is not None and a.shape != b.shape:
                return self.theirs.makers[name], str(list(a.shape)), str(list(b.shape))
        return None


def _is_telling(array: Array) -> bool:
    """Whether equal numbers in another value can be no accident."""
    return array.dtype.kind == "f" and array.size >= 4 and bool(np.ptp(array) > 0)


def _sample(array: Array) -> Array:
    return array.reshape(-1)[:: max(1, array.size // _SAMPLE)][:_SAMPLE]
