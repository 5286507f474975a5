"""Exercise append-to-cache: rewrite the graph of a decoder so that it reads and extends a cache."""

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnxlab.labs.kit.exercise import Exercise, Part
from onnxlab.labs.kit.judging import evidence, require_valid, require_well_formed
from onnxlab.labs.kit.outcome import Wrong, trying
from onnxlab.labs.kit.rewriting import Question, Rewriting
from onnxlab.labs.kit.samples import Sketch
from onnxlab.labs.lab11_cache.decoder import LONGEST, VOCABULARY
from onnxlab.labs.lab11_cache.reading import ADVICE, Reading, readings, require_names, require_read
from onnxlab.model.distance import Array
from onnxlab.model.graph import walk
from onnxlab.runtime.divergence import expose
from onnxlab.runtime.session import open_session

__all__ = ["EXERCISE"]

_WIDTH, _SIZE = 8, 4
_COMPUTING = ("Attention", "MatMul", "Gemm", "Tanh", "Softmax", "Einsum", "If", "Loop", "Scan")
_POSITIONS_FROM_0 = "The new tokens do not begin at place 0: how many tokens does the cache stand for?"
_ADVICE = {
    **ADVICE,
    "first": "Nothing is cached here, and still a token must not see the next one.",
    "stop": "What does onnx.defs.get_schema('Attention', 23) say of this node's inputs, and of their sizes?",
    "several": "Which of the keys may the first of these tokens see? What does Attention do with is_causal "
    "where it gets the cache itself?",
}


@dataclass(frozen=True)
class _Kind:
    where: str
    layers: int
    heads: tuple[int, int]  # of queries, and of keys and values
    positions: bool  # whether it has position embeddings
    four_axes: bool  # whether Attention reads four axes


_KINDS = (
    _Kind("One layer that knows no places", 1, (2, 2), positions=False, four_axes=False),
    _Kind("Two layers and a Range for the places", 2, (2, 2), positions=True, four_axes=False),
    _Kind(
        "Three layers with fewer heads for keys than for queries", 3, (4, 2), positions=True, four_axes=False
    ),
    _Kind("Two layers whose Attention reads four axes", 2, (2, 1), positions=True, four_axes=True),
)


@dataclass(frozen=True, kw_only=True)
class _Question(Question):
    kind: _Kind

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
    for kind in _KINDS:
        yield _Question(kind.where, _decoder(Sketch(random), kind), kind=kind)


def _decoder(s: Sketch, kind: _Kind) -> onnx.ModelProto:
    """Draw a decoder without a cache."""
    ids = s.name()
    x = s.add("Gather", s.weight(s.normal(VOCABULARY, _WIDTH)), ids)
    if kind.positions:
        count = s.add("Squeeze", s.add("Shape", ids, start=1, end=2))
        positions = s.add("Range", s.weight(np.array(0)), count, s.weight(np.array(1)))
        x = s.add("Add", x, s.add("Gather", s.weight(s.normal(LONGEST, _WIDTH)), positions))
    queries, keys = kind.heads
    for _ in range(kind.layers):
        projections = [
            s.add("MatMul", x, s.weight(s.normal(_WIDTH, heads * _SIZE) / np.sqrt(_WIDTH)))
            for heads in (queries, keys, keys)
        ]
        if kind.four_axes:
            for i, heads in enumerate((queries, keys, keys)):
                split = s.add("Reshape", projections[i], s.weight(np.array([0, 0, heads, _SIZE])))
                projections[i] = s.add("Transpose", split, perm=[0, 2, 1, 3])
            y = s.add("Transpose", s.add("Attention", *projections, is_causal=1), perm=[0, 2, 1, 3])
            y = s.add("Reshape", y, s.weight(np.array([0, 0, queries * _SIZE])))
        else:
            y = s.add("Attention", *projections, is_causal=1, q_num_heads=queries, kv_num_heads=keys)
        y = s.add("MatMul", y, s.weight(s.normal(queries * _SIZE, _WIDTH) / np.sqrt(_WIDTH)))
        x = s.add("Add", x, s.add("Tanh", y))
    logits = s.add("MatMul", x, s.weight(s.normal(_WIDTH, VOCABULARY)))
    model = s.model({ids: ("batch", "tokens")}, {logits: ("batch", "tokens", VOCABULARY)}, opset=23)
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    return model


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
    advice = {**_ADVICE, "one": _POSITIONS_FROM_0 if question.kind.positions else ADVICE["one"]}
    for reading in texts:
        name = f"{question.where!r}: {reading.where.lower()}"
        with trying(name, model=question.model, ids=reading.ids):
            expected, ids = _expected_outputs(question, reading), question.name
            require_read(model, reading, expected, question.caches, advice, ids=ids, where=question.where)


def _expected_outputs(question: _Question, reading: Reading) -> dict[str, Array]:
    """Return the logits of a whole text from the model without a cache, and its keys and values."""
    nodes = question.model.graph.node
    names = [name for node in nodes if node.op_type == "Attention" for name in node.input[1:3]]
    logits, *arrays = open_session(expose(question.model, names)).run(None, {question.name: reading.ids})
    if not question.kind.four_axes:  # [batch, tokens, heads * size]
        arrays = [
            array.reshape(*array.shape[:2], question.kind.heads[1], _SIZE).transpose(0, 2, 1, 3)
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
            shape: list[str | int | None] = ["batch", question.kind.heads[1], length, _SIZE]
            values.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names)
    del graph.node[:]
    for node in nodes:
        if node.op_type == "Range":
            (positions,) = node.output
            node.output[0] = "new_places"
            length = helper.make_node("Shape", ["past.0.key"], ["cached"], start=2, end=3)
            graph.node.extend([node, length, helper.make_node("Add", ["new_places", "cached"], [positions])])
        else:
            graph.node.append(node)
    return model


_REWRITING = Rewriting("append_to_cache", "cached", _questions, _require_structure, _with_cache)

EXERCISE = Exercise(
    order=3,
    id="append-to-cache",
    title="Rewrite a graph so that it appends to a cache",
    points=5,
    answers=("append_to_cache",),
    produce=_REWRITING.produce,
    parts=(
        Part("a cache for each layer, and nothing computed twice", _REWRITING.judge()),
        Part("behind an empty cache: the numbers of the given model", _REWRITING.judge(_require_first)),
        Part("behind any cache: the numbers of the given model", _REWRITING.judge(_require_all)),
    ),
    hints=(
        "`Attention` can do it by itself: look at the optional inputs and outputs in "
        "`onnx.defs.get_schema('Attention', 23)`. Then ask what else in the graph depends on the number of "
        "tokens before.",
        "Inputs 4 and 5 of an `Attention` are the past key and value, its outputs 1 and 2 the present ones; "
        "input 3, the mask, stays empty. The places come out of the `Range`: add the length of a past key.",
        "For the i-th node: `node.input.extend(['', f'past.{i}.key', f'past.{i}.value'])` and "
        "`node.output.extend([f'present.{i}.key', f'present.{i}.value'])`, each also in graph.input or "
        "graph.output, by `helper.make_tensor_value_info`. Behind the Range, a `Shape` of `past.0.key` with "
        "start=2 and end=3, and an `Add`.",
    ),
)
