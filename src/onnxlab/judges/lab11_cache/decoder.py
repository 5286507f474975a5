"""Small decoders with drawn weights: one without a cache, and one step with it; the ONNX model of a step."""

from collections.abc import Sequence
from typing import cast

import onnx
from torch import nn

from onnxlab.kit.judging import expected_model
from onnxlab.labs.lab11_cache.decoder import VOCABULARY, Decoder, Step


def step_model(module: Decoder | Step, pasts: Sequence[str], presents: Sequence[str]) -> bytes:
    """Return the ONNX model of one step, with one `Attention` of opset 23 for each layer."""
    if isinstance(module, Step):
        layers = [[*layer.weight.chunk(3), *layer.bias.chunk(3)] for layer in _linears(module.layers)]
        heads, size = module.heads, module.size
    else:
        linears = module.query, module.key, module.value
        layers = [[linear.weight for linear in linears] + [linear.bias for linear in linears]]
        heads, size = 2, 8
    weights = {"token": module.token.weight, "position": module.position.weight}
    weights |= {"head": module.head.weight.T, "bias": module.head.bias}
    lines = []
    for i, tensors in enumerate(layers):
        for part, weight, bias in zip("qkv", tensors[:3], tensors[3:], strict=True):
            weights |= {f"weight_{part}{i}": weight.T, f"bias_{part}{i}": bias}
            lines.append(f"m_{part}{i} = MatMul (x{i}, weight_{part}{i})")
            lines.append(f"{part}{i} = Add (m_{part}{i}, bias_{part}{i})")
        outputs = f"y{i}, present_{2 * i}, present_{2 * i + 1}"
        options = f"<is_causal = 1, q_num_heads = {heads}, kv_num_heads = {heads}>"
        lines.append(f"{outputs} = Attention {options} (q{i}, k{i}, v{i}, , past_{2 * i}, past_{2 * i + 1})")
        lines.append(f"x{i + 1} = Add (x{i}, y{i})")
    numbers = range(len(pasts))
    past_inputs = "".join(f", float[batch, {heads}, past, {size}] past_{i}" for i in numbers)
    present_outputs = "".join(f", float[batch, {heads}, all, {size}] present_{i}" for i in numbers)
    body = "\n    ".join(lines)
    text = f"""<ir_version: 10, opset_import: ["" : 23]>
step (int64[batch, new] ids{past_inputs}) => (float[batch, new, {VOCABULARY}] logits{present_outputs})
<int64 one = {{1}}> {{
    before = Shape <start = 2, end = 3> (past_0)
    count = Shape <start = 1, end = 2> (ids)
    end = Add (before, count)
    first = Squeeze (before)
    last = Squeeze (end)
    places = Range (first, last, one)
    tokens = Gather (token, ids)
    positions = Gather (position, places)
    x0 = Add (tokens, positions)
    {body}
    m = MatMul (x{len(layers)}, head)
    logits = Add (m, bias)
}}"""
    # The text form has no dots in names.
    names = {f"past_{i}": name for i, name in enumerate(pasts)}
    names |= {f"present_{i}": name for i, name in enumerate(presents)}
    model = expected_model(text, {name: weight.contiguous() for name, weight in weights.items()})
    return _renamed(model, names)


def _linears(layers: nn.ModuleList) -> list[nn.Linear]:
    return [cast("nn.Linear", layer) for layer in layers]


def _renamed(model: bytes, names: dict[str, str]) -> bytes:
    proto = onnx.load_model_from_string(model)
    for node in proto.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for value in (*proto.graph.input, *proto.graph.output):
        value.name = names.get(value.name, value.name)
    data: bytes = proto.SerializeToString()
    return data
