"""The first node from which two files diverge is the planted one, in every version of the second file."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from onnxlab.runtime.error_origin import error_origin, relative_error

NODES = (
    "g (float[n, 3, 8, 8] x) => (float[n, 4] y) {"
    " a = Conv <pads = [1, 1, 1, 1]> (x, w0) b = Relu(a) c = Conv <pads = [1, 1, 1, 1]> (b, w1)"
    " d = HardSigmoid <alpha = 0.2> (c) e = Mul(c, d) f = Conv <pads = [1, 1, 1, 1]> (e, w2)"
    " h = Add(b, f) i = GlobalAveragePool(h) j = Flatten(i) y = Gemm(j, w3) }"
)
X = np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype(np.float32)


def network(nodes: str = NODES, negated: str = "") -> onnx.ModelProto:
    random = np.random.default_rng(0)
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> {nodes}')
    for name, shape in {"w0": (8, 3, 3, 3), "w1": (8, 8, 3, 3), "w2": (8, 8, 3, 3), "w3": (8, 4)}.items():
        weight = random.standard_normal(shape).astype(np.float32) / np.sqrt(np.prod(shape[1:]))
        weight = -weight if name == negated else weight
        model.graph.initializer.append(numpy_helper.from_array(weight.astype(np.float32), name))
    return model


def optimised(model: onnx.ModelProto, folder) -> onnx.ModelProto:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    options.log_severity_level = 4
    ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(folder / "optimised.onnx")


def halved(model: onnx.ModelProto, _) -> onnx.ModelProto:
    from onnxconverter_common import float16

    return float16.convert_float_to_float16(model, keep_io_types=True)


def renamed(model: onnx.ModelProto, _) -> onnx.ModelProto:
    """Other names for all values but the model's own inputs and outputs, as another exporter gives."""
    other = onnx.ModelProto()
    other.CopyFrom(model)
    ends = {value.name for value in (*model.graph.input, *model.graph.output)}
    for names in [field for node in other.graph.node for field in (node.input, node.output)]:
        names[:] = [name if name in ends else f"/n/{name}" for name in names]
    for tensor in other.graph.initializer:
        tensor.name = f"/n/{tensor.name}"
    return other


def in_bytes(model: onnx.ModelProto, _) -> onnx.ModelProto:
    """Each weight in int8 with a scale, and a DequantizeLinear before it is read."""
    other = onnx.ModelProto()
    other.CopyFrom(model)
    del other.graph.initializer[:]
    nodes = []
    for tensor in model.graph.initializer:
        weight = numpy_helper.to_array(tensor)
        scale = np.float32(np.abs(weight).max() / 127)
        for name, x in {"8": np.round(weight / scale).astype(np.int8), "s": scale}.items():
            other.graph.initializer.append(numpy_helper.from_array(np.asarray(x), f"{tensor.name}_{name}"))
        read = [f"{tensor.name}_8", f"{tensor.name}_s"]
        nodes.append(onnx.helper.make_node("DequantizeLinear", read, [tensor.name]))
    nodes += model.graph.node
    del other.graph.node[:]
    other.graph.node.extend(nodes)
    return other


VERSIONS = [lambda model, _: model, optimised, halved, renamed]
IDS = ["same", "optimised", "float16", "renamed"]


@pytest.mark.parametrize("version", VERSIONS, ids=IDS)
@pytest.mark.parametrize(
    ("wrong", "counterparts"),
    [
        (network(negated="w1"), ("c",)),
        (network(negated="w2"), ("f", "h")),
        (network(negated="w3"), ("y",)),
        (network(NODES.replace("0.2", "0.16")), ("d",)),
        (network(NODES.replace("Relu", "LeakyRelu")), ("b", "h")),  # without names: the region up to h
    ],
    ids=["w1", "w2", "w3", "alpha", "activation"],
)
def test_the_planted_node_is_named(wrong, counterparts, version, tmp_path):
    second = version(wrong, tmp_path)
    origin = error_origin(network(), second, ({"x": X}, {"x": X}))
    worst = max(origin.suspects, key=lambda region: region.added)
    assert origin.suspects[0] == worst
    assert worst.counterpart in counterparts
    assert worst.repaired is not None
    assert worst.repaired < 0.01 < origin.error


@pytest.mark.parametrize("version", [*VERSIONS, in_bytes], ids=[*IDS, "int8"])
def test_a_right_file_has_no_suspect(version, tmp_path):
    origin = error_origin(network(), version(network(), tmp_path), ({"x": X}, {"x": X}))
    assert origin.suspects == ()
    assert origin.matched >= 8


def test_of_a_file_with_weights_in_int8_the_planted_node_alone_is_named(tmp_path):
    second = in_bytes(network(negated="w2"), tmp_path)
    (suspect,) = error_origin(network(), second, ({"x": X}, {"x": X})).suspects
    assert suspect.counterpart in ("f", "h")


def test_nodes_in_functions_are_searched():
    called = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18, "own": 1]> g (float[n] x) => (float[n] y)'
        " { a = Relu(x) y = own.twice(a) }"
        ' <domain: "own", opset_import: ["": 18]> twice (v) => (w) { u = Exp(v) w = Add(u, u) }'
    )
    wrong = onnx.parser.parse_model(onnx.printer.to_text(called).replace("Exp", "Neg"))
    x = {"x": np.float32([1, 2, -3])}
    assert [node.op for node in error_origin(called, wrong, (x, x)).suspects[0].nodes][:1] == ["Neg"]


def test_values_of_another_shape_are_named_as_such():
    turned = NODES.replace("h = Add(b, f)", "h = Add(b, f) t = Transpose <perm = [0, 2, 3, 1]> (h)")
    longer = network(turned.replace("GlobalAveragePool(h)", "ReduceMean (t, axes)"))
    longer.graph.initializer.append(numpy_helper.from_array(np.array([1, 2]), "axes"))
    origin = error_origin(network(), longer, ({"x": X}, {"x": X}))
    assert origin.suspects == ()
    assert origin.error < 1e-6


@pytest.mark.parametrize(
    ("expected", "actual", "error"),
    [
        ([1, -1e9, 2], [1, -65504, 2], 0),
        ([1, np.nan], [1, np.nan], 0),
        ([1, 2], [1, np.nan], np.inf),
        ([0, 0], [0, 1], np.inf),
        ([3, 4], [3, 5], 0.2),
    ],
)
def test_an_error_is_relative_and_a_mask_is_no_error(expected, actual, error):
    assert relative_error(np.float32(expected), np.float16(actual)) == pytest.approx(error)
