"""Models that are made to do harm, or are broken: nothing throws, nothing gets into the page as markup."""

import base64
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import onnx
import pytest
from onnx import GraphProto, ModelProto, TensorProto, helper

from onnxlab import graph
from tests.support.displayed import outputs, svgs
from tests.support.graph_models import SCRIPTS, chain, loop, string_everywhere


class Tags(HTMLParser):
    """Collects what a browser would make elements of."""

    def __init__(self):
        super().__init__()
        self.found, self.attributes = [], set()

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        self.attributes |= {name for name, _ in attrs}


@pytest.mark.parametrize("text", SCRIPTS)
def test_strings_do_not_become_markup(text, tmp_path):
    path = tmp_path / (re.sub(r"[/\0]", "", text)[:60] + ".onnx")
    onnx.save(string_everywhere(text), path)
    view = graph(path, highlight=[text, "<b>unknown</b>"], values={text: text})
    html = outputs(view)[0]["text/html"]
    tags = Tags()
    tags.feed(html)
    assert set(tags.found) <= {"style", "div", "figure", "img", "pre"}
    assert tags.attributes <= {"class", "title", "style", "alt", "width", "src"}
    assert tags.found.count("style") == 1
    for svg in svgs(html):
        elements = list(ET.fromstring(svg).iter())
        names = {element.tag.rpartition("}")[2] for element in elements}
        assert names <= {"svg", "style", "rect", "g", "defs", "marker", "path", "text", "tspan", "line"}
        assert not [
            name for element in elements for name in element.attrib if name.startswith("on") or "href" in name
        ]


@pytest.mark.parametrize("text", SCRIPTS)
def test_a_message_does_not_become_markup(text):
    shown = graph(text.replace("\0", "") + ".onnx")
    tags = Tags()
    tags.feed(shown._repr_mimebundle_()["text/html"])
    assert tags.found == ["div"]


def cycle() -> ModelProto:
    model = chain()
    model.graph.node[0].input[0] = "c"
    return model


def self_edge() -> ModelProto:
    model = chain()
    model.graph.node[1].input[0] = "b"
    return model


def absurd_dims() -> ModelProto:
    model = chain()
    for tensor in model.graph.initializer:
        tensor.dims[:] = [2**62, -1, 0, 2**62]
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -(2**63)
    return model


def wrong_types() -> ModelProto:
    model = chain()
    for number, kind in enumerate([*range(15), 0], 1):
        model.graph.node[0].attribute.add(name=f"a{number}", type=kind)
    for number, kind in enumerate((0, 99, 8, 1)):
        tensor = TensorProto(name=f"t{number}", dims=[3], raw_data=b"\x01")
        tensor.data_type = kind
        model.graph.initializer.append(tensor)
        model.graph.node[2].input.append(tensor.name)
    return model


def no_names() -> ModelProto:
    model = chain()
    for node in model.graph.node:
        node.name = node.op_type = ""
    model.graph.node.add()
    return model


def one_name() -> ModelProto:
    model = chain()
    for node in model.graph.node:
        node.name = "n"
        node.output[:] = ["v"]
        node.input[:] = ["v", "v"]
    return model


def long_names() -> ModelProto:
    return string_everywhere("x" * 5_000)


def nested(depth: int = 28) -> ModelProto:
    body = GraphProto(name="innermost")
    for _ in range(depth):
        node = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=GraphProto(name="e"))
        body = helper.make_graph([node], "g", [], [])
    return helper.make_model(body)


def undeclared() -> ModelProto:
    model = chain()
    model.graph.node[0].input[:] = ["nobody", "", "nobody"]
    model.graph.output[0].name = "nothing"
    del model.graph.input[:]
    return model


def function_calls_itself() -> ModelProto:
    model = chain()
    function = model.functions.add(name="f", domain="d", input=["a"], output=["b"])
    function.node.add(op_type="f", domain="d", input=["a"], output=["b"])
    function.opset_import.add(domain="d", version=1)
    model.opset_import.add(domain="d", version=1)
    model.graph.node.add(op_type="f", domain="d", input=["y"], output=["z"])
    return model


def unknown_types() -> ModelProto:
    model = chain()
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.elem_type = 99
    return model


@pytest.mark.parametrize(
    "broken",
    [
        unknown_types,
        cycle,
        self_edge,
        absurd_dims,
        wrong_types,
        no_names,
        one_name,
        long_names,
        nested,
        undeclared,
        function_calls_itself,
    ],
)
def test_a_broken_model_is_drawn_or_explained(broken):
    view = graph(broken())
    first = outputs(view)[0]
    assert first["text/plain"].startswith("Graph(")
    assert svgs(first["text/html"]) or "There is no still picture" in first["text/html"]


def test_other_files_are_refused():
    for data in (
        b"PK\x03\x04" + bytes(100),
        base64.b64encode(loop().SerializeToString()),
        b"<html></html>",
        bytes(50),
    ):
        assert "not an ONNX model" in repr(graph(data))


def test_a_model_in_memory_with_a_name_that_is_no_text_is_a_message():
    data = chain().SerializeToString()
    shown = repr(graph(ModelProto.FromString(data.replace(b"/relu", b"\xff\xfeelu"))))
    assert "is not text in UTF-8" in shown
