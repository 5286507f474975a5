"""Right and wrong answers for lab 11."""

from copy import deepcopy
from functools import partial
from pathlib import Path

import onnx
import torch
from onnx import TensorProto, helper
from onnx.shape_inference import infer_shapes

from onnxlab.kit.status import Status
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


def of_the_last_decoder():
    """Return a CachedDecoder whose instances share the decoder that was given last."""

    class Shared(torch.nn.Module):
        def __init__(self, decoder):
            super().__init__()
            Shared.step = CachedDecoder(decoder)

        def forward(self, *tensors):
            return Shared.step(*tensors)

    return Shared


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


def after(change):
    """Return a CachedDecoder that first changes the decoder that it gets."""

    class Changing(CachedDecoder):
        def __init__(self, decoder):
            super().__init__(decoder)
            change(decoder)

    return Changing


class EmptiesIds(CachedDecoder):
    def forward(self, ids, past_key, past_value):
        outputs = super().forward(ids, past_key, past_value)
        if not exporting_now():
            ids.zero_()
        return outputs


class OneByOne(CachedDecoder):
    """Reads the tokens one by one, so that an export has as many steps as the example has tokens."""

    def forward(self, ids, past_key, past_value):
        logits = []
        for i in range(ids.shape[1]):
            token_logits, past_key, past_value = super().forward(ids[:, i : i + 1], past_key, past_value)
            logits.append(token_logits)
        return torch.cat(logits, 1), past_key, past_value


def cache_names(step, kind, *, pairs=True):
    layers, parts = range(len(step.layers)), ("key", "value")
    order = [(i, part) for i in layers for part in parts] if pairs else [(i, part) for part in parts for i in layers]
    return [f"{kind}.{i}.{part}" for i, part in order]


def by_torch_export(separate_tensors=True):
    """Return an export_step that uses torch.export; with the default it is right."""

    def export_step(step, file):
        cache, axes = torch.zeros(2, step.heads, 4, step.size), {0: "batch", 2: "past"}
        past = [(cache, cache)] * len(step.layers)
        if separate_tensors:
            past = [(key.clone(), value.clone()) for key, value in past]
        torch.onnx.export(
            step,
            (torch.zeros(2, 3, dtype=torch.int64), past),
            file,
            input_names=["ids", *cache_names(step, "past")],
            output_names=["logits", *cache_names(step, "present", pairs=False)],
            dynamic_shapes={"ids": {0: "batch", 1: "new"}, "past": [(axes, axes)] * len(step.layers)},
            dynamo=True,
            verbose=False,
        )

    return export_step


class Flat(torch.nn.Module):
    """A step whose cache comes flat, values before keys, and is returned pair by pair."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    def forward(self, ids, *past):
        logits, keys, values = self.step(ids, list(zip(past[1::2], past[::2], strict=True)))
        return (*(tensor for pair in zip(keys, values, strict=True) for tensor in pair), logits)


def by_sorted_names(step, file):
    """Takes the names in the order of texts, in which past.10 stands before past.2."""
    pasts = sorted(cache_names(step, "past"))
    past = [tuple(torch.zeros(2, step.heads, 4, step.size) for _ in "kv") for _ in step.layers]
    torch.onnx.export(
        step,
        (torch.zeros(2, 3, dtype=torch.int64), past),
        file,
        input_names=["ids", *pasts],
        output_names=["logits", *cache_names(step, "present", pairs=False)],
        dynamic_axes={"ids": {0: "b", 1: "n"}} | {name: {0: "b", 2: "p"} for name in pasts},
        dynamo=False,
    )


def by_torchscript(axes_of):
    """Return an export_step for mistakes that torch.export refuses: axes_of says which axis of a cache is free."""

    def export_step(step, file):
        pasts = cache_names(step, "past")
        past = [tuple(torch.zeros(2, step.heads, 4, step.size) for _ in "kv") for _ in step.layers]
        torch.onnx.export(
            step,
            (torch.zeros(2, 3, dtype=torch.int64), past),
            file,
            input_names=["ids", *pasts],
            output_names=["logits", *cache_names(step, "present", pairs=False)],
            dynamic_axes={"ids": {0: "batch", 1: "new"}} | {name: axes_of(i) for i, name in enumerate(pasts)},
            dynamo=False,
        )

    return export_step


def unless_it_exists(step, file):
    if not Path(file).exists():
        export()[0](step, file)


def a_text(step, file):
    Path(file).write_text("a step")


def without_bias(step, file):
    with torch.no_grad():
        step.head.bias.zero_()
    export()[0](step, file)


def frozen(step, file):
    export()[0](step.requires_grad_(False), file)


def three_layers(step, file):
    layers, step.layers = step.layers, step.layers[:3]
    export()[0](step, file)
    step.layers = layers


def other_way_round(step, file):
    """Exchanges the order of the inputs, and of the outputs, in the file."""
    export()[0](step, file)
    model = onnx.load(file)
    for values in (model.graph.input, model.graph.output):
        reversed_values = list(values)[::-1]
        del values[:]
        values.extend(reversed_values)
    onnx.save(model, file)


def flat(step, file):
    pasts = [f"past.{i}.{part}" for i in range(len(step.layers)) for part in ("value", "key")]
    cache = torch.zeros(1, step.heads, 2, step.size)
    torch.onnx.export(
        Flat(step),
        (torch.zeros(1, 4, dtype=torch.int64), *[cache] * len(pasts)),
        file,
        input_names=["ids", *pasts],
        output_names=[*cache_names(step, "present"), "logits"],
        dynamic_axes={"ids": {0: "b", 1: "n"}} | {name: {0: "b", 2: f"{name}_length"} for name in pasts},
        dynamo=False,
    )


def without_past(step, file):
    cache = torch.zeros(2, step.heads, 0, step.size)

    class Prefill(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.step = step

        def forward(self, ids):
            return self.step(ids, [(cache, cache)] * len(self.step.layers))[0]

    example = torch.zeros(2, 3, dtype=torch.int64)
    options = {"input_names": ["ids"], "output_names": ["logits"], "dynamo": False}
    torch.onnx.export(Prefill(), (example,), file, dynamic_axes={"ids": {0: "batch", 1: "new"}}, **options)


def without_example(step, file):
    torch.onnx.export(step, (torch.zeros(2, 3, dtype=torch.int64),), file, dynamo=False)


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


def numbered_by_names(model):
    """Counts the layers in the order of the names of their results."""
    model = append()[0](model)
    nodes = [node for node in model.graph.node if node.op_type == "Attention"]
    for i, node in enumerate(sorted(nodes, key=lambda node: node.output[0])):
        node.input[4:] = [f"past.{i}.key", f"past.{i}.value"]
        node.output[1:] = [f"present.{i}.key", f"present.{i}.value"]
    return model


def for_one_reader(model):
    """Moves the positions of the first reader of the Range only."""
    model = append(_NOT_MOVED)[0](model)
    for node in [node for node in model.graph.node if node.op_type == "Range"]:
        (positions,) = node.output
        first = next(i for i, reader in enumerate(model.graph.node) if positions in reader.input)
        reader = model.graph.node[first]
        reader.input[:] = ["past.moved" if name == positions else name for name in reader.input]
        length = helper.make_node("Shape", ["past.0.key"], ["past.length"], start=2, end=3)
        model.graph.node.insert(first, length)
        moved = helper.make_node("Add", [positions, "past.length"], ["past.moved"])
        model.graph.node.insert(first + 1, moved)
    return model


def labels_for_heads(model):
    model = append()[0](model)
    for value in model.graph.input[1:]:
        value.type.tensor_type.shape.dim[1].dim_param = "heads"
    return model


def kept_from_the_first():
    """Return an append_to_cache that returns its first result again and again."""
    results = []

    def append_to_cache(model):
        results.append(append()[0](model))
        return results[0]

    return append_to_cache


# Pieces of the solutions, and what stands in their place.
_AT, _MASK = "torch.arange(before, before + new)", "torch.arange(before + new) <= positions[:, None]"
_KEYS, _VALUES = "past_key, d.heads(d.key(x))", "past_value, d.heads(d.value(x))"
_TABLE = "(torch.ones(64, 64).tril() == 1)[before : before + new, : before + new]"
_PAIRS, _KEYS_FIRST = "for i in layers for part in parts]", "for part in parts for i in layers]"
_LENGTH_OF, _LAYERS = "past.0.key", 'node for node in nodes if node.op_type == "Attention"'
_NOT_MOVED = {'if node.op_type == "Range"': "if False"}
_NO_MASK, _NOT_CAUSAL = 'node.input.append("")', "[node.attribute.remove(e) for e in [*node.attribute] if e.name == 'is_causal']"
_PAST, _PRESENT = 'node.input.append(f"past.{i}.{part}")', 'node.output.append(f"present.{i}.{part}")'
_ALL_PASTS = {"node.input[4:]": '[f"past.{i}.{part}" for part in ("key", "value")]'}
_COPIED = {
    _PRESENT: """node.output.append(f"new.{i}.{part}")
            nodes.add(op_type="Identity", input=[f"past.{i}.{part}"], output=[f"present.{i}.{part}"])""",
    "node.output[1:]": '[f"present.{i}.{part}" for part in ("key", "value")]',
}
_IDLE = """idle = nodes.add()
    idle.CopyFrom(next(node for node in nodes if node.op_type == "Attention"))
    idle.name, idle.output[:] = "idle", ["idle"]
    return model"""
_LOGITS = """nodes.add(op_type="Identity", input=[model.graph.output[0].name], output=["logits"])
    model.graph.output[0].name = "logits"
    return model"""
_ONE_TOKEN = "It may see all of the cache, and itself."
_FROZEN = "The example had 1 token and a cache of 0"
_WHICH = "Which tensor does each name stand for"

CONTRACTS = {
    "cached-decoder": Contract(
        right=(
            cached(),
            cached({_ATTENTION: _BY_HAND}),
            cached({_AT: "torch.ones(new, dtype=torch.int64).cumsum(0) - 1 + before", _MASK: "torch.cat([torch.ones(new, before), torch.ones(new, new).tril()], 1) == 1"}),
            # As many queries of zeros in front as there are cached keys, so that is_causal fits.
            cached({_ATTENTION: "scaled_dot_product_attention(torch.cat([torch.zeros(ids.shape[0], 2, before, 8), d.heads(d.query(x))], 2), key, value, is_causal=True)[:, :, before:]"}),
            cached({_MASK: _TABLE}),
            cached({"=mask": "=torch.zeros(new, before + new).masked_fill(~mask, -torch.inf)"}),
        ),
        wrong=(
            WrongAnswer("the last forty only", cached({"=mask": "=mask & (torch.arange(before + new) > positions[:, None] - 40)"}), "a cache up to the last position"),
            WrongAnswer("sixty-two positions", cached({"(positions)": "(positions.clamp(max=61))"}), "a cache up to the last position"),
            WrongAnswer("a mask for 63", cached({_MASK: _TABLE.replace("64", "63")}), "RuntimeError", Status.ERROR),
            WrongAnswer("the decoder of the last module", (of_the_last_decoder(),), "In PyTorch"),
            WrongAnswer("its own cache", (OwnCache,), "present_key has another shape"),
            WrongAnswer("views of one buffer", (OneBuffer,), "In PyTorch"),
            WrongAnswer("the scale in the weights", (ScaledInPlace,), "The decoder is another one afterwards"),
            WrongAnswer("a mask in the decoder", (after(lambda decoder: decoder.register_buffer("mask", torch.ones(64, 64).tril())),), "The decoder is another one afterwards: its mask"),
            WrongAnswer("no more gradients", (after(lambda decoder: decoder.requires_grad_(False)),), "its token.weight.requires_grad"),
            WrongAnswer("a mask of -20", cached({"=mask": "=torch.zeros(new, before + new).masked_fill(~mask, -20.0)"}), "In PyTorch"),
            WrongAnswer("ids are emptied", (EmptiesIds,), "changes its argument ids"),
            WrongAnswer("is_causal behind a cache", cached({"attn_mask=mask": "is_causal=True"}), _ONE_TOKEN),
            WrongAnswer("places from 0", cached({"(positions)": "(torch.arange(new))"}), "In PyTorch, one token at a time from the start"),
            WrongAnswer("no mask", cached({", attn_mask=mask": ""}), "Which tokens may each of the new tokens see"),
            WrongAnswer("not even itself", cached({"<= positions": "< positions"}), "If your mask allows that"),
            WrongAnswer("the cache only up to four tokens back", cached({"=mask": "=mask & ~mask.roll(-4, 1)"}), "In PyTorch"),
            WrongAnswer("a mask of the example's size", cached({_MASK: "torch.arange(int(before + new)) <= torch.arange(int(before), int(before + new))[:, None]"}), _FROZEN),
            WrongAnswer("a mask by NumPy", cached({_MASK: "torch.from_numpy(np.tril(np.ones((int(new), int(before + new)), bool), int(before)))"}), _FROZEN),
            WrongAnswer("places of the example", cached({"(positions)": "(torch.arange(int(before), int(before + new)))"}), _FROZEN),
            WrongAnswer("a branch for the empty cache", cached({"attn_mask=mask": '**({"is_causal": True} if before == 0 else {"attn_mask": mask})'}), _FROZEN),
            WrongAnswer("a loop over the tokens", (OneByOne,), _FROZEN),
            WrongAnswer("new keys before the old ones", cached({_KEYS: "d.heads(d.key(x)), past_key", _VALUES: "d.heads(d.value(x)), past_value"}), "then what is new"),
            WrongAnswer("only what is new is returned", cached({", key, value\n": ", key[:, :, before:], value[:, :, before:]\n"}), "present_key has another shape"),
            WrongAnswer("the cache is not read", cached({_KEYS: "d.heads(d.key(x))", _VALUES: "d.heads(d.value(x))", "attn_mask=mask": "is_causal=True"}), "present_key has another shape"),
            WrongAnswer("values are not appended", cached({_VALUES: "d.heads(d.value(x))"}), "RuntimeError", Status.ERROR),
            WrongAnswer("keys and values exchanged", cached({", key, value\n": ", value, key\n"}), "present_key holds other numbers"),
            WrongAnswer("logits of the last token", cached({"flatten(2)), key": "flatten(2))[:, -1:], key"}), "logits has another shape"),
            WrongAnswer("numbers of zero", cached({"flatten(2)), key": "flatten(2)) * 0, key"}), "logits has other numbers than without a cache"),
            WrongAnswer("logits only", cached({", key, value\n": "\n"}), "a tuple or list was expected"),
            WrongAnswer("the cache as one", cached({", key, value\n": ", (key, value)\n"}), "returned 2 values"),
            WrongAnswer("a function", (lambda decoder: lambda ids, key, value: None,), "a Module was expected"),
        ),
    ),
    "export-step": Contract(
        right=(
            export(),
            (by_torch_export(),),
            (by_torchscript(lambda _: {0: "batch", 2: "past"}),),
            (flat,),
            export({"zeros(2, 3": "zeros(3, 5", "zeros(2, step": "zeros(3, step"}),
            (other_way_round,),
        ),
        wrong=(
            WrongAnswer("names in the order of texts", (by_sorted_names,), _WHICH),
            WrongAnswer("the first file stays", (unless_it_exists,), "The file: the model's inputs"),
            WrongAnswer("no ONNX", (a_text,), "is not an ONNX model"),
            WrongAnswer("a bias of 0", (without_bias,), "The step is another one afterwards"),
            WrongAnswer("no more gradients", (frozen,), "its token.weight.requires_grad"),
            WrongAnswer("three layers at most", (three_layers,), "The file: the model's inputs"),
            WrongAnswer("outputs pair after pair", export({_KEYS_FIRST: _PAIRS}), _WHICH),
            WrongAnswer("inputs keys first", export({_PAIRS: _KEYS_FIRST}), _WHICH),
            WrongAnswer("underscores", export({"past.{i}.{part}": "past_{i}_{part}", "present.{i}.{part}": "present_{i}_{part}"}), "past_0_key"),
            WrongAnswer("layers from 1", export({"past.{i}": "past.{i + 1}", "present.{i}": "present.{i + 1}"}), "Which names does the runner put together"),
            WrongAnswer("only the logits have a name", export({'["logits", *presents]': '["logits"]'}), "the model's outputs"),
            WrongAnswer("an example of one token", export({"zeros(2, 3": "zeros(1, 1", "zeros(2, step": "zeros(1, step"}), "A size of 1 can be kept as a constant"),
            WrongAnswer("no dynamic axis", export({"dynamic_shapes=": "dynamic_shapes=None and "}), "Axis 0 of past.0.key is fixed"),
            WrongAnswer("the batch of the example", export({'0: "batch", 1': "1", '0: "batch", 2': "2"}), "Axis 0 of past.0.key is fixed"),
            WrongAnswer("the new tokens of the example", export({', 1: "new"': ""}), "Axis 1 of ids is fixed"),
            WrongAnswer("the cache of the example", export({', 2: "past"': ""}), "Axis 2 of past.0.key is fixed"),
            WrongAnswer("axes of the first layer only", (by_torchscript(lambda i: {0: "batch", 2: "past"} if i < 2 else {}),), "of past.1.key is fixed"),
            WrongAnswer("every axis dynamic", (by_torchscript(lambda _: {0: "batch", 1: "heads", 2: "past", 3: "size"}),), "to make an empty cache"),
            WrongAnswer("int32", export({"torch.int64": "torch.int32"}), "accepts int32"),
            WrongAnswer("one tensor for the whole cache", (by_torch_export(separate_tensors=False),), "One tensor"),
            WrongAnswer("no cache", (without_past,), "the model's inputs"),
            WrongAnswer("no example for the cache", (without_example,), "TypeError", Status.ERROR),
            WrongAnswer("no file", (lambda step, file: None,), "wrote no file"),
        ),
    ),
    "append-to-cache": Contract(
        right=(
            append(),
            (with_a_mask,),
            append({_LENGTH_OF: "past.0.value"}),
            (lambda model: append()[0](deepcopy(model)),),
        ),
        wrong=(
            WrongAnswer("no scale", (without_scale,), "An Attention has lost its scale"),
            WrongAnswer("numbers by name", (numbered_by_names,), "joined to the node with its number"),
            WrongAnswer("one reader of the Range", (for_one_reader,), "how many tokens does the cache stand for"),
            WrongAnswer("labels for the heads", (labels_for_heads,), "to make an empty cache"),
            WrongAnswer("the first result", (kept_from_the_first(),), "are not the ones asked for"),
            WrongAnswer("names of the model", append({'["past.length"], start': '["length"], start', '"past.length"]': '"length"]'}), "Give every new value"),
            WrongAnswer("the length of another layer", append({_LENGTH_OF: "past.1.key"}), "One layer and a Range"),
            WrongAnswer("nothing is done", (lambda model: model,), "the model's inputs are not the ones asked for"),
            WrongAnswer("places from 0", append(_NOT_MOVED), "how many tokens does the cache stand for"),
            WrongAnswer("the key as mask", append({_NO_MASK: "pass", "node.input[4:]": "node.input[3:]"}), "get_schema('Attention', 23)"),
            WrongAnswer("no mask", append({_NO_MASK: f"{_NOT_CAUSAL}; {_NO_MASK}"}), "must not see the next one"),
            WrongAnswer("values and keys", append({'("key", "value")': '("value", "key")', "values.extend": "names = sorted(names); values.extend"}), "holds other numbers"),
            WrongAnswer("layers from the last", append({f"enumerate({_LAYERS})": f"enumerate([{_LAYERS}][::-1])"}), "Two layers"),
            WrongAnswer("one cache for all layers", append({_PAST: _PAST.replace("{i}", "0"), **_ALL_PASTS}), "Two layers"),
            WrongAnswer("places behind all tokens", append({_LENGTH_OF: "present.0.key"}), "refuses the result"),
            WrongAnswer("the number of heads", append({"start=2, end=3": "start=1, end=2"}), "has other numbers than without a cache"),
            WrongAnswer("a cache of four", append({'input, "past"': "input, 4"}), "Axis 2 of past.0.key is fixed"),
            WrongAnswer("an Attention too many", append({"return model": _IDLE}), "computes more than before: 1 x Attention"),
            WrongAnswer("the cache never grows", append(_COPIED), "another shape or type"),
            WrongAnswer("the cache is not read", append({_PAST: 'node.input.append("")', **_ALL_PASTS}), "has other numbers than without a cache"),
            WrongAnswer("another name", append({"return model": _LOGITS}), "the model's outputs are not the ones asked for"),
            WrongAnswer("no model", (lambda model: None,), "a ModelProto was expected"),
        ),
    ),
}
