"""What graph() leaves in a notebook, and what it answers to bad input."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import nbformat
import onnx
import pytest
from nbconvert import HTMLExporter

from onnxlab import graph
from onnxlab.notebook.graph.view import GraphMessage
from tests.support.displayed import outputs, svgs
from tests.support.graph_models import chain, loop, modules

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def test_two_outputs_the_second_is_the_widget_alone():
    first, second = outputs(graph(chain()))
    assert set(first) == {"text/html", "text/plain", "application/vnd.onnxlab.graph+json"}
    assert set(second) == {WIDGET_VIEW}


def test_same_model_same_bytes_in_another_process(tmp_path):
    path = tmp_path / "loop.onnx"
    onnx.save(loop(), path)
    output = outputs(graph(path, highlight="Relu", values={"y": 0.5}))[0]
    code = (
        "import json, sys; from onnxlab import graph; from tests.support.displayed import outputs\n"
        "print(json.dumps(outputs(graph(sys.argv[1], highlight='Relu', values={'y': 0.5}))[0]))"
    )
    other_process = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert json.loads(other_process.stdout) == output


def test_a_notebook_as_a_page_shows_the_picture_and_loads_no_widget():
    first, second = outputs(graph(loop()))
    book = nbformat.v4.new_notebook()
    shown = [nbformat.v4.new_output("display_data", data=data) for data in (first, second)]
    book.cells = [nbformat.v4.new_code_cell("graph(model)", outputs=shown)]
    with pytest.warns(
        UserWarning, match="not able to be represented"
    ):  # what hygiene drops from a saved file
        page, _ = HTMLExporter().from_notebook_node(book)
    assert svgs(first["text/html"])[0] in svgs(page)
    assert "html-manager" not in page


def test_path_bytes_and_proto_give_the_same_picture(tmp_path):
    model = chain()
    path = tmp_path / "model"
    path.write_bytes(model.SerializeToString())
    html = [
        outputs(graph(form))[0]["text/html"] for form in (path, str(path), model.SerializeToString(), model)
    ]
    assert len(set(html)) == 1


def test_small_graph_takes_less_than_thirty_kilobytes():
    for model in (chain(), loop()):
        assert sum(len(str(output)) for output in outputs(graph(model))) < 30_000


def test_picture_has_every_node_and_says_so_without_eyes():
    first = outputs(graph(loop()))[0]
    html = first["text/html"]
    (svg,) = svgs(html)
    assert first["text/plain"] == "Graph(model, 2 nodes and 4 inside them)"
    assert svg.count('class="node graph-node"') == 6 + 3  # and a box for each of the three bodies
    assert {"Loop", "If", "Mul", "Add", "Identity", "Relu"} <= set(re.findall(r"<text[^>]*>([^<]*)<", svg))
    assert 'alt="Graph of model: 1 Add, 1 Identity, 1 If, 1 Loop, 1 Mul, 1 Relu"' in html


def test_shapes_stand_in_brackets_that_every_font_has():
    (svg,) = svgs(outputs(graph(chain()))[0]["text/html"])
    assert "&lt;4\u00d74\u00d71\u00d71&gt;" in svg
    assert not set("\u3008\u3009") & set(svg)


def test_a_small_graph_stands_beside_the_same_in_words():
    view = graph(loop())
    assert view._words.splitlines() == [
        "input       x: float32[4]",
        "input       flag: bool[]",
        "Loop        trips, -, x -> y",
        "  Identity  go -> again",
        "  If        flag -> next",
        "    Add     acc, two -> more",
        "    Mul     acc, two -> doubled",
        "Relu        y -> out",
        "output      out: float32[4]",
    ]
    assert view._words.replace(">", "&gt;") in outputs(view)[0]["text/html"]


def test_large_graphs_and_two_graphs_have_no_words_beside_them():
    assert graph(modules(4))._words == ""
    assert graph(chain(), chain())._words == ""


@pytest.mark.parametrize("blocks", [3, 6])
def test_a_high_picture_is_shrunk(blocks):
    view = graph(modules(blocks), groups=False)
    (picture,) = view._saved_pictures
    html = outputs(view)[0]["text/html"]
    (width,) = re.findall(r'<img [^>]*width="(\d+)"', html)
    assert int(width) == round(picture.width * min(1, 800 / picture.height))
    assert "further down" not in html


def test_a_picture_that_is_cut_off_says_how_many_nodes_follow():
    view = graph(modules(12), groups=False)
    (picture,) = view._saved_pictures
    assert len(picture.bottoms) == 48
    assert max(picture.bottoms) < picture.height
    below = sum(0.6 * bottom > 800 for bottom in picture.bottoms)
    assert 5 < below < 43
    html = outputs(view)[0]["text/html"]
    assert f"{below} more nodes follow further down in the picture of model" in html
    assert f'width="{round(0.6 * picture.width)}"' in html


def test_large_graph_without_modules_has_a_note_instead_of_a_picture():
    model = modules(40)
    for node in model.graph.node:
        node.name = ""
    html = outputs(graph(model))[0]["text/html"]
    assert not svgs(html)
    assert "160 nodes)</p>" in html
    assert ">40 Add, 40 Exp, 40 Relu, 40 Softmax</p>" in html


def test_large_graph_with_modules_has_a_picture_of_these():
    (svg,) = svgs(outputs(graph(modules(40)))[0]["text/html"])
    assert "layers.39" in svg


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("missing.onnx", "no file missing.onnx"),
        (b"\x00not a model", "not an ONNX model"),
        (onnx.ModelProto(ir_version=10), "nothing to draw"),
        (42, "not a int"),
    ],
)
def test_a_message_in_the_place_of_a_graph(model, says):
    shown = graph(model)
    assert isinstance(shown, GraphMessage)
    bundle = shown._repr_mimebundle_()
    assert says in bundle["text/plain"]
    assert says in bundle["text/html"]
    assert shown.selected is None


def test_a_model_too_large_to_draw_is_refused(monkeypatch):
    monkeypatch.setattr("onnxlab.notebook.graph.pane._NODES", 3)
    assert "too large to be drawn: 4 nodes" in repr(graph(chain()))


def test_a_missing_weights_file_is_a_note_beside_the_graph(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(chain(), path, save_as_external_data=True, location="model.onnx.data", size_threshold=0)
    assert outputs(graph(path))[0]["text/plain"] == "Graph(model.onnx, 4 nodes)"
    (tmp_path / "model.onnx.data").unlink()
    first = outputs(graph(path))[0]
    assert "'model.onnx.data' is missing" in first["text/plain"]
    assert svgs(first["text/html"])


def test_inputs_and_bare_outputs_are_highlighted():
    model = chain()
    model.graph.output.add(name="w1")  # an output that no node makes
    view = graph(model, highlight={"x": "teal", "w1": "navy", "b": "olive"})
    marks = {"input:x": "teal", "output:w1": "navy", "1": "olive"}
    assert view._marks == [{path: {"stroke": colour} for path, colour in marks.items()}]
    assert view._notes == []
    (svg,) = svgs(outputs(view)[0]["text/html"])
    boxes = {}
    for box in ET.fromstring(svg).findall(".//{*}g"):
        for border in box.findall("{*}path[@class='node node-border']"):
            boxes["".join(box.itertext())] = border.get("style", "")
    assert [name for name, style in boxes.items() if "stroke:teal" in style] == ["x"]
    assert [name for name, style in boxes.items() if "stroke:navy" in style] == ["w1"]
    assert sum("stroke:" in style for style in boxes.values()) == 3


def test_a_weight_is_no_input_although_an_old_model_lists_it():
    model = chain()
    model.graph.input.add(name="w1").type.tensor_type.elem_type = 1
    text = outputs(graph(model, highlight=["Conv", "w1"]))[0]["text/plain"]
    assert text.splitlines()[1:] == ["Nothing in the graph is called 'w1'; near: 1."]


def test_what_only_one_of_two_models_has_is_not_unknown():
    other = chain()
    other.graph.node[1].op_type = "Sigmoid"
    view = graph(chain(), other, highlight=["Relu", "Sigmoid"])
    assert not [note for note in view._notes if note.startswith("Nothing")]


def test_a_highlight_set_later_reaches_the_page():
    view = graph(loop())
    assert view._marks == [{}]
    view.highlight = {"Mul": "green"}
    assert view._marks == [{"0/body/1/then_branch/0": {"stroke": "green"}}]
    view.highlight = None
    assert view._marks == [{}]
    view.highlight = operators = []
    operators.append("Mul")
    view.highlight = operators  # the same list, changed in place
    assert list(view._marks[0]) == ["0/body/1/then_branch/0"]


def test_a_click_reaches_python():
    view = graph(loop())
    assert view.selected is None
    view._selected = [0, "0/body/1/then_branch/0"]
    assert view.selected.op == "Mul"
    for nonsense in ([0, "9"], [3, "0"], ["0", 0], [0]):
        view._selected = nonsense
        assert view.selected is None


def test_selecting_from_python_tells_the_page():
    view = graph(loop())
    assert view.select("Mul").path == "0/body/1/then_branch/0"
    first = list(view._to_select)
    view.select("Mul")
    assert view._to_select[:2] == first[:2]
    assert view._to_select != first  # or the page would not notice that it was asked again
    with pytest.raises(Exception, match="Nothing in the graph is called 'Mult'; near: Mul"):
        view.select("Mult")


def test_two_graphs_side_by_side():
    other = chain()
    other.graph.node[1].op_type = "Sigmoid"
    view = graph(chain(), other)
    first = outputs(view)[0]
    assert len(svgs(first["text/html"])) == 2
    assert "Relu" in view._notes[-1]
    assert view._notes[-1] in first["text/plain"]
    assert repr(view) == "Graph(model, 4 nodes | model, 4 nodes)"
    assert view._titles == ["model (1)", "model (2)"]
    left, right = view._marks
    assert left.keys() | right.keys() >= {"1"}
    assert view._pairs["0"] == "0"


def test_answers_to_the_page():
    model = chain()
    model.graph.initializer[0].raw_data = bytes(1000)
    view, sent = graph(model), []
    view.send = lambda content, buffers=None: sent.append((content, buffers))  # the comm of a kernel
    view._answer(view, {"kind": "weight", "location": "weight-0", "request": 1}, [])
    content, buffers = sent.pop()
    assert (content["request"], content["name"], content["size"]) == (1, "model", 4)
    assert buffers == [bytes(1000)]
    for question in (
        {"kind": "weight", "location": "../x"},
        {"kind": "kit", "pane": 7},
        {"kind": "nonsense"},
        {},
    ):
        view._answer(view, question, [])
        assert sent.pop()[0]["error"]


def test_a_fault_of_the_course_is_said_and_leaves_its_traceback(monkeypatch):
    view, sent = graph(chain()), []
    view.send = lambda content, buffers=None: sent.append(content)
    monkeypatch.setattr("onnxlab.notebook.graph.view._model_buffers", lambda model: {}["forgotten"])
    with pytest.raises(KeyError, match="forgotten"):
        view._answer(view, {"kind": "model", "request": 1}, [])
    assert "a fault of ONNX Lab itself" in sent.pop()["error"]
