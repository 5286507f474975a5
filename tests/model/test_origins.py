"""strip_origins leaves no path of a source file in a model."""

import onnx
import torch

from onnxlab.exporters.silence import silenced
from onnxlab.model.graph import subgraphs
from onnxlab.model.load import strip_origins


class Cond(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda v: v.sin() * 2, lambda v: v - 1, (x,))


def _metadata(message):
    """Every metadata_props anywhere in a message."""
    entries = []
    for field, content in message.ListFields():
        if field.name == "metadata_props":
            entries += content
        elif field.message_type is not None:
            for part in content if field.is_repeated else [content]:
                entries += _metadata(part)
    return entries


def test_an_export_has_metadata_and_loses_it(tmp_path):
    with silenced():
        torch.onnx.export(Cond(), (torch.rand(3),), tmp_path / "m.onnx", dynamo=True, external_data=False)
    model = onnx.load(tmp_path / "m.onnx")
    inner = [graph for node in model.graph.node for _, graph in subgraphs(node)]
    assert _metadata(model)
    assert any(_metadata(graph) for graph in inner)
    strip_origins(model)
    assert not _metadata(model)


def test_functions_are_stripped_too():
    function = onnx.helper.make_function(
        "d",
        "f",
        ["x"],
        ["y"],
        [onnx.helper.make_node("Relu", ["x"], ["y"])],
        [onnx.helper.make_opsetid("", 18)],
    )
    function.metadata_props.add(key="source", value="/somewhere")
    function.node[0].metadata_props.add(key="source", value="/somewhere")
    model = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], []), functions=[function])
    strip_origins(model)
    assert b"/somewhere" not in model.SerializeToString()
