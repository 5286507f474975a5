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

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
from onnx import TensorProto, helper

from onnxlab.labs.kit.exercise import Judges
from onnxlab.labs.kit.judging import evidence, require_valid, require_well_formed
from onnxlab.labs.kit.outcome import Wrong, trying
from onnxlab.labs.kit.rewriting import Question, Rewriting
from onnxlab.labs.kit.samples import Sketch
from onnxlab.labs.kit.variations import shuffle_nodes, unname_nodes
from onnxlab.labs.lab11_cache.decoder import LONGEST, VOCABULARY
from onnxlab.labs.lab11_cache.reading import (
    ADVICE,
    Reading,
    readings,
    require_names,
    require_read,
    require_shape,
)
from onnxlab.model.distance import Array
from onnxlab.model.graph import walk
from onnxlab.runtime.divergence import expose
from onnxlab.runtime.session import open_session

__all__ = ["JUDGES", "produce"]

_COMPUTING = ("Attention", "MatMul", "Gemm", "Einsum", "Conv", "Softmax", "If", "Loop", "Scan")
_POSITIONS_FROM_0 = "The new tokens do not begin at position 0: how many tokens does the cache stand for?"
_ADVICE = {
    **ADVICE,
    "alone": "One token and an empty cache: it has the position 0 and sees itself. Which of the new nodes "
    "changes that?",
    "first": "Nothing is cached here: positions begin with 0, and a token must not see the next one.",
    "one": "The new token may see all of the cache, and itself. Which past does each Attention read?",
    "stop": "What does onnx.defs.get_schema('Attention', 23) say of this node's inputs, and of their sizes?",
    "several": "Which of the keys may the first of these tokens see? What does Attention do with is_causal "
    "where it gets the cache itself?",
    "cache": "What comes out is the cache that came in, and what is new after it. Is each past and each "
    "present joined to the node with its number, key to key and value to value?",
}
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
    _Kind("One layer that knows no positions", 1, (2, 2), positions=False),
    _Kind("One layer and a Range for the positions", 1, (2, 2)),
    _Kind("Two layers and a Range for the positions", 2, (3, 3)),
    _Kind("Eleven layers with fewer heads for keys than for queries", 11, (4, 2), likely_names=True),
    _Kind("Two layers whose Attention reads four axes", 2, (2, 1), four_axes=True),
    _Kind("Two Attention nodes that read the same value", 2, (1, 1), same_input=True),
)


@dataclass(frozen=True, kw_only=True)
class _Question(Question):
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


def _questions(random: np.random.Generator) -> Iterator[_Question]:
    """Draw a decoder of each kind."""
    for kind, size in zip(_KINDS, random.permutation([2, 3, 4, 5, 6, 7]).tolist(), strict=True):
        model = _decoder(Sketch(random), kind, size)
        if kind.likely_names:
            _give_likely_names(random, model)
        if kind.layers > 1:
            unname_nodes(random, model)
            shuffle_nodes(random, model)
        yield _Question(kind.where, model, kind=kind, size=size)


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
            s.add("MatMul", read, s.weight(s.normal(width, heads * size) / np.sqrt(width)))
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


def _require_structure(model: onnx.ModelProto, question: _Question) -> None:
    """Require a valid model with a cache for each layer, and no more computing nodes than before."""
    where = question.where
    inputs, outputs = [question.name, *question.caches], [question.logits, *question.caches.values()]
    look_at = "Each Attention gets a cache of its own, counted from 0 in the order of the nodes."
    require_names(model, inputs, outputs, where, look_at)
    require_well_formed(
        model, where, "Which inputs and outputs does onnx.defs.get_schema('Attention', 23) list?"
    )
    require_valid(model)
    require_shape(model, question.name, [None, None])
    for name in question.caches:
        require_shape(model, name, [None, question.kind.heads[1], None, question.size])
    before, after = (Counter(node.op for node in walk(graph)) for graph in (question.model, model))
    more = {name: after[name] - before[name] for name in _COMPUTING if after[name] > before[name]}
    if more or model.functions:
        counts = ", ".join(f"{count} x {name}" for name, count in more.items()) or "a function"
        msg = f"{where}: the result computes more than before: {counts}."
        look_at = "The layers stay as they are: what is cached is not computed again."
        raise Wrong(msg, look_at, evidence=evidence(model, None, *more))


def _require_first(model: onnx.ModelProto, question: _Question, random: np.random.Generator) -> None:
    """Require the original model's numbers after an empty cache."""
    _require_readings(model, question, [text for text in readings(random) if len(text.sizes) == 1])


def _require_all(model: onnx.ModelProto, question: _Question, random: np.random.Generator) -> None:
    """Require the original model's numbers for the whole text, read in pieces."""
    _require_readings(model, question, [text for text in readings(random) if len(text.sizes) > 1])


def _require_readings(model: onnx.ModelProto, question: _Question, texts: list[Reading]) -> None:
    advice = {**_ADVICE, **({"one": _POSITIONS_FROM_0} if question.kind.positions else {})}
    session = open_session(model)
    if lost := _attributes(question.model) - _attributes(model):
        names = " and ".join(sorted({name for name, _ in lost}))
        advice = dict.fromkeys(
            advice, f"An Attention has lost its {names}, or has another: compare the attributes."
        )
    for reading in texts:
        name = f"{question.where!r}: {reading.where.lower()}"
        with trying(name, model=question.model, ids=reading.ids):
            expected, ids = _expected_outputs(question, reading), question.name
            require_read(
                model,
                reading,
                expected,
                question.caches,
                advice,
                ids=ids,
                where=question.where,
                session=session,
            )


def _attributes(model: onnx.ModelProto) -> Counter[tuple[str, str]]:
    """Count the attributes of all Attention nodes but is_causal, which a mask can replace."""
    nodes = [node for node in model.graph.node if node.op_type == "Attention"]
    attributes = [attribute for node in nodes for attribute in node.attribute]
    return Counter((entry.name, str(entry)) for entry in attributes if entry.name != "is_causal")


def _expected_outputs(question: _Question, reading: Reading) -> dict[str, Array]:
    """Return the logits of a whole text from the model without a cache, and its keys and values."""
    logits, *arrays = question.session.run(None, {question.name: reading.ids})
    if not question.kind.four_axes:  # [batch, tokens, heads * size]
        arrays = [
            array.reshape(*array.shape[:2], question.kind.heads[1], question.size).transpose(0, 2, 1, 3)
            for array in arrays
        ]
    return {question.logits: logits, **dict(zip(question.caches.values(), arrays, strict=True))}


def _with_cache(question: _Question) -> onnx.ModelProto:
    """Return a right answer."""
    model = deepcopy(question.model)
    graph = model.graph
    nodes = list(graph.node)
    attentions = [node for node in nodes if node.op_type == "Attention"]
    for i, node in enumerate(attentions):
        node.input.extend(["", f"past.{i}.key", f"past.{i}.value"])
        node.output.extend([f"present.{i}.key", f"present.{i}.value"])
        caches = (node.input[4:], graph.input, "past"), (node.output[1:], graph.output, "all")
        for names, values, length in caches:
            shape: list[str | int | None] = ["batch", question.kind.heads[1], length, question.size]
            values.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names)
    del graph.node[:]
    for node in nodes:
        if node.op_type == "Range":
            (positions,) = node.output
            node.output[0], cached = "past.without", "past.length"  # no name of the model begins with past
            length = helper.make_node("Shape", ["past.0.key"], [cached], start=2, end=3)
            graph.node.extend([node, length, helper.make_node("Add", [node.output[0], cached], [positions])])
        else:
            graph.node.append(node)
    return model


_REWRITING = Rewriting("append_to_cache", "cached", _questions, _require_structure, _with_cache)

produce = _REWRITING.produce
JUDGES = Judges((_REWRITING.judge(), _REWRITING.judge(_require_first), _REWRITING.judge(_require_all)))
