"""Right and wrong answers for lab 11."""

from copy import deepcopy
from functools import partial
from pathlib import Path

import onnx
import torch
from onnx import TensorProto, helper
from onnx.shape_inference import infer_shapes

from tests.support.answer_parts import drop_attribute, replace_nodes
from tests.support.labs import Contract, WrongAnswer, solution

cached, export, append = (
    partial(solution, name) for name in ("cached-decoder", "export-step", "append-to-cache")
)
(CachedDecoder,) = cached()
_ATTENTION = "scaled_dot_product_attention(d.heads(d.query(x)), key, value, attn_mask=mask)"
_BY_HAND = "(d.heads(d.query(x)) @ key.transpose(2, 3) / 8**0.5).masked_fill(~mask, -torch.inf).softmax(-1) @ value"
(Unscaled,) = cached({_ATTENTION: _BY_HAND.replace(" / 8**0.5", "")})


def exporting_now():
    return torch.onnx.is_in_onnx_export() or torch.compiler.is_compiling()


class OwnCache(CachedDecoder):
    """Keeps the cache of the last text of each batch, and does not read the one that it is given."""

    def forward(self, ids, past_key, past_value):
        if exporting_now():
            return super().forward(ids, past_key, past_value)
        caches, given = vars(self).setdefault("caches", {}), (past_key, past_value)
        own = caches.get(len(ids), given) if past_key.shape[2] else given
        logits, *caches[len(ids)] = super().forward(ids, *own)
        return (logits, *caches[len(ids)])


class OneBuffer(CachedDecoder):
    """Returns views of one buffer for each batch."""

    def forward(self, ids, past_key, past_value):
        logits, *cache = super().forward(ids, past_key, past_value)
        if exporting_now():
            return (logits, *cache)
        end = cache[0].shape[2]
        buffers = vars(self).setdefault("kept", {}).setdefault(len(ids), torch.zeros(2, len(ids), 2, 64, 8))
        for buffer, tensor in zip(buffers, cache, strict=True):
            buffer[:, :, :end] = tensor
        return (logits, *(buffer[:, :, :end] for buffer in buffers))


class ScaledInPlace(Unscaled):
    """Puts the scale of the attention into the decoder's own weights."""

    def __init__(self, decoder):
        super().__init__(decoder)
        decoder.query.weight.data /= 8**0.5
        decoder.query.bias.data /= 8**0.5


class EmptiesIds(CachedDecoder):
    def forward(self, ids, past_key, past_value):
        outputs = super().forward(ids, past_key, past_value)
        if not exporting_now():
            ids.zero_()
        return outputs


def cache_names(step, kind, *, pairs=True):
    layers, parts = range(len(step.layers)), ("key", "value")
    order = [(i, part) for i in layers for part in parts] if pairs else [(i, part) for part in parts for i in layers]
    return [f"{kind}.{i}.{part}" for i, part in order]


def by_torchscript(past_axes, new_tokens=None, present="present", dtype=torch.int64):
    """Return an export_step with the quicker exporter: `past_axes` says which axes of a cache are dynamic."""

    def export_step(step, file):
        pasts, presents = cache_names(step, "past"), cache_names(step, present, pairs=False) if present else []
        caches = [tuple(torch.zeros(2, step.heads, 4, step.size) for _ in "kv") for _ in step.layers]
        torch.onnx.export(
            step,
            (torch.zeros(2, 3, dtype=dtype), caches),
            file,
            input_names=["ids", *pasts],
            output_names=["logits", *presents],
            dynamic_axes={"ids": new_tokens or {0: "batch", 1: "new"}}
            | {name: past_axes(i) for i, name in enumerate(pasts)},
            dynamo=False,
        )

    return export_step


def a_text(step, file):
    Path(file).write_text("a step")


right_by_torchscript = by_torchscript(lambda _: {0: "batch", 2: "past"})


def without_bias(step, file):
    with torch.no_grad():
        step.head.bias.zero_()
    right_by_torchscript(step, file)


def other_way_round(step, file):
    """Exchanges the order of the inputs, and of the outputs, in the file."""
    right_by_torchscript(step, file)
    model = onnx.load(file)
    for values in (model.graph.input, model.graph.output):
        reversed_values = list(values)[::-1]
        del values[:]
        values.extend(reversed_values)
    onnx.save(model, file)


def value_info(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def heads_and_sizes(model):
    """Return the heads of the keys and their size, for each Attention; of copies of the graph's shapes."""
    graph = infer_shapes(model).graph
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in graph.value_info
    }
    pairs = []
    for node in graph.node:
        if node.op_type == "Attention":
            heads = next((entry.i for entry in node.attribute if entry.name == "kv_num_heads"), 0)
            keys = shapes[node.input[1]]
            pairs.append((heads, keys[2] // heads) if heads else (keys[1], keys[3]))
    return pairs


def with_a_mask(model):
    """Adds a mask instead of is_causal, and the length of the cache to the result of the Range."""
    graph, (ids,) = model.graph, [value.name for value in model.graph.input]
    nodes = [
        helper.make_node("Constant", [], ["past.one_number"], value_int=1),
        helper.make_node("Constant", [], ["past.zero_number"], value_int=0),
        helper.make_node("Constant", [], ["past.down"], value_ints=[1]),
        helper.make_node("Shape", [ids], ["past.new_length"], start=1, end=2),
        helper.make_node("Shape", ["past.0.value"], ["past.cached"], start=2, end=3),
        helper.make_node("Add", ["past.new_length", "past.cached"], ["past.all_length"]),
        helper.make_node("Squeeze", ["past.cached"], ["past.first"]),
        helper.make_node("Squeeze", ["past.all_length"], ["past.last"]),
        helper.make_node("Range", ["past.first", "past.last", "past.one_number"], ["past.rows"]),
        helper.make_node("Range", ["past.zero_number", "past.last", "past.one_number"], ["past.columns"]),
        helper.make_node("Unsqueeze", ["past.rows", "past.down"], ["past.rows_down"]),
        helper.make_node("LessOrEqual", ["past.columns", "past.rows_down"], ["past.may_see"]),
    ]
    count, sizes = 0, heads_and_sizes(model)
    for node in graph.node:
        if node.op_type == "Range":
            positions, node.output[0] = node.output[0], "past.from_zero"
            nodes += [node, helper.make_node("Add", ["past.cached", "past.from_zero"], [positions])]
            continue
        if node.op_type == "Attention":
            drop_attribute(node, "is_causal")
            node.input.extend(["past.may_see", f"past.{count}.key", f"past.{count}.value"])
            node.output.extend([f"present.{count}.key", f"present.{count}.value"])
            heads, size = sizes[count]
            graph.input.extend(value_info(name, "b", heads, "p", size) for name in node.input[4:])
            graph.output.extend(value_info(name, "b", heads, "t", size) for name in node.output[1:])
            count += 1
        nodes.append(node)
    replace_nodes(graph, nodes)
    return model


def without_scale(model):
    """Forgets an attribute of the given nodes."""
    model = append()[0](model)
    for node in model.graph.node:
        if node.op_type == "Attention":
            drop_attribute(node, "scale")
    return model


# Pieces of the solutions, and what stands in their place.
_KEYS, _VALUES = "past_key, d.heads(d.key(x))", "past_value, d.heads(d.value(x))"
_LENGTH_OF = "past.0.key"
_NOT_MOVED = {'if node.op_type == "Range"': "if False"}
_NO_MASK, _NOT_CAUSAL = 'node.input.append("")', "[node.attribute.remove(e) for e in [*node.attribute] if e.name == 'is_causal']"
_PRESENT = 'node.output.append(f"present.{i}.{part}")'
_COPIED = {
    _PRESENT: """node.output.append(f"new.{i}.{part}")
            nodes.add(op_type="Identity", input=[f"past.{i}.{part}"], output=[f"present.{i}.{part}"])""",
    "node.output[1:]": '[f"present.{i}.{part}" for part in ("key", "value")]',
}
_IDLE = """idle = nodes.add()
    idle.CopyFrom(next(node for node in nodes if node.op_type == "Attention"))
    idle.name, idle.output[:] = "idle", ["idle"]
    return model"""
_FROZEN = "The example's text had length 1, its cache 0"

CONTRACTS = {
    "cached-decoder": Contract(
        right=(cached(), cached({_ATTENTION: "scaled_dot_product_attention(torch.cat([torch.zeros(ids.shape[0], 2, before, 8), d.heads(d.query(x))], 2), key, value, is_causal=True)[:, :, before:]"}), cached({"=mask": "=torch.zeros(new, before + new).masked_fill(~mask, -torch.inf)"})),
        wrong=(
            WrongAnswer("sixty-two positions", cached({"(positions)": "(positions.clamp(max=61))"}), "a cache up to the last position"),
            WrongAnswer("its own cache", (OwnCache,), "present_key has another shape"),
            WrongAnswer("views of one buffer", (OneBuffer,), "In PyTorch"),
            WrongAnswer("the scale in the weights", (ScaledInPlace,), "The decoder is another one afterwards"),
            WrongAnswer("ids are emptied", (EmptiesIds,), "changes its argument ids"),
            WrongAnswer("no mask", cached({", attn_mask=mask": ""}), "Which tokens may each of the new tokens see"),
            WrongAnswer("not even itself", cached({"<= positions": "< positions"}), "If your mask allows that"),
            WrongAnswer("places of the example", cached({"(positions)": "(torch.arange(int(before), int(before + new)))"}), _FROZEN),
            WrongAnswer("new keys before the old ones", cached({_KEYS: "d.heads(d.key(x)), past_key", _VALUES: "d.heads(d.value(x)), past_value"}), "then what is new"),
            WrongAnswer("the cache as one", cached({", key, value\n": ", (key, value)\n"}), "forward() returned: 2; three were expected"),
        ),
    ),
    "export-step": Contract(
        right=(export(), (right_by_torchscript,), (other_way_round,)),
        wrong=(
            WrongAnswer("no ONNX", (a_text,), "is not an ONNX model"),
            WrongAnswer("a bias of 0", (without_bias,), "The step is another one afterwards"),
            WrongAnswer("only the logits have a name", (by_torchscript(lambda _: {0: "batch", 2: "past"}, present=""),), "the model's outputs"),
            WrongAnswer("an example of one token", export({"zeros(2, 3": "zeros(1, 1", "zeros(2, step": "zeros(1, step"}), "A size of 1 can be kept as a constant"),
            WrongAnswer("the new tokens of the example", (by_torchscript(lambda _: {0: "batch", 2: "past"}, {0: "batch"}),), "Axis 1 of ids is fixed"),
            WrongAnswer("the cache of the example", (by_torchscript(lambda _: {0: "batch"}),), "Axis 2 of past.0.key is fixed"),
            WrongAnswer("axes of the first layer only", (by_torchscript(lambda i: {0: "batch", 2: "past"} if i < 2 else {}),), "of past.1.key is fixed"),
            WrongAnswer("every axis dynamic", (by_torchscript(lambda _: {0: "batch", 1: "heads", 2: "past", 3: "size"}),), "to make an empty cache"),
            WrongAnswer("int32", (by_torchscript(lambda _: {0: "batch", 2: "past"}, dtype=torch.int32),), "accepts int32"),
            WrongAnswer("no file", (lambda step, file: None,), "wrote no file"),
        ),
    ),
    "append-to-cache": Contract(
        right=(append(), (with_a_mask,), (lambda model: append()[0](deepcopy(model)),)),
        wrong=(
            WrongAnswer("no scale", (without_scale,), "An Attention has lost its scale"),
            WrongAnswer("names of the model", append({'["past.length"], start': '["length"], start', '"past.length"]': '"length"]'}), "Give every new value"),
            WrongAnswer("the length of another layer", append({_LENGTH_OF: "past.1.key"}), "One layer and a Range"),
            WrongAnswer("nothing is done", (lambda model: model,), "the model's inputs are not the ones asked for"),
            WrongAnswer("places from 0", append(_NOT_MOVED), "how many tokens does the cache stand for"),
            WrongAnswer("the key as mask", append({_NO_MASK: "pass", "node.input[4:]": "node.input[3:]"}), "get_schema('Attention', 23)"),
            WrongAnswer("no mask", append({_NO_MASK: f"{_NOT_CAUSAL}; {_NO_MASK}"}), "must not see the next one"),
            WrongAnswer("values and keys", append({'("key", "value")': '("value", "key")', "values.extend": "names = sorted(names); values.extend"}), "holds other numbers"),
            WrongAnswer("an Attention too many", append({"return model": _IDLE}), "computes more than before: 1 x Attention"),
            WrongAnswer("the cache never grows", append(_COPIED), "another shape or type"),
        ),
    ),
}
