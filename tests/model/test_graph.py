"""What a graph contains, also inside bodies and functions."""

import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model

from onnxlab.errors import UnknownValue
from onnxlab.history import recorded_graph
from onnxlab.model.graph import dims, edges, op_types, outline, summary, value, walk

NESTED = parse_model("""
<ir_version: 8, opset_import: ["" : 18, "mylib" : 1]>
main (float[n] x, bool c, int64 trips, bool go) => (float[n] y) {
    w = Constant <value: tensor = float {2.0}> ()
    scaled = mylib.scale (x, w)
    y = If (c) <
        then_branch = g1 () => (float[n] a) {
            a = Loop (trips, go, scaled) <
                body = g2 (int64 i, bool on, float[n] v) => (bool on_out, float[n] v_out) {
                    on_out = Identity (on)
                    v_out = Add (v, x)
                }
            >
        },
        else_branch = g3 () => (float[n] b) { b = Neg (scaled) }
    >
}
<domain: "mylib", opset_import: ["" : 18]>
scale (v, f) => (out) { inner = Mul (v, f) out = Relu (inner) }
""")


def test_the_outline_shows_bodies_and_functions():
    assert outline(NESTED) == [
        "Constant",
        "mylib::scale{function: Mul, Relu}",
        "If{then_branch: Loop{body: Identity, Add}; else_branch: Neg}",
    ]
    assert op_types(NESTED) == ["Constant", "mylib::scale", "If"]


def test_every_node_has_a_path_of_its_own():
    paths = {node.path: node.op for node in walk(NESTED)}
    assert paths == {
        "0": "Constant",
        "1": "mylib::scale",
        "2": "If",
        "2/then_branch/0": "Loop",
        "2/then_branch/0/body/0": "Identity",
        "2/then_branch/0/body/1": "Add",
        "2/else_branch/0": "Neg",
        "mylib::scale/0": "Mul",
        "mylib::scale/1": "Relu",
    }
    assert [node.scope for node in walk(NESTED)][-3:] == ["2/else_branch", "mylib::scale", "mylib::scale"]


def test_a_scan_has_a_body():
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "e"], ["s2"]), helper.make_node("Identity", ["s2"], ["o"])],
        "body",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in ("s", "e")],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in ("s2", "o")],
    )
    scan = helper.make_node("Scan", ["start", "xs"], ["end", "ys"], body=body, num_scan_inputs=1)
    model = helper.make_model(helper.make_graph([scan], "g", [], []))
    assert outline(model) == ["Scan{body: Add, Identity}"]


def test_a_function_that_calls_itself_does_not_hang():
    call = helper.make_node("f", ["x"], ["y"], domain="d")
    function = helper.make_function("d", "f", ["x"], ["y"], [call], [helper.make_opsetid("", 18)])
    model = helper.make_model(helper.make_graph([call], "g", [], []), functions=[function])
    assert outline(model) == ["d::f{function: d::f}"]
    assert len(list(walk(model))) == 2


def test_the_summary_names_everything():
    parts = summary(NESTED)
    assert [str(value_info) for value_info in parts.inputs] == [
        "x: float32[n]",
        "c: bool[]",
        "trips: int64[]",
        "go: bool[]",
    ]
    assert dict(parts.opsets) == {"ai.onnx": 18, "mylib": 1}
    assert parts.functions == ("mylib::scale",)
    assert parts.ir_version == 8
    assert [node.op for node in parts.nodes] == op_types(NESTED)


def test_initializers_and_the_producer_are_reported():
    parts = summary(recorded_graph("1.8.1", "model_static"))
    assert {str(weight) for weight in parts.initializers} == {
        "conv.weight: float32[3, 3, 3, 3]",
        "conv.bias: float32[3]",
    }
    assert parts.producer == "pytorch 1.8"


def test_edges_join_the_nodes_of_the_main_graph():
    makers, read = edges(NESTED)
    assert makers["scaled"].path == "1"
    assert "v_out" not in makers
    assert "x" not in makers
    assert read[makers["scaled"].path][0] == "x"
    # The Loop of a branch reads the scaled value; what only the body makes is not read from outside.
    assert {"x", "scaled"} <= set(read["2"])
    assert "v_out" not in read["2"]


def test_shapes_are_numbers_names_or_unknown():
    assert dims(NESTED, "x") == ("n",)
    assert dims(NESTED, "c") == ()
    assert dims(NESTED, "scaled") is None
    assert dims(NESTED, "v") == ("n",)


def test_values_that_are_not_tensors_have_no_shape():
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2])
    unranked = helper.make_tensor_value_info("u", TensorProto.BFLOAT16, None)
    model = helper.make_model(helper.make_graph([], "g", [sequence, unranked], []))
    assert "seq" in value(model, "s").dtype
    assert dims(model, "s") is None
    assert str(value(model, "u")) == "u: bfloat16[...]"


@pytest.mark.parametrize("query", [dims, value])
def test_an_unknown_value_names_similar_ones(query):
    with pytest.raises(UnknownValue, match=r"no value named 'scale'\.\nIt has scaled"):
        query(NESTED, "scale")


def test_an_omitted_value_is_no_value():
    with pytest.raises(UnknownValue):
        dims(NESTED, "")


def test_an_unknown_element_type_is_named_by_its_number():
    model = parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> g (float[n] x) => (float[n] y) { y = Relu (x) }'
    )
    model.graph.input[0].type.tensor_type.elem_type = 99
    model.graph.initializer.add(name="w", data_type=98, dims=[2])
    parts = summary(model)
    values = [str(value_info) for value_info in (*parts.inputs, *parts.initializers)]
    assert values == ["x: type 99[n]", "w: type 98[2]"]
