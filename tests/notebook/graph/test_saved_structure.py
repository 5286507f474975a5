"""The structure of a graph that a saved notebook keeps for the web site."""

import base64

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxlab import graph
from onnxlab.notebook.graph.saved_form import STRUCTURE, saved_structure
from tests.support.graph_models import chain, modules

SOURCE = "/home/somebody/model.py, line 3"


def noisy() -> onnx.ModelProto:
    """A model with weights, a scalar, and the notes that torch's exporters write."""
    weight = numpy_helper.from_array(np.arange(64, dtype=np.float32), "weight")
    scale = numpy_helper.from_array(np.float32(0.5), "scale")
    steps = numpy_helper.from_array(np.arange(8), "steps")
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["scaled"], doc_string=SOURCE),
        helper.make_node("Add", ["scaled", "weight"], ["sum"]),
        helper.make_node("Gather", ["sum", "steps"], ["y"]),
    ]
    nodes[1].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=SOURCE)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [64])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [8])
    graph_proto = helper.make_graph(nodes, "g", [x], [y], [weight, scale, steps])
    return helper.make_model(graph_proto, opset_imports=[helper.make_opsetid("", 18)])


def saved(view) -> dict:
    return saved_structure(view._panes, view._marks, view._pairs, view._height)


def read(structure: dict, pane: int = 0, model: int = 0) -> onnx.ModelProto:
    text = structure[STRUCTURE]["panes"][pane]["models"][model]
    return onnx.ModelProto.FromString(base64.b64decode(text))


def test_no_source_line_and_no_weight_is_in_it_and_scalars_are():
    model = read(saved(graph(noisy())))
    assert SOURCE.encode() not in model.SerializeToString()
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    assert not tensors["weight"].raw_data
    assert tensors["weight"].data_location == TensorProto.EXTERNAL
    assert numpy_helper.to_array(tensors["scale"]) == np.float32(0.5)
    assert numpy_helper.to_array(tensors["steps"]).tolist() == list(range(8))  # whole numbers are no weights
    assert [node.op_type for node in model.graph.node] == ["Mul", "Add", "Gather"]


def test_every_node_keeps_the_path_that_marks_and_clicks_speak_of():
    view = graph(noisy(), values={"sum": 0.1})
    structure = saved(view)
    paths = {entry.value for node in read(structure).graph.node for entry in node.metadata_props}
    (marks,) = (pane["marks"] for pane in structure[STRUCTURE]["panes"])
    assert set(marks) <= paths
    assert all("size" not in mark for mark in marks.values())  # a float whose last digit may differ


@pytest.mark.slow
def test_a_large_model_is_kept_with_its_groups_and_a_huge_one_is_not():
    grouped = saved(graph(modules(30)))
    assert len(grouped[STRUCTURE]["panes"][0]["models"]) == 2
    assert len(read(grouped, model=1).graph.node) < len(read(grouped).graph.node)
    assert saved(graph(modules(1000))) == {}


def test_two_models_keep_their_pairs():
    structure = saved(graph(chain(), chain()))[STRUCTURE]
    assert len(structure["panes"]) == 2
    assert structure["pairs"]
