"""Two model files run with the same values, in a process of its own: where both run, what their outputs are.

Each step is reported as a line of JSON when it ends, as in a trial of one file: a file can end the process
that opens it, or keep it busy for ever.
"""

import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.external_data_helper import uses_external_data

from onnxlab.errors import ModelNotReadable
from onnxlab.message import Message
from onnxlab.model.distance import Array, magnitude
from onnxlab.model.graph import declared, tensor_array, weight_array
from onnxlab.model.load import load_alone, tensors
from onnxlab.plain_text import plain
from onnxlab.runtime.apart import NoProvider, open_by_path, run_once, say
from onnxlab.runtime.error_origin import Origin, Region, error_origin, quantises
from onnxlab.runtime.refusals import short_reason
from onnxlab.runtime.values import ModelInputs, read_values, with_shapes

TOLERANCE = {
    "float32": (1e-5, 1e-5),
    "float16": (1e-2, 1e-3),
    "bfloat16": (4e-2, 1e-2),
    "int8": (1e-1, 1e-3),
}
"""rtol, of an output's largest value, and atol by the narrowest type that one of the files computes in."""

_STARTS = 72  # sizes to begin with that are tried
_LARGEST_SEARCHED = 1 << 30  # bytes of both files in which the first divergence is looked for

Report = dict[str, Any]
Tell = Callable[[Report], None]


@dataclass(frozen=True)
class Options:
    """What was asked for: files, values, tolerances."""

    models: tuple[str, str]
    inputs: str = ""
    rtol: float | None = None
    atol: float | None = None
    provider: str = "CPUExecutionProvider"


@dataclass(frozen=True)
class Row:
    """One output in one run."""

    name: str
    shapes: str
    difference: float | None
    relative: float | None
    problem: str = ""
    compared: bool = True


def try_pair(options: Options, tell: Tell) -> None:
    """Report each step of the trial."""
    sessions = []
    for number, model in enumerate(options.models):
        tell({"step": "loading", "file": number})
        try:
            sessions.append(open_by_path(Path(model), provider=options.provider))
        except NoProvider as error:
            tell({"step": "no provider", "lines": [error.what, error.why, error.then]})
            return
        except Exception as error:  # the runtime raises plain Exception subclasses and RuntimeError
            tell({"step": "load", "file": number, "error": short_reason(error)})
            return
    _Trial(options, sessions, tell).run()


class _Trial:
    def __init__(self, options: Options, sessions: Sequence[Any], tell: Tell) -> None:
        self.options, self.sessions, self.tell = options, sessions, tell
        self.structures = [load_alone(Path(model)) for model in options.models]
        self.kind = _narrowest(self.structures)
        rtol, atol = TOLERANCE[self.kind]
        self.rtol = rtol if options.rtol is None else options.rtol
        self.atol = atol if options.atol is None else options.atol
        self.inputs = [[value.name for value in session.get_inputs()] for session in sessions]
        self.kinds = [
            {name: kind for name, kind in _kinds(structure).items() if name in names}
            for structure, names in zip(self.structures, self.inputs, strict=True)
        ]
        self.outputs = [[value.name for value in session.get_outputs()] for session in sessions]
        self.worst: tuple[float, Sequence[dict[str, Array]]] = (-1.0, ())  # relative difference, feeds
        self.nested = False  # whether a list or a map differs
        self.ranges: dict[str, list[float]] = {}  # of the first file's outputs, over all runs

    def run(self) -> None:
        self.tell({"step": "tolerance", "type": self.kind, "rtol": self.rtol, "atol": self.atol})
        names = self.inputs
        for what, (ours, theirs) in (("inputs", names), ("outputs", self.outputs)):
            if ours != theirs and sorted(ours) == sorted(theirs):
                self.tell({"step": "order", "what": what, "names": [ours, theirs]})
        # By name where one file has all names of the other: an optimiser removes inputs that nobody reads.
        if set(names[0]) <= set(names[1]) or set(names[1]) <= set(names[0]):
            self.renamed = {name: name for name in names[1]}
        elif len(names[0]) == len(names[1]):
            self.renamed = dict(zip(names[1], names[0], strict=True))
        else:
            why = Message("their inputs are {first} and {second}", first=names[0], second=names[1])
            self.tell({"step": "nothing", "why": why})
            return
        if self.options.inputs:
            self._run_given()
        else:
            self._run_drawn()
        flat = {name: ends for name, ends in self.ranges.items() if self._is_flat(*ends)}
        self.tell({"step": "flat", "ranges": flat})
        self._find_origin()

    def _run_given(self) -> None:
        self.tell({"step": "given"})
        refusals = []
        for number, values in enumerate(read_values(Path(self.options.inputs)), 1):
            if missing := [name for name in self.inputs[0] if name not in values]:
                why = Message(
                    "no values are given for {names}, only for {other_names}",
                    names=plain(", ".join(missing), 150),
                    other_names=plain(", ".join(values), 150),
                )
                self.tell({"step": "nothing", "why": why})
                return
            refusals.append(self._run_both({"set": number}, values))
        if all(any(refused) for refused in refusals):
            reason = plain(next(filter(None, refusals[0])), 300).rstrip(".")
            why = Message("they refuse the values that are given: {reason}", reason=reason)
            self.tell({"step": "nothing", "why": why})

    def _run_drawn(self) -> None:
        if conflict := self._conflict():
            self.tell({"step": "nothing", "why": conflict})
            return
        inputs, fixed = ModelInputs(with_shapes(self._joint())), self._fixed
        if inputs.undrawable:
            [(name, reason), *_] = inputs.undrawable.items()
            why = Message(
                "no values can be drawn for the input {name}: {reason}", name=plain(name, 60), reason=reason
            )
            self.tell({"step": "nothing", "why": why})
            return
        self._weights = self._weights_of_the_other()
        self._rows_of = self._rows_that_differ(inputs)
        base: dict[str, int] | None = None
        refused: list[str] = []
        for start in islice(inputs.sizes(), _STARTS):
            refused = self._at(inputs, {**start, **fixed})
            if not any(refused):
                base = {**start, **fixed}
                break
        if base is None:
            reason = plain(next(filter(None, refused), ""), 300).rstrip(".")
            why = Message("they do not run with the same inputs: {reason}", reason=reason)
            self.tell({"step": "nothing", "why": why})
            return
        for seed in inputs.seeds:
            self._at(inputs, base, seed)
        for axis, sizes in inputs.neighbours(base):
            for size in sizes:
                if all(self._at(inputs, {**base, axis: size})) and len(inputs.axes) > 1:
                    # Axes can depend on each other: all that are free together.
                    self._at(
                        inputs,
                        {**base, **{other: size for other in inputs.axes if other not in fixed}, axis: size},
                    )

    def _conflict(self) -> str:
        """Return the first input that no shape fits in both files, in words; empty if there is none."""
        known = {value.name: value for value in declared(self.structures[0].graph.input)}
        for theirs in declared(self.structures[1].graph.input):
            ours = known.get(self.renamed.get(theirs.name, ""))
            if ours is None or ours.dims is None or theirs.dims is None:
                continue
            fixed = [(a, b) for a, b in zip(ours.dims, theirs.dims, strict=False) if isinstance(a, int)]
            differ = any(isinstance(b, int) and a != b for a, b in fixed)
            if len(ours.dims) != len(theirs.dims) or differ:
                return Message(
                    "no shape fits the input {ours.name} of both: {ours.type}, {theirs.type}",
                    ours=ours,
                    theirs=theirs,
                )
        return ""

    def _joint(self) -> onnx.ModelProto:
        """Return the first model with the inputs of both; an axis has a name where one of the files names it.

        `_fixed` holds the size of each axis that only one file names.
        """
        ours, theirs = self.structures
        joint = onnx.ModelProto()
        joint.CopyFrom(ours)
        known = {value.name: value for value in joint.graph.input}
        self._fixed: dict[str, int] = {}
        for value in theirs.graph.input:
            name = self.renamed.get(value.name)
            if name is None:
                continue
            if name not in known:
                joint.graph.input.append(value)
                continue
            if value.type.WhichOneof("value") != "tensor_type":
                continue
            if not known[name].type.tensor_type.HasField("shape"):
                known[name].type.tensor_type.shape.CopyFrom(value.type.tensor_type.shape)
                continue
            pairs = zip(
                known[name].type.tensor_type.shape.dim, value.type.tensor_type.shape.dim, strict=False
            )
            for place, (axis, other) in enumerate(pairs):
                sizes = [
                    dim.dim_value for dim in (axis, other) if dim.HasField("dim_value") and dim.dim_value >= 0
                ]
                if len(sizes) == 1:
                    own = axis.dim_param or other.dim_param or f"{name} axis {place}"
                    axis.dim_param = own
                    self._fixed[own] = sizes[0]
        return joint

    def _weights_of_the_other(self) -> dict[str, Array]:
        """Return values for the inputs of one file that are weights in the other."""
        values = {}
        for names, other in zip(self.inputs, reversed(self.structures), strict=True):
            weights = {tensor.name: tensor for tensor in other.graph.initializer}
            for name in names:
                if name in weights and not uses_external_data(weights[name]):
                    values[name] = tensor_array(weights[name])
        return values

    def _rows_that_differ(self, inputs: ModelInputs) -> dict[str, Array]:
        """Return the rows of a table that differ, the most first, by the input that numbers them.

        Numbers that are drawn reach only a few rows of a large table.
        """
        rows: dict[str, Array] = {}
        weights = [{tensor.name: tensor for tensor in own.graph.initializer} for own in self.structures]
        tables = ((value.name, *table) for value in inputs.values for table in inputs.tables(value.name))
        for name, table, width in tables:
            if all(table in own for own in weights):
                try:
                    ours, theirs = (
                        weight_array(own[table], Path(model).parent).astype(np.float32)
                        for own, model in zip(weights, self.options.models, strict=True)
                    )
                except ModelNotReadable:
                    continue
                if ours.shape == theirs.shape and ours.size and ours.ndim >= width:
                    apart = np.abs(ours - theirs).reshape(*ours.shape[:width], -1).max(-1)
                    order = np.argsort(-apart, axis=None)[: np.count_nonzero(apart)]
                    rows[name] = np.stack(np.unravel_index(order, apart.shape), -1)
        return rows

    def _at(self, inputs: ModelInputs, sizes: Mapping[str, int], seed: int = 0) -> list[str]:
        """Compare at some sizes; return why each file refuses them."""
        try:
            values = {**inputs.draw(sizes, seed), **self._weights}
            for name, rows in self._rows_of.items():
                half = rows[: (values[name].size // rows.shape[1] + 1) // 2]
                values[name].reshape(-1)[: half.size] = half.ravel()
        except MemoryError as error:
            return [str(error)] * 2
        return self._run_both(sizes, values)

    def _feeds(self, values: Mapping[str, Array]) -> list[dict[str, Array]]:
        """Return the values for each file, in the type that it declares, and rounded to the narrower one."""
        feeds: list[dict[str, Array]] = [{}, {}]
        sources = {name: other for other, name in self.renamed.items()}
        for name, array in values.items():
            names = (name, sources.get(name, name))
            kinds = [own.get(key) for own, key in zip(self.kinds, names, strict=True)]
            narrow = min(
                (kind for kind in kinds if kind and kind.kind == "f"),
                key=lambda kind: kind.itemsize,
                default=None,
            )
            rounded = array.astype(narrow) if narrow and array.dtype.kind == "f" else array
            for feed, own, key, kind in zip(feeds, self.kinds, names, kinds, strict=True):
                if key in own:
                    same = kind is None or kind == rounded.dtype  # float64 == None is true
                    feed[key] = rounded if same else rounded.astype(kind)
        return feeds

    # One run

    def _run_both(self, sizes: Mapping[str, int], values: Mapping[str, Array]) -> list[str]:
        feeds = self._feeds(values)
        results, refused = [], []
        for number, (session, feed) in enumerate(zip(self.sessions, feeds, strict=True)):
            self.tell({"step": "trying", "file": number, "sizes": dict(sizes)})
            try:
                results.append(run_once(session, feed))
                refused.append("")
            except Exception as error:  # as above
                refused.append(short_reason(error))
        if any(refused):
            self.tell({"step": "refused", "sizes": dict(sizes), "refused": refused})
            return refused
        rows = self._rows(*results)
        if any(row.problem for row in rows) and self._is_random(feeds[0], results[0]):
            self.tell({"step": "random", "sizes": dict(sizes)})
            return refused
        wrong = [row.relative or 0.0 for row in rows if row.problem and row.difference is not None]
        self.nested |= any(row.problem and re.match("list|dict", row.shapes) for row in rows)
        self.worst = max(self.worst, (max(wrong, default=-1.0), feeds), key=lambda pair: pair[0])
        self.tell({"step": "run", "sizes": dict(sizes), "rows": [asdict(row) for row in rows]})
        for name, output in zip(self.outputs[0], results[0], strict=True):
            if isinstance(output, np.ndarray) and output.dtype.kind == "f" and np.isfinite(output).any():
                finite = output[np.isfinite(output)]
                ends = [*self.ranges.get(name, ()), float(finite.min()), float(finite.max())]
                self.ranges[name] = [min(ends), max(ends)]
        return refused

    def _is_flat(self, low: float, high: float) -> bool:
        """Whether a constant, too, would agree with every value in this range, within the tolerance."""
        return high - low <= max(self.atol, self.rtol * max(abs(low), abs(high)))

    def _is_random(self, feed: Mapping[str, Array], outputs: Sequence[Any]) -> bool:
        """Whether the first file makes other outputs of the same values when it runs again."""
        return any(
            row.problem for row in self._paired(self.outputs[0], outputs, run_once(self.sessions[0], feed))
        )

    def _rows(self, ours: Sequence[Any], theirs: Sequence[Any]) -> list[Row]:
        first, second = self.outputs
        if not set(first) & set(second):  # no name to go by: in order
            second = [*first[: len(second)], *second[len(first) :]]
        by_name = dict(zip(second, theirs, strict=True))
        common = [name for name in first if name in by_name]
        own = dict(zip(first, ours, strict=True))
        return [
            *self._paired(common, [own[name] for name in common], [by_name[name] for name in common]),
            *(
                Row(name, "", None, None, Message("only in the first"))
                for name in first
                if name not in by_name
            ),
            *(Row(name, "", None, None, Message("only in the second")) for name in second if name not in own),
        ]

    def _paired(self, names: Sequence[str], ours: Sequence[Any], theirs: Sequence[Any]) -> list[Row]:
        return [self._row(name, a, b) for name, a, b in zip(names, ours, theirs, strict=True)]

    def _row(self, name: str, ours: Any, theirs: Any) -> Row:  # noqa: ANN401 - arrays, lists or maps
        shapes = _shapes(ours, theirs)
        if _identical(ours, theirs):
            return Row(name, shapes, 0.0, 0.0)
        from onnxlab.runtime.comparison import compare_outputs, named_leaves  # loads torch

        leaves = [named_leaves(value) for value in (ours, theirs)]
        try:
            names = [[place for place, _ in side] for side in leaves]
            if names[0] != names[1]:
                return Row(
                    name,
                    shapes,
                    None,
                    None,
                    Message("other elements: {first}, {second}", first=names[0][:5], second=names[1][:5]),
                )
            scale = max((_scale(leaf) for _, leaf in leaves[0]), default=0.0)
            allowed = max(self.atol, self.rtol * scale)
            nothing = 0.0 if leaves[0] else None
            worst = Row(name, shapes, nothing, nothing, compared=bool(leaves[0]))
            for (_, a), (_, b) in zip(*leaves, strict=True):
                a, b = _one_type(a, b)
                compared = compare_outputs([a], [b], rtol=0, atol=allowed).outputs[0]
                problem = _described(a, b, compared.problem)
                difference = None if math.isnan(compared.difference) else compared.difference
                if (bool(problem), difference or 0.0) > (bool(worst.problem), worst.difference or 0.0):
                    relative = difference / scale if difference is not None and scale else None
                    worst = Row(name, shapes, difference, relative, problem)
        except (TypeError, ValueError) as error:  # a type that neither torch nor NumPy has
            return Row(name, shapes, None, None, short_reason(error), compared=False)
        return worst

    # The first divergence

    def _find_origin(self) -> None:
        _, feeds = self.worst
        if not feeds:
            return
        self.tell({"step": "looking"})
        files = sum(Path(model).stat().st_size for model in self.options.models)
        if files + sum(map(_bytes_beside, self.structures)) > _LARGEST_SEARCHED:
            self.tell({"step": "origin", "error": Message("the files are larger than 1 GiB together")})
            return
        try:
            origin = error_origin(*self.options.models, (feeds[0], feeds[1]))
        except Exception as error:  # a file may hold what no session of its values can be made of
            self.tell({"step": "origin", "error": short_reason(error)})
            return
        nested = self.nested and not (origin.most or origin.suspects)
        why = Message("a list or a map differs") if nested else ""
        self.tell({"step": "origin", "error": why, **_plain_origin(origin)})


def _plain_origin(origin: Origin) -> Report:
    def plain_region(region: Region) -> Report:
        return {
            "value": region.value,
            "counterpart": region.counterpart,
            "nodes": [{"op": node.op, "name": node.label, "path": node.path} for node in region.nodes],
            "type": region.kind,
            "whole": region.whole,
            "added": region.added,
            "repaired": region.repaired,
        }

    node = origin.unmatched
    return {
        "matched": origin.matched,
        "values": origin.values,
        "output_error": origin.error,
        "suspects": [plain_region(region) for region in origin.suspects],
        "repaired": origin.repaired,
        "most": [plain_region(region) for region in origin.most],
        "unmatched": node and {"node": str(node[0]), "shapes": list(node[1:])},
    }


def _bytes_beside(model: onnx.ModelProto) -> int:
    """Return how many bytes of weights a model keeps in other files."""
    beside = [tensor for tensor, _ in tensors(model.graph) if uses_external_data(tensor)]
    sizes = (onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize for tensor in beside)
    return sum(size * math.prod(tensor.dims) for size, tensor in zip(sizes, beside, strict=True))


def _narrowest(models: Sequence[onnx.ModelProto]) -> str:
    """Return the narrowest type that one of the models computes in."""
    nodes = [node for model in models for body in (model.graph, *model.functions) for node in body.node]
    if any(quantises(f"{node.domain}::{node.op_type}") for node in nodes):
        return "int8"
    types = {tensor.data_type for model in models for tensor in model.graph.initializer}
    types |= {attribute.i for node in nodes if node.op_type == "Cast" for attribute in node.attribute}
    types |= {
        info.type.tensor_type.elem_type
        for model in models
        for info in (*model.graph.input, *model.graph.value_info, *model.graph.output)
    }
    for kind in ("bfloat16", "float16"):
        if onnx.TensorProto.DataType.Value(kind.upper()) in types:
            return kind
    return "float32"


def _kinds(model: onnx.ModelProto) -> dict[str, Any]:
    """Return NumPy's type of each input; None of what is no tensor of numbers."""
    kinds: dict[str, Any] = {}
    for value in model.graph.input:
        kind = value.type.tensor_type.elem_type
        known = kind not in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING)
        kinds[value.name] = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind)) if known else None
    return kinds


def _identical(a: Any, b: Any) -> bool:  # noqa: ANN401 - arrays, lists or maps
    """Whether two outputs are the same to the last bit: there is nothing to compare."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_identical, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_identical(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and (a.dtype, a.shape) == (b.dtype, b.shape):
        return bool((a == b).all()) if a.dtype.kind == "O" else a.tobytes() == b.tobytes()
    return type(a) is type(b) and (a is None or (isinstance(a, str | int | float) and a == b))


def _one_type(a: Any, b: Any) -> tuple[Any, Any]:  # noqa: ANN401 - arrays or Python's own values
    """Return two numbers or arrays in the wider of their types, where both are of one kind."""
    kinds = [np.asarray(value).dtype for value in (a, b)]
    if kinds[0] != kinds[1] and "V" in (kinds[0].kind, kinds[1].kind):  # bfloat16 and its like
        a, b = (np.asarray(value, np.float32) for value in (a, b))
        kinds = [a.dtype, b.dtype]
    if kinds[0] != kinds[1] and kinds[0].kind == kinds[1].kind and kinds[0].kind in "fiu":
        wider = np.promote_types(*kinds)
        return np.asarray(a, wider), np.asarray(b, wider)
    return a, b


def _scale(value: Any) -> float:  # noqa: ANN401 - as above
    array = np.asarray(value)
    if array.dtype.kind not in "fc":
        return 0.0
    sizes = magnitude(array)
    return float(sizes.max(where=np.isfinite(sizes), initial=0.0))


def _shapes(ours: Any, theirs: Any) -> str:  # noqa: ANN401 - as above
    def one(value: Any) -> str:  # noqa: ANN401 - as above
        if isinstance(value, np.ndarray):
            return f"{value.dtype if value.dtype != object else 'string'}{list(value.shape)}"
        return f"{type(value).__name__} of {len(value)}" if isinstance(value, list | dict) else "nothing"

    first, second = one(ours), one(theirs)
    return first if first == second else f"{first}, {second}"


def _described(a: Any, b: Any, problem: str) -> str:  # noqa: ANN401 - as above
    """Return a difference in words: what is no number has no amount."""
    ours, theirs = np.asarray(a), np.asarray(b)
    if not problem or ours.shape != theirs.shape:
        return plain(problem, 120)
    if ours.dtype.kind in "OSU" and theirs.dtype.kind in "OSU":
        count = np.count_nonzero(ours != theirs)
        return Message("{count} of {total} texts differ", count=count, total=ours.size)
    if ours.dtype.kind == theirs.dtype.kind == "f":
        only = [
            int(np.count_nonzero(np.isnan(x) & ~np.isnan(y))) for x, y in ((ours, theirs), (theirs, ours))
        ]
        if any(only):
            return Message(
                "NaN only in the first: {first}; only in the second: {second}", first=only[0], second=only[1]
            )
    return problem


if __name__ == "__main__":
    _asked = json.loads(sys.argv[1])
    try_pair(Options(**{**_asked, "models": tuple(_asked["models"])}), lambda report: say(**report))
    say("end")
