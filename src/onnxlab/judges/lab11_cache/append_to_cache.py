"""What is right in append-to-cache, part by part."""

from collections import Counter

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnxlab.judges.lab11_cache.reading import require_read, require_shape
from onnxlab.kit.judging import evidence, require_interface, require_valid, require_well_formed
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.rewriting import Rewritten, made_by
from onnxlab.labs.lab11_cache.append_to_cache import ASKS, CacheQuestion
from onnxlab.labs.lab11_cache.reading import ADVICE, Reading, readings
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.model.graph import walk
from onnxlab.runtime.session import open_session

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


def _require_structure(model: onnx.ModelProto, question: CacheQuestion) -> None:
    """Require a valid model with a cache for each layer, and no more computing nodes than before."""
    where = question.where
    inputs, outputs = [question.name, *question.caches], [question.logits, *question.caches.values()]
    look_at = "Each Attention gets a cache of its own, counted from 0 in the order of the nodes."
    require_interface(model, inputs, outputs, where, look_at, ordered=False)
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
        msg = Message("{where}: the result computes more than before: {counts}.", where=where, counts=counts)
        look_at = "The layers stay as they are: what is cached is not computed again."
        raise Wrong(msg, look_at, evidence=evidence(model, None, *more))


def _require_first(model: onnx.ModelProto, question: CacheQuestion, random: np.random.Generator) -> None:
    """Require the original model's numbers after an empty cache."""
    _require_readings(model, question, [text for text in readings(random) if len(text.sizes) == 1])


def _require_all(model: onnx.ModelProto, question: CacheQuestion, random: np.random.Generator) -> None:
    """Require the original model's numbers for the whole text, read in pieces."""
    _require_readings(model, question, [text for text in readings(random) if len(text.sizes) > 1])


def _require_readings(model: onnx.ModelProto, question: CacheQuestion, texts: list[Reading]) -> None:
    advice = {**_ADVICE, **({"one": _POSITIONS_FROM_0} if question.kind.positions else {})}
    session = open_session(model)
    if lost := _attributes(question.model) - _attributes(model):
        names = " and ".join(sorted({name for name, _ in lost}))
        advice = dict.fromkeys(
            advice,
            Message(
                "An Attention has lost its {names}, or has another: compare the attributes.", names=names
            ),
        )
    for reading in texts:
        name = Message("'{where}': {text}", where=question.where, text=reading.where)
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


def _expected_outputs(question: CacheQuestion, reading: Reading) -> dict[str, Array]:
    """Return the logits of a whole text from the model without a cache, and its keys and values."""
    logits, *arrays = question.session.run(None, {question.name: reading.ids})
    if not question.kind.four_axes:  # [batch, tokens, heads * size]
        arrays = [
            array.reshape(*array.shape[:2], question.kind.heads[1], question.size).transpose(0, 2, 1, 3)
            for array in arrays
        ]
    return {question.logits: logits, **dict(zip(question.caches.values(), arrays, strict=True))}


def append_to_cache(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a right answer; `author sync` writes it into the notebook of solutions."""
    known = onnx.shape_inference.infer_shapes(model).graph.value_info
    shapes = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in known}
    nodes = model.graph.node
    for i, node in enumerate(node for node in nodes if node.op_type == "Attention"):
        keys, given = (
            shapes[node.input[1]],
            [entry.i for entry in node.attribute if entry.name == "kv_num_heads"],
        )
        heads, size = (given[0], keys[2] // given[0]) if given else (keys[1], keys[3])
        node.input.append("")  # no mask: is_causal knows of the cache
        for part in ("key", "value"):
            node.input.append(f"past.{i}.{part}")
            node.output.append(f"present.{i}.{part}")
        for names, values, length in (
            (node.input[4:], model.graph.input, "past"),
            (node.output[1:], model.graph.output, "all"),
        ):
            shape = ["batch", heads, length, size]
            values.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names)
    for number, node in enumerate(nodes):
        if node.op_type == "Range":
            places, node.output[0] = node.output[0], "past.without"  # no name of the model begins with past
            nodes.insert(
                number + 1, helper.make_node("Shape", ["past.0.key"], ["past.length"], start=2, end=3)
            )
            nodes.insert(number + 2, helper.make_node("Add", ["past.without", "past.length"], [places]))
            break
    return model


JUDGES = Rewritten(ASKS, _require_structure, made_by(append_to_cache)).judges(_require_first, _require_all)
