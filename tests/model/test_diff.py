"""A diff sees structure and numbers, not names."""

import copy

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model

from onnxlab.errors import ModelNotReadable
from onnxlab.exporters.export import Exporter, export
from onnxlab.history import VERSIONS, names, recorded_graph
from onnxlab.model.diff import diff
from onnxlab.model.graph import subgraphs, walk

pytestmark = pytest.mark.usefixtures("remembered_translations")
KINDS = sorted(set(onnx.AttributeProto.AttributeType.values()) - {onnx.AttributeProto.TENSOR})
HEAD = '<ir_version: 8, opset_import: ["" : 18]>'


def model(body, inputs="float[2] x", outputs="float[2] y", head=HEAD):
    return parse_model(f"{head} g ({inputs}) => ({outputs}) {{ {body} }}")


def renamed(original, spell=lambda i: f"value_{i * 7 + 3}"):
    """The same model, with other new_names for all its nodes and values."""
    proto, new_names = copy.deepcopy(original), {}

    def new(name):
        return new_names.setdefault(name, spell(len(new_names))) if name else ""

    def rename(graph):
        for value in [*graph.input, *graph.output, *graph.value_info, *graph.initializer]:
            value.name = new(value.name)
        for node in graph.node:
            node.name = f"node_{len(new_names)}"
            node.input[:] = [new(name) for name in node.input]
            node.output[:] = [new(name) for name in node.output]
            for _, inner in subgraphs(node):
                rename(inner)

    rename(proto.graph)
    return proto


class Net(torch.nn.Module):
    def __init__(self, activation=None, stride=1, sigmoid=False):
        super().__init__()
        torch.manual_seed(0)
        self.a = torch.nn.Conv2d(3, 4, 3, stride=stride)
        self.b = torch.nn.Conv2d(4, 4, 1)
        self.activation = activation or torch.nn.ReLU()
        self.sigmoid = sigmoid

    def forward(self, x):
        x = self.b(self.activation(self.a(x)))
        return (torch.sigmoid(x) if self.sigmoid else x) * 2


def exported(exporter=Exporter.TORCHSCRIPT, edit=None, names=None, **options):
    net = Net(**options)
    if edit:
        edit(net)
    return export(net, torch.rand(1, 3, 8, 8), exporter, run=False, **(names or {})).proto


@pytest.mark.parametrize("version", VERSIONS)
def test_every_recorded_graph_equals_itself_under_any_names(version):
    for name in names(version):
        graph = recorded_graph(version, name)
        for other in (graph, renamed(graph), renamed(graph, str)):
            differences = diff(graph, other)
            assert not differences, f"{name}: {differences}"
            assert differences.before == {node.path: "same" for node in walk(graph)}
            assert differences.after == {node.path: "same" for node in walk(other)}
        assert str(diff(graph, graph)) == "No difference."


def test_renamed_inputs_and_outputs_are_listed_apart_from_differences():
    differences = diff(model("y = Relu(x)"), model("out = Relu(in)", "float[2] in", "float[2] out"))
    assert not differences
    assert differences.renamed == (("x", "in"), ("y", "out"))
    assert str(differences) == "No difference.\nrenamed: x -> in, y -> out"


def weighted(*numbers):
    graph = model("y = Mul(x, w)")
    graph.graph.initializer.append(numpy_helper.from_array(np.array(numbers, np.float32), "w"))
    return graph


TWO = "float[2] a, float[2] b"
CONSTANT = "w = Constant <value: tensor = float[1] {{{}}}> () y = Mul(x, w)"


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (
            model("y = Sub(a, b)", TWO),
            model("y = Sub(b, a)", TWO),
            "~ Sub y: input 0 a -> b; input 1 b -> a",
        ),
        (weighted(1, 1), weighted(1), "~ Mul y: weight w float32[2] -> float32[1]"),
        (weighted(1, 1), weighted(1, np.nan), "~ Mul y: weight w is NaN or infinite in one of them only"),
        (
            model(CONSTANT.format(2.0)),
            model(CONSTANT.format(5.0)),
            "~ Constant w: attribute value differs by up to 3",
        ),
        (model(CONSTANT.format(2.0)), weighted(2), "- Constant w"),  # one value, stored in another way
        (
            model("y = Relu(x)"),
            model("y = Relu(x)", "double[2] x", "double[2] y", HEAD.replace("18", "20")),
            "opset ai.onnx 18 -> 20\ninput x float32[2] -> float64[2]\noutput y float32[2] -> float64[2]",
        ),
        (model("y = Relu(x)"), model("y = Relu(x)", "float[2] x, int64 n"), "input n nothing -> int64[]"),
        (
            model("a = Relu(x) y = Add(a, a)"),
            model("a = Relu(x) b = Relu(x) y = Add(a, b)"),
            "+ Relu b",  # duplicates are paired one by one
        ),
    ],
)
def test_a_difference_in_a_line(first, second, text):
    assert str(diff(first, second)) == text


def test_names_with_shifted_numbers_do_not_mislead():
    before = model("t1 = Relu(x) t2 = Neg(t1) y = Relu(t2)")
    after = model("t1 = Abs(x) t2 = Relu(t1) t3 = Neg(t2) y = Relu(t3)")
    differences = diff(before, after)
    assert [node.op for node in differences.added] == ["Abs"]
    assert differences.removed == ()
    assert [(change.before.path, change.after.path) for change in differences.changed] == [("0", "1")]
    assert str(differences) == "+ Abs t1\n~ Relu t1: input 0 x -> Abs t1"


def test_another_operator_in_one_place():
    differences = diff(exported(), exported(activation=torch.nn.Tanh()))
    assert [str(change) for change in differences.changed[0].changes] == ["operator Relu -> Tanh"]
    assert (len(differences.changed), differences.added, differences.removed) == (1, (), ())


def test_another_attribute():
    differences = diff(exported(), exported(stride=2))
    assert [str(change) for change in differences.changed[0].changes] == [
        "attribute strides [1, 1] -> [2, 2]"
    ]
    assert [str(change) for change in differences.outputs] == [
        f"output {differences.outputs[0].name} float32[1, 4, 6, 6] -> float32[1, 4, 3, 3]"
    ]


def test_an_added_node_rewires_the_next():
    differences = diff(exported(), exported(sigmoid=True))
    assert [node.op for node in differences.added] == ["Sigmoid"]
    assert [change.before.op for change in differences.changed] == ["Mul"]
    back = diff(exported(sigmoid=True), exported())
    assert [node.op for node in back.removed] == ["Sigmoid"]
    assert differences.after[differences.added[0].path] == "added"
    assert back.before[back.removed[0].path] == "removed"


@pytest.mark.parametrize("names", [{}, {"input_names": ["in"], "output_names": ["out"]}])
def test_other_weights_are_measured(names):
    def shift(net):
        net.b.weight.data += 0.25

    differences = diff(exported(), exported(edit=shift, names=names))
    [change] = differences.changed
    assert change.before.op == "Conv"
    assert [(c.kind, c.name) for c in change.changes] == [("weight", "b.weight")]
    assert change.changes[0].max_abs == pytest.approx(0.25)
    assert len(differences.same) == len(differences.before) - 1


def test_other_weights_under_other_names_are_measured():
    def shift(net):
        net.a.bias.data += 0.5

    differences = diff(exported(), renamed(exported(edit=shift)))
    assert [[c.max_abs for c in change.changes] for change in differences.changed] == [[pytest.approx(0.5)]]
    assert (differences.added, differences.removed) == ((), ())


def test_a_name_with_control_characters_is_shown_on_one_line_without_them():
    renamed = model("y = Abs(x)")
    renamed.graph.node[0].name = "a\x1b[2Jb\x1b]0;c\x07\u202ed\nNo difference."
    text = str(diff(renamed, model("y = Relu(x)")))
    assert len(text.splitlines()) == 1
    assert not {"\x1b", "\x07", "\u202e"} & set(text)


def test_texts_among_the_weights_are_compared():
    def text(value):
        graph = model("y = Identity(w)", outputs="string[1] y")
        graph.graph.initializer.append(helper.make_tensor("w", TensorProto.STRING, [1], [value]))
        return graph

    assert not diff(text(b"a"), text(b"a"))
    assert str(diff(text(b"a"), text(b"b"))) == "~ Identity y: weight w differs"


def test_an_attribute_with_its_default_value_is_no_difference():
    written = model("y = LeakyRelu <alpha = 0.01> (x)")
    assert not diff(written, model("y = LeakyRelu (x)"))
    assert diff(written, model("y = LeakyRelu <alpha = 0.02> (x)"))


def test_a_default_belongs_to_an_opset():
    # Softmax took axis 1 by default until opset 12, the last axis since 13.
    old = '<ir_version: 8, opset_import: ["" : 11]>'
    shapes = {"inputs": "float[2, 3, 4] x", "outputs": "float[2, 3, 4] y"}
    first, last = (model(f"y = Softmax <axis = {axis}> (x)", **shapes, head=old) for axis in (1, -1))
    default = model("y = Softmax (x)", **shapes, head=old)
    assert not diff(first, default)
    assert diff(last, default)


def test_both_exporters_models_of_one_module_differ_in_constants_at_most():
    differences = diff(exported(), exported(Exporter.TORCH_EXPORT))
    assert differences.changed == ()
    assert {node.op for node in differences.added + differences.removed} <= {"Constant"}


def test_an_output_fed_by_another_node_is_reported():
    body = "a = Relu(x) b = Neg(x) {} = Identity({})"
    differences = diff(model(body.format("y", "a")), model(body.format("y", "b")))
    assert "Relu a -> Neg b" in str(differences)
    swapped = diff(model("y = Relu(x) z = Neg(x)"), model("z = Relu(x) y = Neg(x)"))
    assert [str(change) for change in swapped.outputs] == ["output y Relu y -> Neg y"]


def test_an_omitted_and_a_missing_input_are_the_same():
    omitted = model("y = Clip(x)")
    omitted.graph.node[0].input.extend(["", ""])
    assert not diff(model("y = Clip(x)"), omitted)
    assert diff(model("y = Clip(x)"), model("y = Clip(x, m)", "float[2] x, float m"))


LOOP = """
y = Loop (trips, go, x) <body = b (int64 i, bool on, float[2] v) => (bool on_out, float[2] out) {{
    on_out = Identity(on)
    out = {}(v, {})
}}>
"""
LOOP_INPUTS = "float[2] x, float[2] z, int64 trips, bool go"


def test_differences_inside_a_body_are_found():
    differences = diff(
        model(LOOP.format("Add", "x"), LOOP_INPUTS), model(LOOP.format("Mul", "x"), LOOP_INPUTS)
    )
    assert str(differences) == "~ Loop y: subgraph body differs\n~ Add out in 0/body: operator Add -> Mul"
    assert differences.before == {"0": "changed", "0/body/0": "same", "0/body/1": "changed"}


def test_a_body_that_reads_another_outer_value_differs():
    differences = diff(
        model(LOOP.format("Add", "x"), LOOP_INPUTS), model(LOOP.format("Add", "z"), LOOP_INPUTS)
    )
    assert "~ Add out in 0/body: input 1 x -> z" in str(differences)


def test_a_body_whose_outputs_change_places_differs():
    body = (
        "y = Loop (t, g, x, x) <body = b (int64 i, bool on, float[2] v, float[2] w) => (bool o, {}) {{ {} }}>"
    )
    nodes = "o = Identity(on) p = Neg(v) q = Abs(w)"
    inputs = "float[2] x, int64 t, bool g"
    first, second = (
        model(body.format(order, nodes), inputs)
        for order in ("float[2] p, float[2] q", "float[2] q, float[2] p")
    )
    assert "output body[1] Neg p -> Abs q" in str(diff(first, second))


def test_functions_are_compared():
    def using(body, domain="mine"):
        return parse_model(
            f'<ir_version: 8, opset_import: ["" : 18, "{domain}" : 1]>'
            f"g (float[2] x) => (float[2] y) {{ y = {domain}.f (x) }}"
            f'<domain: "{domain}", opset_import: ["" : 18]> f (v) => (r) {{ {body} }}'
        )

    assert not diff(using("r = Relu(v)"), using("r = Relu(v)"))
    assert str(diff(using("r = Relu(v)"), using("r = Abs(v)"))) == "~ Relu r in mine::f: operator Relu -> Abs"
    assert "output of mine::f[0]" in str(
        diff(using("a = Neg(v) r = Relu(a)"), using("r = Neg(v) a = Relu(r)"))
    )
    other = diff(using("r = Relu(v)"), using("r = Relu(v)", "yours"))
    assert [str(change) for change in other.functions] == [
        "function mine::f present -> nothing",
        "function yours::f nothing -> present",
    ]


def test_sparse_weights_are_values_as_well():
    def sparse(value):
        graph = model("y = Add(x, w)")
        values = helper.make_tensor("w", TensorProto.FLOAT, [1], [value])
        indices = helper.make_tensor("i", TensorProto.INT64, [1], [0])
        graph.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2]))
        return graph

    assert not diff(sparse(1.0), sparse(1.0))
    assert diff(sparse(1.0), sparse(2.0))


def test_a_graph_out_of_order_does_not_stop_the_diff():
    shuffled = model("b = Relu(x) y = Neg(b)")
    nodes = [copy.deepcopy(node) for node in shuffled.graph.node]
    del shuffled.graph.node[:]
    shuffled.graph.node.extend(nodes[::-1])
    assert not diff(shuffled, shuffled)
    assert {node.op for node in diff(model("y = Abs(x)"), shuffled).added} <= {"Relu", "Neg"}


def test_empty_models_do_not_differ():
    empty = helper.make_model(helper.make_graph([], "g", [], []))
    assert not diff(empty, empty)
    assert diff(empty, model("y = Relu(x)")).added[0].op == "Relu"


def test_long_differences_stay_readable():
    plain, script = (recorded_graph("1.8.1", f"model_70_{kind}") for kind in ("plain", "script"))
    text = str(diff(plain, script))
    assert "- 70 x Conv: Conv_0 ... Conv_69" in text
    ops = " ".join(f"v{i + 1} = {'Neg' if i % 2 else 'Abs'}(v{i})" for i in range(60)).replace("v0)", "x)")
    lines = str(diff(model("y = Relu(x)"), model(f"{ops} y = Relu(x)"))).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "... and 40 more"


def test_a_large_graph_is_compared():
    body = " ".join(f"v{i + 1} = Relu(v{i})" for i in range(1500)).replace("Relu(v0)", "Relu(x)")
    big = model(f"{body} y = Neg(v1500)")
    changed = copy.deepcopy(big)
    changed.graph.node[700].op_type = "Tanh"
    assert str(diff(big, changed)) == "~ Relu v701: operator Relu -> Tanh"


def test_the_models_are_not_changed():
    first, second = model("y = Relu(x)"), model("y = Abs(x)")
    before = onnx.ModelProto.FromString(first.SerializeToString())
    diff(first, second)
    assert first == before


@pytest.mark.parametrize(
    "damaged",
    [
        {"data_type": 1, "dims": [2], "raw_data": b"abc"},
        {"data_type": 1, "dims": [2**62, 2**62], "raw_data": bytes(8)},
        {"data_type": 7, "dims": [3, -2], "int64_data": [1]},
        {"data_type": 99, "dims": [1], "raw_data": bytes(4)},
        {"data_type": 1, "dims": [1] * 70, "raw_data": bytes(4)},
    ],
    ids=["too short", "huge", "negative", "unknown type", "too many axes"],
)
def test_a_damaged_tensor_is_named(damaged):
    intact = model("w = Constant <value = float[2] {1.0, 2.0}> () y = Add(x, w)")
    constant = copy.deepcopy(intact)
    constant.graph.node[0].attribute[0].t.CopyFrom(TensorProto(name="heavy", **damaged))
    weight = model("y = Relu(x)")
    weight.graph.initializer.add(name="heavy", **damaged)
    for broken in (constant, weight):
        with pytest.raises(ModelNotReadable, match="tensor 'heavy' cannot be read") as caught:
            diff(intact, broken)
        assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize("opset", [2**31, 2**40, -1, 0])
def test_an_impossible_opset_is_a_difference(opset):
    relu = model("y = Relu(x)")
    other = copy.deepcopy(relu)
    other.opset_import[0].version = opset
    assert [str(change) for change in diff(relu, other).opsets] == [f"opset ai.onnx 18 -> {opset}"]


def test_thousands_of_nested_bodies_are_refused_at_once():
    deep = onnx.NodeProto(op_type="If", input=["x"], output=["y"])
    for _ in range(20):
        outer = onnx.NodeProto(op_type="If", input=["x"], output=["y"])
        outer.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g.node.append(deep)
        deep = outer
    wide = onnx.ModelProto(graph=onnx.GraphProto(node=[deep] * 500))
    with pytest.raises(ModelNotReadable, match="together they have 21,000 nodes"):
        diff(wide, wide)


def test_a_constant_that_is_an_argument_of_a_function_is_compared():
    text = """<ir_version: 10, opset_import: ["": 18, "own": 1]>
    g (int64 x) => (int64 y) {{ y = own.more <by = 2> (x) }}
    <domain: "own", opset_import: ["": 18]> more <by> (x) => (y)
    {{ c = Constant <value_int: int = @by> () y = {} (x, c) }}"""
    add, same, sub = (parse_model(text.format(operator)) for operator in ("Add", "Add", "Sub"))
    assert not diff(add, same)
    assert str(diff(add, sub)) == "~ Add y in own::more: operator Add -> Sub"
    same.graph.node[0].attribute[0].i = 3
    assert str(diff(add, same)) == "~ own::more y: attribute by 2 -> 3"


@pytest.mark.parametrize("kind", KINDS)
def test_a_constant_whose_attribute_has_another_type_is_compared(kind):
    constant = model("c = Constant <value_int = 3> () y = Add(x, c)")
    constant.graph.node[0].attribute[0].type = kind
    assert not diff(constant, constant)
