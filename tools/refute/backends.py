"""Chapters 10 to 11: other programs, what the runtime makes of a file, edits of a graph."""

import itertools
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from onnxlab.runtime.session import open_session
from tools.refute.claims import Attempts, claim
from tools.refute.exports import (
    BOTH,
    DEFAULT,
    TORCHSCRIPT,
    Call,
    close,
    exported,
    operators,
    parsed,
    raised,
    ran,
    referred,
    tried,
)

LEVELS = ("BASIC", "EXTENDED", "LAYOUT", "ALL")


def optimized(model: onnx.ModelProto, level: str) -> onnx.ModelProto:
    """Return the graph that ONNX Runtime makes of a file at a level."""
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.optimized_model_filepath = "optimized.onnx"
    options.log_severity_level = 4
    ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load("optimized.onnx")


def in_openvino(path: str, *inputs: Any) -> list[Any]:
    """Return OpenVINO's outputs."""
    import openvino

    compiled = openvino.Core().compile_model(path, "CPU")
    return [np.array(value) for value in compiled(list(inputs)).values()]


@claim(
    "10_backends_differ",
    "3. Which node makes the indices wrong?",
    "For it both ways of counting agree, so there is nothing to repair.",
    fell="With one channel both ways of counting agree, so there is nothing to repair.",
    why="a batch of two: ONNX counts on from the first picture",
)
def one_channel_of_several_pictures() -> Attempts:
    for batch in (1, 2, 3):  # of several pictures it is not true
        x = torch.rand(batch, 1, 4, 4)
        text = f"""g (float[{batch},1,4,4] x) => (float[n,c,h,w] y, int64[n,c,h,w] i)
        {{ y, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]> (x) }}"""
        indices = nn.functional.max_pool2d(x, 2, return_indices=True)[1]
        yield f"a batch of {batch}", close(ran(parsed(text), x)[1], indices) == (batch == 1)


@claim(
    "10_backends_differ",
    "4. What is left of the photograph?",
    "A grey picture has one channel, and is right: a quick test does not find the fault.",
)
def exported_pools_of_batches_and_channels() -> Attempts:
    pool = nn.MaxPool2d(2, return_indices=True)
    for exporter, batch, channels in itertools.product(BOTH, (1, 3), (1, 4)):
        x = torch.rand(batch, channels, 6, 6)
        file = exported(pool, (x,), exporter)
        yield f"{exporter}, {batch} x {channels}, as exported", close(ran(file, x)[1], pool(x)[1])


@claim(
    "10_backends_differ",
    "3. Which node makes the indices wrong?",
    "For other strides and dilations it has other code, and there a search found no wrong index.",
)
def pools_of_the_reference() -> Attempts:
    generator = np.random.default_rng(1)
    for number in range(150):
        kernel = generator.integers(1, 4, 2)
        stride, dilation = generator.integers(1, 4, 2), generator.integers(1, 3, 2)
        if (stride == 1).all() and (dilation == 1).all():
            continue
        pads = [int(generator.integers(0, k)) for k in kernel] * 2
        ceil = int(generator.integers(0, 2))
        x = generator.random((2, 2, *generator.integers(7, 10, 2)), np.float32)
        text = f"""g (float[2,2,{x.shape[2]},{x.shape[3]}] x) => (float[a,b,c,d] y, int64[a,b,c,d] i)
        {{ y, i = MaxPool<kernel_shape = {[*map(int, kernel)]}, strides = {[*map(int, stride)]},
        dilations = {[*map(int, dilation)]}, pads = {pads}, ceil_mode = {ceil}> (x) }}"""
        model = parsed(text)
        if raised(ran, model, x):
            continue
        ours, theirs = ran(model, x), referred(model, x)
        same = ours[0].shape == theirs[0].shape and (ours[1] == theirs[1]).all()
        yield (
            f"{number}: kernel {kernel}, stride {stride}, dilation {dilation}, pads {pads}, ceil {ceil}",
            bool(same),
        )


@claim(
    "10b_what_runs",
    "4. Who else can run the optimised file?",
    "From `EXTENDED` on, the saved file may hold operators of ONNX Runtime's own, and few other programs "
    "know any of these.",
    fell="From `EXTENDED` on, the saved file is for ONNX Runtime only.",
    why="OpenVINO runs the file with FusedGemm; a Softmax has nothing to fuse and runs anywhere",
)
def optimised_files_in_other_programs() -> Attempts:
    for label, module, x in (
        ("Softmax", nn.Softmax(-1), torch.rand(2, 3)),
        ("Linear", nn.Linear(3, 3), torch.rand(2, 3)),
        ("Linear and ReLU", nn.Sequential(nn.Linear(3, 3), nn.ReLU()), torch.rand(2, 3)),
        ("GELU", nn.GELU(), torch.rand(2, 3)),
    ):
        file = optimized(exported(module, (x,), TORCHSCRIPT), "EXTENDED")
        expected = module(x).detach()
        own = {node.domain for node in file.graph.node} != {""}
        by_reference = not raised(referred, file, x.numpy()) and close(referred(file, x.numpy())[0], expected)
        error = raised(in_openvino, "optimized.onnx", x.numpy())
        by_openvino = not error and close(in_openvino("optimized.onnx", x.numpy())[0], expected, 1e-3)
        yield (
            f"{label}: {operators(file)}, own operators {own}: reference {by_reference}, OpenVINO {by_openvino}",
            by_reference != own,
        )


@claim(
    "10b_what_runs",
    "7. May a BatchNorm be folded forwards, too?",
    "Inside the picture both results agree, and with `padding=0` the fold is exact everywhere.",
)
def convolutions_of_other_settings() -> Attempts:
    for stride, dilation, groups, bias in itertools.product((1, 2), (1, 2), (1, 2), (True, False)):
        norm = nn.BatchNorm2d(4).eval()
        norm.running_mean.normal_(), norm.running_var.uniform_(0.5, 2)
        nn.init.normal_(norm.weight), nn.init.normal_(norm.bias)
        conv = nn.Conv2d(4, 6, 3, stride=stride, dilation=dilation, groups=groups, bias=bias)
        scale = norm.weight / (norm.running_var + norm.eps).sqrt()
        shift = norm.bias - norm.running_mean * scale
        folded = nn.Conv2d(4, 6, 3, stride=stride, dilation=dilation, groups=groups)
        per_group = 4 // groups
        with torch.no_grad():
            rows = [
                slice(per_group * (i // (6 // groups)), per_group * (i // (6 // groups)) + per_group)
                for i in range(6)
            ]
            folded.weight.copy_(torch.stack([conv.weight[i] * scale[rows[i], None, None] for i in range(6)]))
            added = torch.stack([(conv.weight[i] * shift[rows[i], None, None]).sum() for i in range(6)])
            folded.bias.copy_(added + (conv.bias if bias else 0))
            x = torch.rand(2, 4, 9, 9)
            yield (
                f"stride {stride}, dilation {dilation}, groups {groups}, bias {bias}",
                close(folded(x), conv(norm(x))),
            )


@claim(
    "10b_what_runs",
    "1. How many nodes is an attention?",
    "Only the torch.export exporter writes `Attention`, and in this chapter's cases only where the model calls "
    "`scaled_dot_product_attention`.",
)
def attention_in_the_other_exporter() -> Attempts:
    attend = Call(lambda x: nn.functional.scaled_dot_product_attention(x, x, x))
    x = torch.rand(1, 2, 3, 4)
    for opset in (20, 21, 22, 23):
        made = tried(attend, (x,), TORCHSCRIPT, opset_version=opset)
        yield (
            f"TorchScript, {opset}: {made.failure}",
            not made.model or "Attention" not in operators(made.proto),
        )
    yield "torch.export, 23", "Attention" in operators(exported(attend, (x,), DEFAULT, opset_version=23))


@claim(
    "10b_what_runs",
    "5. Where is the BatchNorm?",
    "Conv is linear, so scaling its result is the same as scaling its weights: one Conv with the weights `s * w` and "
    "the bias `t` does both.",
)
def folds_of_both_exporters() -> Attempts:
    for conv, norm, rank in ((nn.Conv1d, nn.BatchNorm1d, 1), (nn.Conv2d, nn.BatchNorm2d, 2)):
        for exporter in BOTH:
            layers = conv(3, 4, 3, padding=1, bias=False), norm(4)
            layers[1].running_mean.normal_(), layers[1].running_var.uniform_(0.5, 2)
            nn.init.normal_(layers[1].weight), nn.init.normal_(layers[1].bias)
            module = nn.Sequential(*layers).eval()
            x = torch.rand(2, 3, *[6] * rank)
            file = exported(module, (x,), exporter)
            scale = layers[1].weight / (layers[1].running_var + layers[1].eps).sqrt()
            weights = {tuple(t.dims): numpy_helper.to_array(t) for t in file.graph.initializer}
            same = close(
                weights[tuple(layers[0].weight.shape)],
                (layers[0].weight * scale.reshape(-1, *[1] * (rank + 1))).detach(),
            )
            yield f"{rank}-D, {exporter}: {operators(file)}", operators(file) == ["Conv"] and same


@claim(
    "11_graph_surgery",
    "5. Editing: attribute, node, edge, weight",
    "Nodes must stand in the order in which they are computed, so the new ones go to the start.",
)
def nodes_in_another_order() -> Attempts:
    model = parsed("g (float[2] x) => (float[2] y) { a = Relu(x)  b = Neg(a)  y = Exp(b) }")
    for order in itertools.permutations(range(3)):
        other = onnx.ModelProto()
        other.CopyFrom(model)
        nodes = [model.graph.node[i] for i in order]
        del other.graph.node[:]
        other.graph.node.extend(nodes)
        refused = bool(raised(onnx.checker.check_model, other))
        yield f"{order}, checker", refused == (order != (0, 1, 2))


@claim(
    "11_graph_surgery",
    "7. Cutting out a part: which cuts work?",
    "A superfluous input is kept, and every caller must supply it although nothing reads it.",
)
def extracted_with_a_superfluous_input() -> Attempts:
    model = parsed(
        "g (float[2] x, float[2] z) => (float[2] y, float[2] w) { a = Relu(x)  y = Neg(a)  w = Exp(z) }"
    )
    for names in (["a", "z"], ["z", "a"], ["a", "x"]):
        cut = onnx.utils.Extractor(onnx.shape_inference.infer_shapes(model)).extract_model(names, ["y"])
        session = open_session(cut)
        yield f"{names}: kept", [value.name for value in session.get_inputs()] == names
        yield (
            f"{names}: asked for",
            "z" in (error := raised(session.run, None, {"a": np.ones(2, np.float32)})) or "x" in error,
        )


@claim(
    "11_graph_surgery",
    "7. Cutting out a part: which cuts work?",
    "A wrong name is a `ValueError`; more outputs than one are allowed.",
)
def wrong_names_in_a_cut() -> Attempts:
    onnx.save(parsed("g (float[2] x) => (float[2] y) { a = Relu(x)  b = Neg(a)  y = Exp(b) }"), "whole.onnx")
    for inputs, outputs in (
        (["nope"], ["y"]),
        (["x"], ["nope"]),
        (["x", "nope"], ["y"]),
        (["x"], ["y", "nope"]),
    ):
        error = raised(onnx.utils.extract_model, "whole.onnx", "cut.onnx", inputs, outputs)
        yield f"{inputs}, {outputs}: {error[:60]}", error.startswith("ValueError")
    yield "two outputs", not raised(onnx.utils.extract_model, "whole.onnx", "cut.onnx", ["x"], ["a", "y"])


@claim(
    "11_graph_surgery",
    "9. Does shape inference correct recorded shapes?",
    "Inference does not overwrite a recorded type or number, and ignores a contradiction unless "
    "`strict_mode=True`; a named size it replaces.",
    fell="Inference does not overwrite what is recorded, and ignores a contradiction unless "
    "`strict_mode=True`.",
    why="a size recorded by a name is replaced by the number",
)
def records_that_are_wrong_in_other_ways() -> Attempts:
    for label, kind, shape in (
        ("another size", TensorProto.FLOAT, [7]),
        ("another rank", TensorProto.FLOAT, [2, 2]),
        ("another type", TensorProto.INT64, [2]),
        ("a name for a size", TensorProto.FLOAT, ["n"]),
        ("no shape", TensorProto.FLOAT, None),
    ):
        model = parsed("g (float[2] x) => (float[2] y) { a = Relu(x)  y = Neg(a) }")
        recorded = helper.make_tensor_value_info("a", kind, shape)
        model.graph.value_info.append(recorded)
        got = onnx.shape_inference.infer_shapes(model)
        after = next(value for value in got.graph.value_info if value.name == "a")
        stays = after == recorded
        yield f"{label}: stays {stays}", stays == (label not in {"a name for a size", "no shape"})
        if label.startswith("another"):
            yield f"{label}, strict", bool(raised(onnx.shape_inference.infer_shapes, model, strict_mode=True))


@claim(
    "11_graph_surgery",
    "11. A pattern finds the nodes, a rule replaces them",
    "`onnxscript`'s converter adapts three operators (`DFT`, `GridSample`, `GroupNormalization`), keeps the nodes of all "
    "others, and does not check whether a file is older than opset 18.",
)
def adapters_of_the_converter() -> Attempts:
    from onnxscript.version_converter import _version_converter

    names = {key[1] for key in _version_converter.registry.op_adapters}
    yield str(names), names == {"DFT", "GridSample", "GroupNormalization"}


@claim(
    "11_graph_surgery",
    "11. A pattern finds the nodes, a rule replaces them",
    "Up to opset 12, `Softmax` treats all axes from `axis` on as one: 12 zeros give 1/12.",
)
def softmax_of_each_opset_and_axis() -> Attempts:
    x = np.zeros((2, 3, 4), np.float32)
    for operator, opset, axis in itertools.product(
        ("Softmax", "LogSoftmax", "Hardmax"), (1, 7, 11, 12, 13, 20), (0, 1, 2)
    ):
        text = f"g (float[2,3,4] x) => (float[2,3,4] y) {{ y = {operator} <axis = {axis}> (x) }}"
        count = int(np.prod(x.shape[axis:])) if opset < 13 else x.shape[axis]
        got = ran(parsed(text, opset, 8), x)[0]
        if operator == "Hardmax":
            yield f"{operator}, {opset}, axis {axis}", got.sum() == x.size / count
        else:
            expected = 1 / count if operator == "Softmax" else -np.log(count)
            yield f"{operator}, {opset}, axis {axis}", close(got, np.full_like(x, expected))


@claim(
    "11_graph_surgery",
    "11. A pattern finds the nodes, a rule replaces them",
    "`commute=True` also tries a `Mul` with its inputs exchanged.",
)
def both_orders_of_a_product() -> Attempts:
    import onnx_ir
    from onnxscript.rewriter import pattern

    for order, commute in itertools.product(("x, s", "s, x"), (False, True)):
        text = f"g (float[2] x) => (float[2] y) {{ s = Sigmoid(x)  y = Mul({order}) }}"
        model = onnx_ir.from_proto(parsed(text, 24))
        rule = pattern.RewriteRule(lambda op, x: op.Mul(x, op.Sigmoid(x)), lambda op, x: op.Swish(x))
        found = pattern.RewriteRuleSet([rule], commute=commute).apply_to_model(model)
        yield f"{order}, commute {commute}: {found}", bool(found) == (order == "x, s" or commute)
