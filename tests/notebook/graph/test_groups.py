"""Groups above the nodes of a large model."""

import pytest
from onnx import AttributeProto, ModelProto, helper

from onnxlab import graph
from onnxlab.notebook.graph.groups import grouped_model, module_path
from onnxlab.notebook.graph.lean_model import IDENTIFIER, lean_model, read_structure
from onnxlab.notebook.graph.pane import make_pane
from tests.support.displayed import outputs
from tests.support.graph_models import add_node, chain, modules


def top(grouped):
    return [
        node.op_type.replace("\u2024", ".") for node in ModelProto.FromString(grouped.lean.data).graph.node
    ]


def contents(node):
    (attribute,) = node.attribute
    assert attribute.type == AttributeProto.GRAPH
    return attribute.g


@pytest.mark.parametrize("scopes", [False, True])
def test_one_group_for_each_module(scopes):
    grouped = grouped_model(lean_model(modules(3, scopes=scopes)))
    assert top(grouped) == ["layers.0", "layers.1", "layers.2"]
    first = contents(ModelProto.FromString(grouped.lean.data).graph.node[0])
    assert [node.op_type for node in first.node] == ["Softmax", "mlp", "Add"]
    assert [node.op_type for node in contents(first.node[1]).node] == ["Relu", "Exp"]
    assert [value.name for value in first.input] == ["x0"]
    assert [value.name for value in first.output] == ["x1"]
    assert first.name == ("Block, 4 nodes" if scopes else "4 nodes")


def test_every_node_is_in_its_group_once():
    model = modules(5)
    grouped = grouped_model(lean_model(model))
    paths = []
    todo = [ModelProto.FromString(grouped.lean.data).graph]
    for graph_proto in todo:
        for node in graph_proto.node:
            paths += [entry.value for entry in node.metadata_props if entry.key == IDENTIFIER]
            todo += [attribute.g for attribute in node.attribute]
    assert len(paths) == len(set(paths))
    assert {path for path in paths if not path.startswith("group:")} == {str(i) for i in range(20)}
    assert set(paths) == set(grouped.lean.nodes)


def test_what_prepares_weights_is_in_every_group_that_reads_it():
    model = modules(3)
    constant = helper.make_node("Constant", [], ["one"], name="/layers.0/Constant", value_float=1.0)
    model.graph.node.insert(0, constant)
    for node in model.graph.node:
        if node.op_type == "Add":
            node.input[1] = "one"
    grouped = grouped_model(lean_model(model))
    groups = ModelProto.FromString(grouped.lean.data).graph.node
    assert top(grouped) == ["layers.0", "layers.1", "layers.2"]
    assert all("Constant" in [node.op_type for node in contents(group).node] for group in groups)
    assert all("one" not in group.input for group in groups)


def test_a_dominant_group_is_opened():
    model = modules(3)
    for node in model.graph.node:
        node.name = "/model" + node.name
    assert top(grouped_model(lean_model(model))) == ["layers.0", "layers.1", "layers.2"]


def test_nodes_without_modules_are_not_grouped():
    assert grouped_model(lean_model(chain())) is None


@pytest.mark.parametrize(
    "scopes", ["[", "{}", "['a', 3]", "__import__('os')", "[" * 5000, "['', 'a" + "b" * 20_000 + "', 'x']"]
)
def test_nonsense_in_the_metadata_is_not_believed(scopes):
    node = helper.make_node("Relu", ["x"], ["y"], name="/block/Relu")
    node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    assert module_path(node) == [("block", "")]


def test_large_models_are_grouped_and_small_ones_are_not():
    assert make_pane(read_structure(modules(40))).groups.top == 40
    assert make_pane(read_structure(modules(3))).groups is None
    assert make_pane(read_structure(modules(3)), groups=True).groups.top == 3
    assert make_pane(read_structure(modules(40)), groups=False).groups is None


def test_nodes_that_are_called_alike_are_told_apart():
    model = modules(40)
    for node in model.graph.node:
        node.name = "/same/Relu"
    pane = make_pane(read_structure(model))
    assert len(pane.flat.nodes) == 160


@pytest.mark.parametrize(("depth", "bodies"), [(200, 0), (16, 28)])
def test_modules_deeper_than_protobuf_reads_are_drawn(depth, bodies):
    """Each module has a node and the next module; the last node carries so many bodies in one another."""
    model = modules(2)
    for level in range(depth):
        path = [f"m{k}" for k in range(level + 1)]
        add_node(model.graph, "Relu", [f"v{level}"], [f"v{level + 1}"], path, scopes=False)
    inner = model.graph
    for _ in range(bodies):
        node = inner.node.add(op_type="If") if inner is not model.graph else inner.node[-1]
        inner = node.attribute.add(name="body", type=AttributeProto.GRAPH).g
    assert outputs(graph(model, groups=True))[0]["text/plain"].startswith("Graph(")
