"""General sentences of the chapters, each tried on many models: a new onnx or runtime may make one false."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from onnxlab.runtime.session import open_session

X = "g (float[2] x) => (float[2] y) "


def parsed(text: str, opset: int = 20, ir: int = 10) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["": {opset}]> {text}')


def ran(model: onnx.ModelProto, *values: np.ndarray) -> list[np.ndarray]:
    session = open_session(model)
    names = (value.name for value in session.get_inputs())
    return session.run(None, dict(zip(names, values, strict=True)))


def referred(model: onnx.ModelProto, *values: np.ndarray) -> list[np.ndarray]:
    names = (value.name for value in model.graph.input)
    return ReferenceEvaluator(model).run(None, dict(zip(names, values, strict=True)))


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE", "BFLOAT16"])  # around float16 the runtime puts casts
@pytest.mark.parametrize("opset", [22, 26])
def test_07_the_runtime_has_asinh_for_float32_alone(kind, opset):
    value = getattr(TensorProto, kind)
    x, y = (helper.make_tensor_value_info(name, value, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Asinh", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    if kind == "FLOAT":
        open_session(model)
    else:
        with pytest.raises(Exception, match="NOT_IMPLEMENTED"):
            open_session(model)


@pytest.mark.parametrize("opset", [1, 7, 11, 12, 13, 20])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_11_softmax_before_opset_13_takes_all_axes_from_its_axis_on(opset, axis):
    x = np.zeros((2, 3, 4), np.float32)
    model = parsed(f"g (float[2,3,4] x) => (float[2,3,4] y) {{ y = Softmax <axis = {axis}> (x) }}", opset, 8)
    count = int(np.prod(x.shape[axis:])) if opset < 13 else x.shape[axis]
    np.testing.assert_allclose(ran(model, x)[0], np.full_like(x, 1 / count), rtol=1e-6)


@pytest.mark.parametrize("recorded", [(TensorProto.FLOAT, [7]), (TensorProto.INT64, [2])])
def test_11_inference_keeps_a_wrong_record_unless_it_is_strict(recorded):
    model = parsed(X + "{ a = Relu(x)  y = Neg(a) }")
    wrong = helper.make_tensor_value_info("a", *recorded)
    model.graph.value_info.append(wrong)
    inferred = onnx.shape_inference.infer_shapes(model).graph.value_info
    assert [value for value in inferred if value.name == "a"] == [wrong]
    with pytest.raises(onnx.shape_inference.InferenceError):
        onnx.shape_inference.infer_shapes(model, strict_mode=True)


@pytest.mark.parametrize(
    ("inputs", "outputs"), [(["nope"], ["y"]), (["x", "nope"], ["y"]), (["x"], ["nope"])]
)
def test_11_a_cut_at_a_name_that_is_not_there_is_refused(inputs, outputs, tmp_path):
    onnx.save(parsed(X + "{ a = Relu(x)  y = Exp(a) }"), tmp_path / "whole.onnx")
    with pytest.raises(ValueError, match="nope"):
        onnx.utils.extract_model(str(tmp_path / "whole.onnx"), str(tmp_path / "cut.onnx"), inputs, outputs)


@pytest.mark.parametrize("ir", [10, 99])
@pytest.mark.parametrize("opset", [20, 99])
def test_12_the_runtime_names_the_ir_version_before_the_opset(ir, opset):
    model = parsed(X + "{ y = Relu(x) }")
    model.ir_version, model.opset_import[0].version = ir, opset
    if (ir, opset) == (10, 20):
        open_session(model)
        return
    with pytest.raises(Exception, match="IR version" if ir == 99 else "opset"):
        ort.InferenceSession(model.SerializeToString())


@pytest.mark.parametrize(
    "location", ["../secret.bin", "deep/../../secret.bin", "link.bin", "linked/secret.bin", "/"]
)
def test_12_weights_outside_of_the_models_folder_are_read_by_nobody(location, tmp_path):
    inner, secret = tmp_path / "inner", tmp_path / "secret.bin"
    (inner / "deep").mkdir(parents=True)
    secret.write_bytes(np.ones(2, np.float32).tobytes())
    (inner / "link.bin").symlink_to(secret)
    (inner / "linked").symlink_to(tmp_path)
    model = parsed(X + "{ y = Add(x, w) }")
    weight = onnx.numpy_helper.from_array(np.ones(2, np.float32), "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    entry = weight.external_data.add()
    entry.key, entry.value = "location", str(secret) if location == "/" else location
    model.graph.initializer.append(weight)
    (inner / "m.onnx").write_bytes(model.SerializeToString())
    for reader in (onnx.load, ort.InferenceSession):
        with pytest.raises(Exception, match=r"secret|link|path|external"):
            reader(str(inner / "m.onnx"))


@pytest.mark.parametrize(
    "nodes",
    [
        "a = Mul(x, x)  y = Sqrt(a)",
        "a = MatMul(x, x)  y = Sqrt(a)",
        "a = Mul(x, x)  b = ReduceSum(a)  y = Sqrt(b)",
    ],
)
def test_16_the_cpu_computes_float16_in_float32_between_nodes_and_the_reference_does_not(nodes):
    model = parsed(f"g (float16[2,2] x) => (float16[m,n] y) {{ {nodes} }}")
    x = np.full((2, 2), 300, np.float16)
    assert np.isfinite(ran(model, x)[0]).all()
    assert not np.isfinite(referred(model, x)[0]).all()


@pytest.mark.parametrize(
    ("second", "kept"),
    [([0, 1, 1, 2], 2), ([1, 1, 2, 2], 2), ([0, 0.999, 1, 2], 1), ([3, 3, 4, 4], 2)],
    ids=["edge", "corner", "overlap", "apart"],
)
def test_19_boxes_that_only_touch_are_both_kept_at_a_threshold_of_0(second, kept):
    model = parsed(
        "g (float[1,2,4] b, float[1,1,2] s, int64[1] m) => (int64[n,3] y) { y = NonMaxSuppression(b, s, m) }"
    )
    boxes = np.array([[[0, 0, 1, 1], second]], np.float32)
    assert len(ran(model, boxes, np.array([[[0.9, 0.8]]], np.float32), np.array([9]))[0]) == kept


def test_19_the_runtime_s_sigmoid_reaches_zero_where_the_reference_s_does_not():
    model, x = parsed("g (float[1] x) => (float[1] y) { y = Sigmoid(x) }"), np.array([-20.0], np.float32)
    assert ran(model, x)[0][0] == 0 < referred(model, x)[0][0]
