"""Values for a model's inputs: read from files, or drawn by what the graph does with each input."""

import ast
import itertools
import math
import re
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnxlab.errors import OnnxLabError
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.model.graph import Value, declared, graphs, initializers, subgraphs, tensor_array
from onnxlab.plain_text import plain

Sizes = Mapping[str, int]

_LARGEST = 1 << 24
"""Elements of an input at most."""
_BATCHES = (3, 4, 5, 8, 16, 32)
SIZES = (32, 8, 4, 16, 64, 3, 5, 2, 1, 128, 224, 512)
"""What is tried for an axis until a model runs."""
_SAME = frozenset(
    {"Cast", "CastLike", "Concat", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Tile"}
    | {"Transpose", "Unsqueeze"}
)
"""Operators whose result has the elements of their first input."""
_KEEPING = frozenset(
    {
        "ArrayFeatureExtractor",
        "BatchNormalization",
        "BitShift",
        "CumSum",
        "DequantizeLinear",
        "Div",
        "Dropout",
        "GRU",
        "Gather",
    }
    | {"EmbedLayerNormalization", "GatherBlockQuantized", "GatherElements", "GatherND", "LSTM", "Mod", "RNN"}
    | {
        "NegativeLogLikelihoodLoss",
        "QuantizeLinear",
        "ReverseSequence",
        "RoiAlign",
        "RotaryEmbedding",
        "ScatterElements",
        "ScatterND",
        "SoftmaxCrossEntropyLoss",
        "TensorScatter",
        "Trilu",
    }
)
"""Operators that take no number of `_RULES` for a size or an axis of their result."""
_COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "If", "Less", "LessOrEqual", "Not", "Size", "Shape")
"""Operators whose result tells nothing of the size of their input's elements."""


class NoValues(OnnxLabError):
    """There are no values for a model's inputs: a file holds none, or none can be drawn."""


def read_values(path: Path) -> list[dict[str, Array]]:
    """Read values for a model's inputs, by name.

    Args:
        path: An .npz file; or a folder of .npy files, each named after its input. A folder of .npz files, or
            of such folders, holds several batches.

    Returns:
        The batches, in the order of their names.

    Raises:
        NoValues: There are none, or a file cannot be read.
    """
    then = "Write them with numpy.savez('inputs.npz', name=array, ...), a name for each input of the model."
    if not path.exists():
        raise NoValues("There is no file {path} with inputs.", "", then, path=plain(path))
    entries = sorted(path.iterdir()) if path.is_dir() else [path]
    arrays = [entry for entry in entries if entry.suffix == ".npy" and path.is_dir()]
    try:
        if arrays:
            return [{entry.stem: _texts(np.load(entry, allow_pickle=False)) for entry in arrays}]
        if not path.is_dir():
            if not zipfile.is_zipfile(path):
                raise ValueError("It is no .npz file, which has a name for each array.")
            with np.load(path, allow_pickle=False) as held:
                return [{name: _texts(array) for name, array in held.items()}]
    except Exception as error:  # NumPy and zipfile raise many kinds
        raise NoValues(
            "The inputs in {path} cannot be read.", plain(error, 200), then, path=plain(path)
        ) from error
    inner = [entry for entry in entries if entry.is_dir() or entry.suffix == ".npz"]
    if not inner:
        raise NoValues("The folder {path} holds no .npy and no .npz file.", "", then, path=plain(path))
    return [batch for entry in inner for batch in read_values(entry)]


def _texts(array: Array) -> Array:
    """Return an array; one of texts as the runtime takes it."""
    return array.astype(object) if array.dtype.kind == "U" else array


def with_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with the shapes of its inner values, where ONNX can tell them."""
    try:
        onnx.checker.check_model(model)  # with what it refuses, inference can end the process
        return onnx.shape_inference.infer_shapes(model)
    except Exception:  # ONNX raises many kinds
        return model


@dataclass(frozen=True)
class _Use:
    """Where the elements of an input arrive: a node, the place among its inputs, the names around it."""

    node: onnx.NodeProto
    port: int

    @property
    def key(self) -> tuple[str, int]:
        return self.node.op_type, self.port


class ModelInputs:
    """The inputs of a model: their axes, and values that it can be expected to accept.

    Args:
        model: The model; its weights may be left out. Shapes that were inferred beforehand let more be drawn.

    Attributes:
        values: The inputs as they are declared, without weights that are inputs, too.
        axes: The names of the axes whose sizes are free, each once.
        first: Those that are nothing but first axes: batches, mostly.
        switches: What an input can be that is one value and mostly chooses a branch, by its name.
        undrawable: Why nothing can be drawn for an input, by its name.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        weights = {tensor.name for tensor in model.graph.initializer}
        self.values = tuple(value for value in declared(model.graph.input) if value.name not in weights)
        self._graph = _Uses(model)
        # An axis without a name, or with the question mark of some converters, is an axis of its own.
        self._shapes = {
            value.name: tuple(
                axis if isinstance(axis, int) or (axis and axis != "?") else f"{value.name} axis {i}"
                for i, axis in enumerate(value.dims or ())
            )
            for value in self.values
        }
        names = list(dict.fromkeys(a for shape in self._shapes.values() for a in shape if isinstance(a, str)))
        self._derived = _derived(names, self._shapes)
        self.axes = tuple(name for name in names if name not in self._derived)
        later = {axis for shape in self._shapes.values() for axis in shape[1:]}
        self.first = frozenset(axis for axis in self.axes if axis not in later)
        self.switches = {value.name: settings for value in self.values if (settings := self._settings(value))}
        self.undrawable = {
            value.name: reason for value in self.values if (reason := self._why_undrawable(value))
        }

    def _why_undrawable(self, value: Value) -> str:
        if value.dtype == "string" and not self._graph.texts(value.name):
            return Message("its texts are free: no table of the graph lists them")
        if value.dtype != "string" and _dtype(value) is None:
            kind = value.dtype.removeprefix("Unknown type ").removesuffix("_type")
            return Message("its type is {kind}", kind=kind)
        return ""

    def _settings(self, value: Value) -> list[Any]:
        """Return what an input of one value can be: on and off, or the numbers that it is compared with."""
        single = value.dims is not None and set(self._shapes[value.name]) <= {1}
        if single and value.dtype == "bool":
            return [True, False]
        compared = self._graph.compared(value.name) if single and "int" in value.dtype else []
        return [*compared, compared[-1] + 1] if compared and not self.known(value.name) else []

    def complete(self, sizes: Sizes) -> dict[str, int]:
        """Return sizes with those that follow from them: "past + tokens", the total of past and tokens."""
        filled = dict(sizes)
        for name, size in self._derived.items():
            filled.setdefault(name, size(filled))
        return filled

    def sizes(self) -> Iterator[dict[str, int]]:
        """Yield sizes of the free axes to try until a model runs; the first axes stay small."""
        if not self.axes:
            yield {}
            return
        # A state's second axis is its batch, too: where it has no name, nothing tells so.
        last = {shape[-1] for shape in self._shapes.values() if shape}
        inner = set(self.axes) - last - self.first
        for small in [self.first, self.first | inner] if inner else [self.first]:
            for size, batch in itertools.product(SIZES, (2, 1)):
                yield {axis: batch if axis in small else size for axis in self.axes}
        # A batch of another size last: a file that was frozen at it accepts no other.
        for size, batch in itertools.product(SIZES[:6], _BATCHES):
            yield {axis: batch if axis in self.first else size for axis in self.axes}
        fixed = (size for dims in self._graph.weights.values() for size in dims if isinstance(size, int))
        held = sorted({size for size in fixed if 1 < size <= 4096})
        for axis, size in itertools.product(self.axes, held[:12]):  # a size that a weight fixes
            if axis not in self.first:
                yield {other: 2 if other in self.first else 8 for other in self.axes} | {axis: size}

    def neighbours(self, base: Sizes) -> Iterator[tuple[str, list[int]]]:
        """Yield each free axis with sizes around that of `base`: just above, twice, and a batch of one."""
        for axis in self.axes:
            size = base[axis]
            tried = {size + 1, 2 * size, 2 * size + 1} | ({1} if axis in self.first else set())
            yield axis, sorted(tried - {size})

    @property
    def sets_sizes(self) -> bool:
        """Whether the values of an input decide how large a result is."""
        return any(
            use.key in _RULES and use.node.op_type not in _KEEPING
            for value in self.values
            for use in self._graph.reached(value.name, direct="float" in value.dtype)
        )

    @property
    def seeds(self) -> range:
        """Seeds, besides 0, that set the switches otherwise."""
        return range(1, min(8, math.prod(map(len, self.switches.values()))))

    def tables(self, name: str) -> list[tuple[str, int]]:
        """Return the values whose rows an input numbers, with how many numbers a row has."""
        nodes = [use.node for use in self._graph.uses(name) if use.port == 1]
        last = self._shapes[name][-1:]
        widths = {"Gather": 1} | ({"GatherND": last[0]} if last and isinstance(last[0], int) else {})
        return [
            (node.input[0], widths[node.op_type])
            for node in nodes
            if node.op_type in widths
            and not any(a.name in ("axis", "batch_dims") and a.i for a in node.attribute)
        ]

    def known(self, name: str) -> bool:
        """Whether the graph tells which numbers an input takes."""
        return any(use.key in _RULES for use in self._graph.uses(name))

    def shape(self, name: str, sizes: Sizes) -> list[int]:
        """Return the shape of an input at some sizes."""
        filled = self.complete(sizes)
        return [axis if isinstance(axis, int) else filled[axis] for axis in self._shapes[name]]

    def draw(self, sizes: Sizes, seed: int = 0) -> dict[str, Array]:
        """Draw a value for each input, by what the graph does with it.

        Ids are drawn over the table that they index, bytes over 0 to 255, texts among those that the graph
        lists, lengths in falling order. A size, an axis or a factor is taken from what the file declares of
        the result. A mask keeps one position at least. Other numbers are normally distributed, and whole
        ones small; where they could be an index they are 0 and 1.

        Args:
            sizes: A size for each free axis.
            seed: Another seed draws other values, and sets the switches otherwise.

        Raises:
            NoValues: Nothing can be drawn for an input.
            MemoryError: An input would be too large.
        """
        for name, reason in self.undrawable.items():
            raise NoValues(
                "No values can be drawn for the input {name}: {reason}.",
                "",
                "Give values with --inputs FILE.npz.",
                name=plain(name, 80),
                reason=reason,
            )
        filled = self.complete(sizes)
        drawn, settling = {}, seed
        for number, value in enumerate(self.values):
            shape = self.shape(value.name, filled)
            if np.prod(shape, dtype=object) > _LARGEST:
                raise MemoryError(f"values of {value.name}, {shape}, were not drawn: too large")
            if settings := self.switches.get(value.name):
                settling, setting = divmod(settling, len(settings))
                drawn[value.name] = np.full(shape, settings[setting], _dtype(value))
                continue
            random = np.random.default_rng([seed, number])
            drawn[value.name] = self._drawn(value, shape, filled, random)
        return drawn

    def _drawn(self, value: Value, shape: list[int], sizes: Sizes, random: np.random.Generator) -> Array:
        uses, kind = self._graph.uses(value.name), _dtype(value)
        if value.dtype == "string":
            return random.choice(np.array(self._graph.texts(value.name), object), shape)
        assert kind is not None
        for use in uses:
            if (rule := _RULES.get(use.key)) is not None:
                made = rule(_Question(self, use, shape, sizes, random, kind))
                if made is not None:
                    return np.broadcast_to(np.asarray(made), shape).astype(kind)
        if kind.kind == "b" or re.search("mask", value.name, re.IGNORECASE):
            mask = np.asarray(random.random(shape) < (1 if self._graph.counts(value.name) else 0.8))
            mask[(..., slice(1)) if shape else ...] = True  # a row that sees nothing has no softmax
            return mask.astype(kind)
        if kind.kind not in "iu":
            return random.standard_normal(shape).astype(kind)
        if re.search(r"len", value.name, re.IGNORECASE) and len(shape) == 1:
            longest = next((s[1] for v in self.values if len(s := self.shape(v.name, sizes)) > 1), 1)
            return _falling(shape, longest, random).astype(kind)
        if kind.itemsize == 1:
            limits = np.iinfo(kind) if kind.name in ("uint8", "int8") else None
            low, high = (limits.min, limits.max + 1) if limits else (0, 2)
            return random.integers(low, high, shape).astype(kind)
        if self._graph.may_index(value.name):
            return random.integers(0, 2, shape).astype(kind)
        if compared := self._graph.compared(value.name):
            return random.choice(compared, shape).astype(kind)
        return random.integers(0 if kind.kind == "u" else -9, 10, shape).astype(kind)


def _falling(shape: list[int], longest: int, random: np.random.Generator) -> Array:
    """Return lengths from the longest down: a packed sequence wants them sorted, and one that is full."""
    lengths = np.sort(random.integers(1, longest + 1, shape), axis=None)[::-1].reshape(shape)
    lengths[..., :1] = longest
    return lengths


def _dtype(value: Value) -> "np.dtype[Any] | None":
    """Return NumPy's type of an input; None of a sequence, a map, or a type of less than a byte."""
    name = {"float32": "FLOAT", "float64": "DOUBLE"}.get(value.dtype, value.dtype).upper()
    kinds = dict(onnx.TensorProto.DataType.items())
    if name not in kinds or re.search(r"STRING|UNDEFINED|INT[42]|FLOAT4|COMPLEX", name):
        return None
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kinds[name]))


def _derived(
    names: list[str], shapes: Mapping[str, tuple[int | str, ...]]
) -> dict[str, Callable[[Sizes], int]]:
    """Return the axes whose size follows from others: by an expression as their name, or by what they are.

    The exporters write "past + 1"; a decoder's mask is as long as what is cached and what is new.
    """
    derived: dict[str, Callable[[Sizes], int]] = {}
    for name in names:
        try:
            tree = ast.parse(name, mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        if not isinstance(tree.body, ast.Name) and read and read <= {*names} - {name}:
            derived[name] = lambda sizes, body=tree.body: max(1, _evaluated(body, sizes))  # type: ignore[misc]
    free = [name for name in names if name not in derived]
    total = [name for name in free if re.search(r"total|all|kv_?len|key_?len", name, re.IGNORECASE)]
    past = [name for name in free if re.search(r"past|cached?_?(len|seq|size)", name, re.IGNORECASE)]
    later = [name for name in free if any(name in shape[1:2] for shape in shapes.values())]
    new = [n for n in later if n not in (*total, *past) and re.search(r"seq|tok|len|new|step|time", n, re.I)]
    if len(total) == len(past) == len(new) == 1:
        derived[total[0]] = lambda sizes: sizes[past[0]] + sizes[new[0]]
    return derived


def _evaluated(node: ast.expr, sizes: Sizes) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return sizes[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _ARITHMETIC[type(op)](_evaluated(left, sizes), _evaluated(right, sizes))
    return 1


_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: int.__add__,
    ast.Sub: int.__sub__,
    ast.Mult: int.__mul__,
    ast.FloorDiv: lambda a, b: a // b if b else 0,
}


class _Uses:
    """What reads each value of a model, in every graph and function of it."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.weights = {value.name: value.dims or () for value in initializers(model.graph)}
        self.shapes: dict[str, tuple[int | str | None, ...]] = {}
        self._readers: dict[str, list[_Use]] = defaultdict(list)
        self._makers: dict[str, onnx.NodeProto] = {}
        self._carried: dict[str, list[str]] = defaultdict(list)  # out of a branch or a loop
        self._constants: dict[str, onnx.TensorProto] = {}
        self._bodies = {(f.domain, f.name): (number, f) for number, f in enumerate(model.functions)}
        for graph in graphs(model.graph):
            for value in declared([*graph.value_info, *graph.input, *graph.output]):
                if value.dims is not None:
                    self.shapes.setdefault(value.name, value.dims)
            self._constants |= {tensor.name: tensor for tensor in graph.initializer}
            self._add(graph.node)
        self.shapes |= self.weights
        for number, function in self._bodies.values():
            self._add(function.node, f"{number}:")

    def _add(self, nodes: Iterable[onnx.NodeProto], scope: str = "") -> None:
        for node in nodes:
            for port, name in enumerate(node.input):
                self._readers[scope + name].append(_Use(node, port))
            self._makers |= {scope + name: node for name in node.output}
            for _, graph in subgraphs(node):  # a Loop's first result is its condition
                for value, name in zip(graph.output[node.op_type == "Loop" :], node.output, strict=False):
                    self._carried[value.name].append(name)
            if node.op_type == "Constant":
                tensors = [a.t for a in node.attribute if a.name == "value"]
                self._constants |= (
                    dict.fromkeys((scope + name for name in node.output), *tensors) if tensors else {}
                )

    def _follow(self, name: str, through: Callable[[_Use], bool]) -> Iterator[_Use]:
        """Yield what reads a value, and what reads the results of those that `through` lets pass."""
        pending, seen = [("", name)], {("", name)}
        while pending:
            scope, name = pending.pop(0)
            outside = [(scope, outer) for outer in self._carried.get(name, ()) if (scope, outer) not in seen]
            pending += outside
            seen.update(outside)
            for use in self._readers.get(scope + name, ()):
                yield use
                node, targets = use.node, []
                if (body := self._bodies.get((node.domain, node.op_type))) is not None:
                    targets += [(f"{body[0]}:", name) for name in body[1].input[use.port : use.port + 1]]
                for _, graph in subgraphs(node):  # of a Loop or a Scan: the state and the slices
                    targets += [(scope, value.name) for value in graph.input[use.port : use.port + 1]]
                if through(use):
                    targets += [(scope, name) for name in node.output]
                for target in targets:
                    if target not in seen:
                        seen.add(target)
                        pending.append(target)

    def uses(self, name: str) -> list[_Use]:
        """Return where the elements of a value arrive unchanged."""
        return list(
            self._follow(
                name,
                lambda use: use.node.op_type in _SAME and (use.port == 0 or use.node.op_type == "Concat"),
            )
        )

    def texts(self, name: str) -> list[str]:
        """Return the texts that the nodes which read a value list: categories, keys."""
        texts = [text for use in self.uses(name) for a in use.node.attribute for text in a.strings]
        return list(dict.fromkeys(text.decode(errors="replace") for text in texts))

    def compared(self, name: str) -> list[int]:
        """Return the constants that the elements of a value are compared with."""
        others = [use.node.input[1 - use.port] for use in self.uses(name) if use.node.op_type == "Equal"]
        arrays = [tensor_array(self._constants[other]) for other in others if other in self._constants]
        return sorted({int(number) for array in arrays for number in array.ravel()[:100]})

    def counts(self, name: str) -> bool:
        """Whether the elements of a mask are summed up to a length."""
        return any(use.node.op_type in ("ReduceSum", "CumSum") for use in self.uses(name))

    def reached(self, name: str, *, direct: bool = False) -> Iterator[_Use]:
        """Yield what a value reaches, as it is or computed with; not what only compares or counts it."""
        if direct:
            return iter(self.uses(name))
        return self._follow(name, lambda use: use.node.op_type not in _COMPARISONS)

    def may_index(self, name: str) -> bool:
        """Whether a value can reach what takes an index, a size or an axis."""
        return any(use.key in _RULES for use in self.reached(name))

    def dims(self, name: str) -> tuple[int | str | None, ...] | None:
        """Return the shape of a value, or of the weight that it is made of."""
        for _ in range(8):
            if name in self.shapes:
                return self.shapes[name]
            node = self._makers.get(name)
            if node is None or node.op_type not in ("Cast", "Identity", "DequantizeLinear"):
                return None
            name = node.input[0]
        return None


@dataclass(frozen=True)
class _Question:
    """What values an input needs, of which a node reads the elements."""

    inputs: ModelInputs
    use: _Use
    shape: list[int]
    sizes: Sizes
    random: np.random.Generator
    kind: "np.dtype[Any]"

    @property
    def count(self) -> int:
        """The elements of the input."""
        return int(np.prod(self.shape, dtype=np.int64))

    def attribute(self, name: str, default: int) -> int:
        return next((int(a.i) for a in self.use.node.attribute if a.name == name), default)

    def read(self, port: int) -> list[int] | None:
        """The shape of what the node reads at a port, at these sizes; -1 where it is not known."""
        names = self.use.node.input
        return self._at_sizes(names[port]) if port < len(names) else None

    def made(self, number: int = 0) -> list[int] | None:
        """The shape that the file declares of what the node makes; -1 where it is not known."""
        names = self.use.node.output
        return self._at_sizes(names[number]) if number < len(names) else None

    def _at_sizes(self, name: str) -> list[int] | None:
        dims = self.inputs._graph.dims(name)
        if dims is None:
            return None
        return [axis if isinstance(axis, int) else self.sizes.get(str(axis), -1) for axis in dims]

    def below(self, limit: int) -> Array:
        """Whole numbers from 0 to below a limit."""
        return self.random.integers(0, max(1, limit), self.shape)


def _index(table: int) -> Callable[[_Question], Array]:
    """Numbers of the rows that the node looks up in what it reads at a port."""

    def rule(q: _Question) -> Array:
        dims = q.read(table) or []
        axis = q.attribute("axis", 0)
        known = [dims[axis]] if -len(dims) <= axis < len(dims) else dims
        return q.below(min(known, default=1))

    return rule


def _places(q: _Question) -> Array:
    """Places in what the node reads: along the last axis of the input, a number for each axis of it."""
    dims = (q.read(0) or [])[q.attribute("batch_dims", 0) :]
    width = q.shape[-1] if q.shape else 0
    if len(dims) < width:
        return q.below(min(dims, default=1))
    return q.random.integers(0, np.maximum(1, np.array(dims[:width], int)), q.shape)


def _sizes_made(port: int = 0) -> Callable[[_Question], Any]:
    """The sizes of the result as declared; those of what the node reads where that is silent."""

    def rule(q: _Question) -> Any:  # noqa: ANN401 - a list of numbers, or an array
        made, given = q.made() or [], q.read(port) or []
        if len(made) == q.count:
            spare = given if len(given) == len(made) else [1] * len(made)
            return [size if size >= 0 else max(1, other) for size, other in zip(made, spare, strict=True)]
        if q.use.node.op_type == "Reshape":
            return [-1, *[1] * (q.count - 1)] if q.count else []
        return given if len(given) == q.count else np.ones(q.shape)

    return rule


def _factors(q: _Question) -> Any:  # noqa: ANN401 - as above
    """By how much an axis grows: from the declared sizes, else twice along all but the first two axes."""
    made, given = q.made() or [], q.read(0) or []
    if len(made) == len(given) == q.count and min([*made, *given], default=0) > 0:
        return [a / b if q.kind.kind == "f" else max(1, a // b) for a, b in zip(made, given, strict=True)]
    return [1.0] * min(2, q.count) + [2.0] * (q.count - 2) if q.kind.kind == "f" else np.ones(q.shape)


def _axes(q: _Question) -> Any:  # noqa: ANN401 - as above
    """The axes along which the declared result differs from what the node reads."""
    made, given = q.made() or [], q.read(0) or []
    longer, shorter = (made, given) if q.use.node.op_type == "Unsqueeze" else (given, made)
    for axes in itertools.combinations(range(min(len(longer), 8)), q.count):
        if [size for i, size in enumerate(longer) if i not in axes] == shorter:
            return axes
        if [1 if i in axes else size for i, size in enumerate(longer)] == shorter:
            return axes
    return np.arange(q.count).reshape(q.shape)


def _number_kept(q: _Question) -> int:
    made, given, axis = q.made() or [], q.read(0) or [], q.attribute("axis", -1)
    size = made[axis] if made else -1
    return size if size > 0 else max(1, min(2, given[axis] if given else 1))


def _parts(q: _Question) -> Any:  # noqa: ANN401 - as above
    axis, whole = q.attribute("axis", 0), q.read(0) or []
    declared_parts = [(q.made(i) or [-1] * (axis + 1))[axis] for i in range(q.count)]
    if min(declared_parts, default=-1) >= 0 or not whole:
        return declared_parts
    return [len(part) for part in np.array_split(np.arange(whole[axis]), q.count)]


def _margins(q: _Question) -> Any:  # noqa: ANN401 - as above
    made, given = q.made() or [], q.read(0) or []
    half = q.count // 2
    if len(made) == len(given) == half:
        return [0] * half + [max(0, a - b) for a, b in zip(made, given, strict=True)]
    return np.zeros(q.shape)


def _ends(q: _Question) -> Any:  # noqa: ANN401 - as above
    made = q.made() or []
    return made if len(made) == q.count and min(made, default=-1) >= 0 else np.full(q.shape, 1 << 30)


def _length_of(port: int, axis: int) -> Callable[[_Question], Array]:
    def rule(q: _Question) -> Array:
        given = q.read(port) or []
        return _falling(q.shape, max(1, given[axis]) if len(given) > axis else 1, q.random)

    return rule


def _always(number: float) -> Callable[[_Question], float]:
    return lambda _: number


def _class(q: _Question) -> Array:
    return q.below((q.read(0) or [1, 1])[1])


def _window(q: _Question) -> int:
    return next((size for size in q.made() or [] if size > 0), 16)


def _positive(q: _Question) -> Array:
    return q.random.random(q.shape) + 0.5


def _divisor(q: _Question) -> Array | None:
    return q.random.integers(1, 5, q.shape) if q.kind.kind in "iu" else None


_RULES: dict[tuple[str, int], Callable[[_Question], Any]] = {
    **{
        (name, 1): _index(0)
        for name in ("Gather", "GatherElements", "ScatterElements", "GatherBlockQuantized")
    },
    **{(name, 1): _places for name in ("GatherND", "ScatterND")},
    **{(f"{name}Loss", 1): _class for name in ("NegativeLogLikelihood", "SoftmaxCrossEntropy")},
    ("RotaryEmbedding", 1): lambda q: _index(2)(q) if q.kind.kind == "i" else None,  # of ONNX Runtime
    ("RotaryEmbedding", 3): lambda q: _index(1)(q) if q.kind.kind == "i" else None,
    ("TensorScatter", 2): _always(0),
    ("EmbedLayerNormalization", 0): _index(2),
    ("EmbedLayerNormalization", 1): _index(4),
    ("ArrayFeatureExtractor", 1): lambda q: q.below((q.read(0) or [1])[-1]),
    ("RoiAlign", 2): _index(0),
    **{(name, 1): _sizes_made() for name in ("Expand", "Reshape", "CenterCropPad")},
    **{(name, 3): _sizes_made() for name in ("Resize",)},
    ("ConstantOfShape", 0): _sizes_made(),
    ("MaxUnpool", 2): _sizes_made(),
    ("AffineGrid", 1): _sizes_made(),
    **dict.fromkeys((("Resize", 2), ("Upsample", 1), ("Tile", 1)), _factors),
    **{
        (f"Reduce{name}", 1): _axes
        for name in ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]
    },
    **{(name, 1): _axes for name in ("Squeeze", "Unsqueeze")},
    ("CumSum", 1): _always(0),
    ("TopK", 1): _number_kept,
    ("Split", 1): _parts,
    ("SplitToSequence", 1): _parts,
    ("Pad", 1): _margins,
    ("Pad", 3): lambda q: np.arange(q.count),
    ("Slice", 1): _always(0),
    ("Slice", 2): _ends,
    ("Slice", 3): lambda q: np.arange(q.count),
    ("Slice", 4): _always(1),
    ("Range", 0): _always(0),
    ("Range", 1): _window,
    ("Range", 2): _always(1),
    ("OneHot", 0): lambda q: q.below(4),
    ("OneHot", 1): lambda q: next((s for s in [(q.made() or [-1])[q.attribute("axis", -1)]] if s > 0), 4),
    **{(f"{name}Window", 0): _window for name in ("Hann", "Hamming", "Blackman")},
    ("Trilu", 1): _always(0),
    ("DFT", 1): lambda q: max(1, (q.read(0) or [1, 1, 1])[1]),
    ("DFT", 2): _always(1),
    ("STFT", 1): _always(4),
    ("STFT", 3): _always(8),
    ("MelWeightMatrix", 0): _always(8),
    ("MelWeightMatrix", 1): _always(64),
    ("MelWeightMatrix", 2): _always(16000),
    ("MelWeightMatrix", 3): _always(0),
    ("MelWeightMatrix", 4): _always(8000),
    ("Loop", 0): _always(3),
    ("Dropout", 1): _always(0.5),
    ("NonMaxSuppression", 2): _always(10),
    ("NonMaxSuppression", 3): _always(0.5),
    ("NonMaxSuppression", 4): _always(0),
    ("BatchNormalization", 4): _positive,
    **{(name, 1): _positive for name in ("QuantizeLinear", "DequantizeLinear")},
    **{(name, 4): _length_of(0, 0) for name in ("LSTM", "GRU", "RNN")},
    ("ReverseSequence", 1): lambda q: _length_of(0, q.attribute("time_axis", 0))(q),
    **{(name, 1): _divisor for name in ("Div", "Mod", "BitShift")},
}
"""What a node takes at one of its places, where not every number will do."""
