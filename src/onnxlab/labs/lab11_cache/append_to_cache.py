"""Exercise append-to-cache: rewrite the graph of a decoder so that it reads and extends a cache.

What is asked, and what is drawn for it:

- one Attention or more: one, two in a row, two that read the same value, eleven;
- numbers in the order of the nodes: eleven have another order as texts, and the nodes' order is drawn;
- caches with the heads of the keys, both sizes as numbers: as many heads as queries and fewer, other sizes;
- three axes or four, attributes that have to stay (scale);
- at most one Range: none, one with constants from nodes or initializers, which others read as well, and
  whose result two nodes read;
- any names that do not begin with past or present: those that come to mind first; nodes without a name;
- the given input and output keep their names; no node that computes is added;
- numbers of the whole text, however it is cut: texts as for cached-decoder, up to the last position.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
from onnx import TensorProto

from onnxlab.kit.rewriting import Question, Rewriting
from onnxlab.kit.samples import Sketch
from onnxlab.kit.variations import shuffle_nodes, unname_nodes
from onnxlab.labs.lab11_cache.decoder import LONGEST, VOCABULARY
from onnxlab.message import Message
from onnxlab.runtime.divergence import expose
from onnxlab.runtime.session import open_session

# Names for values that an answer may give to its own, without asking whether the model has them.
_LIKELY_NAMES = (
    *("cached", "length", "place", "places", "positions", "offset", "total", "zero", "one", "new_places"),
    *("shifted", "start", "end", "axes", "past_length", "places_without_cache", "from_zero", "key", "value"),
)


@dataclass(frozen=True)
class _Kind:
    where: str
    layers: int
    heads: tuple[int, int]  # of queries, and of keys and values
    positions: bool = True  # whether it has position embeddings
    four_axes: bool = False  # whether Attention reads four axes
    same_input: bool = False  # whether all layers read the same value
    likely_names: bool = False


_KINDS = (
    _Kind(Message("One layer that knows no positions"), 1, (2, 2), positions=False),
    _Kind(Message("One layer and a Range for the positions"), 1, (2, 2)),
    _Kind(Message("Two layers and a Range for the positions"), 2, (3, 3)),
    _Kind(Message("Eleven layers with fewer heads for keys than for queries"), 11, (4, 2), likely_names=True),
    _Kind(Message("Two layers whose Attention reads four axes"), 2, (2, 1), four_axes=True),
    _Kind(Message("Two Attention nodes that read the same value"), 2, (1, 1), same_input=True),
)


@dataclass(frozen=True, kw_only=True)
class CacheQuestion(Question):
    """A decoder without a cache."""

    kind: _Kind
    size: int  # of a head

    @cached_property
    def session(self) -> ort.InferenceSession:
        """A session of the given model with its keys and values as outputs, after the logits."""
        nodes = self.model.graph.node
        names = [name for node in nodes if node.op_type == "Attention" for name in node.input[1:3]]
        return open_session(expose(self.model, names))

    @property
    def logits(self) -> str:
        """The name of the output."""
        name: str = self.model.graph.output[0].name
        return name

    @property
    def caches(self) -> dict[str, str]:
        """The names of the cache outputs, by those of the cache inputs."""
        parts = [f"{i}.{part}" for i in range(self.kind.layers) for part in ("key", "value")]
        return {f"past.{part}": f"present.{part}" for part in parts}


def _questions(random: np.random.Generator) -> Iterator[CacheQuestion]:
    """Draw a decoder of each kind."""
    for kind, size in zip(_KINDS, random.permutation([2, 3, 4, 5, 6, 7]).tolist(), strict=True):
        model = _decoder(Sketch(random), kind, size)
        if kind.likely_names:
            _give_likely_names(random, model)
        if kind.layers > 1:
            unname_nodes(random, model)
            shuffle_nodes(random, model)
        yield CacheQuestion(kind.where, model, kind=kind, size=size)


def _decoder(s: Sketch, kind: _Kind, size: int) -> onnx.ModelProto:
    """Draw a decoder without a cache."""
    queries, keys = kind.heads
    ids, width = s.name(), queries * size
    x = s.add("Gather", s.weight(s.normal(VOCABULARY, width)), ids)
    if kind.positions:
        x = s.add("Add", x, _positions(s, ids, width))
    first = x
    for _ in range(kind.layers):
        read = first if kind.same_input else x
        projections = [
            # At full size, eleven layers amplify rounding beyond what is tolerated.
            s.add("MatMul", read, s.weight(s.normal(width, heads * size) / np.sqrt(width * kind.layers)))
            for heads in (queries, keys, keys)
        ]
        if kind.four_axes:
            for i, heads in enumerate((queries, keys, keys)):
                split = s.add("Reshape", projections[i], s.weight(np.array([0, 0, heads, size])))
                projections[i] = s.add("Transpose", split, perm=[0, 2, 1, 3])
            scale = float(s.random.uniform(0.2, 0.4))
            y = s.add("Attention", *projections, is_causal=1, scale=scale)
            y = s.add("Reshape", s.add("Transpose", y, perm=[0, 2, 1, 3]), s.weight(np.array([0, 0, width])))
        else:
            y = s.add("Attention", *projections, is_causal=1, q_num_heads=queries, kv_num_heads=keys)
        y = s.add("MatMul", y, s.weight(s.normal(width, width) / np.sqrt(width)))
        x = s.add("Add", x, s.add("Tanh", y))
    logits = s.add("MatMul", x, s.weight(s.normal(width, VOCABULARY) / np.sqrt(kind.layers)))
    model = s.model({ids: ("batch", "tokens")}, {logits: ("batch", "tokens", VOCABULARY)}, opset=23)
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    return model


def _positions(s: Sketch, ids: str, width: int) -> str:
    """Add position embeddings, of two tables, to a decoder; return their sum."""
    if s.random.integers(2):
        zero, one = (s.add("Constant", value_int=number) for number in range(2))
        count = s.add("Gather", s.add("Shape", ids), one)  # the 1 is the step of the Range, too
    else:
        zero, one = s.weight(np.array(0)), s.weight(np.array(1))
        count = s.add("Squeeze", s.add("Shape", ids, start=1, end=2))
    positions = s.add("Range", zero, count, one)
    tables = [s.add("Gather", s.weight(s.normal(LONGEST, width)), positions) for _ in range(2)]
    # What else reads the number of tokens has to get the same number.
    shape = s.add(
        "Concat", s.add("Reshape", count, s.weight(np.array([1]))), s.weight(np.array([-1])), axis=0
    )
    return s.add("Reshape", s.add("Add", *tables), shape)


def _give_likely_names(random: np.random.Generator, model: onnx.ModelProto) -> None:
    """Rename values between input and output: to names that an answer could give to its own."""
    graph = model.graph
    inner = [name for node in graph.node[:-1] for name in node.output]
    inner += [tensor.name for tensor in graph.initializer]
    names = dict(zip(random.permutation(inner).tolist(), _LIKELY_NAMES, strict=False))
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)


ASKS = Rewriting("append_to_cache", "cached", _questions)

produce = ASKS.produce
