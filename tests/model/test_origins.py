"""strip_origins leaves no path of a source file in a model; tests/exporters looks at whole exports."""

import onnx

from onnxlab.model.load import strip_origins


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
