"""The model without its weights, and the way back to them; what is said where there is no model to draw."""

import os

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnxlab.errors import ModelNotReadable
from onnxlab.notebook.graph.lean_model import IDENTIFIER, lean_model, read_structure
from tests.support.graph_models import WEIGHT, chain, loop


def test_the_model_itself_stays_as_it_is():
    model = chain()
    before = model.SerializeToString()
    lean_model(model)
    assert model.SerializeToString() == before


def test_every_node_has_its_path_as_identifier():
    lean = lean_model(loop())
    copy = ModelProto.FromString(lean.data)
    body = copy.graph.node[0].attribute[0].g
    carried = [node.metadata_props[-1].value for node in [*copy.graph.node, *body.node]]
    assert carried == ["0", "1", "0/body/0", "0/body/1"]
    assert {path: node.op for path, node in lean.nodes.items()}["0/body/1/else_branch/0"] == "Add"


def test_an_identifier_that_a_model_brings_is_overruled():
    model = chain()
    model.graph.node[0].metadata_props.add(key=IDENTIFIER, value="3")
    entries = ModelProto.FromString(lean_model(model).data).graph.node[0].metadata_props
    assert [entry.value for entry in entries] == ["3", "0"]  # the page takes the last


def test_large_weights_stay_behind_and_small_ones_travel():
    model = chain()
    large = np.arange(10_000, dtype=np.float32)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(large, "w1"))
    lean = lean_model(model)
    assert len(lean.data) < 2_000
    copy = {tensor.name: tensor for tensor in ModelProto.FromString(lean.data).graph.initializer}
    assert copy["w1"].data_location == TensorProto.EXTERNAL
    assert copy["w2"].raw_data == WEIGHT
    placeholder = copy["w1"].external_data[0].value
    assert np.array_equal(np.frombuffer(lean.weight(placeholder).read(), np.float32), large)


def test_constants_inside_bodies_stay_behind():
    model = loop()
    body = model.graph.node[0].attribute[0].g
    value = numpy_helper.from_array(np.ones(5000, np.float32))
    body.node.append(helper.make_node("Constant", [], ["unused"], value=value))
    lean = lean_model(model)
    assert len(lean.data) < 2_000
    assert len(lean.weights) == 1


@pytest.fixture
def external(tmp_path):
    path = tmp_path / "folder" / "model.onnx"
    path.parent.mkdir()
    onnx.save(chain(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def read_first(path):
    model = onnx.load(path, load_external_data=False)
    return lean_model(model, path.parent).weight("weight-0").read()


def rewrite(path, **entries):
    """Change what the first tensor says about its place."""
    model = onnx.load(path, load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        entry.value = entries.get(entry.key, entry.value)
    onnx.save(model, path)


def test_external_weights_are_read_when_asked_for(external):
    assert read_first(external) == WEIGHT


def test_a_link_out_of_the_folder_is_not_followed(external):
    secret = external.parent.parent / "secret"
    secret.write_bytes(b"secret" * 100)
    (external.parent / "weights.bin").unlink()
    (external.parent / "weights.bin").symlink_to(secret)
    with pytest.raises(ModelNotReadable, match="outside its own folder"):
        read_first(external)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes of this kind")
def test_a_pipe_in_place_of_the_weights_is_not_waited_for(external):
    (external.parent / "weights.bin").unlink()
    os.mkfifo(external.parent / "weights.bin")
    with pytest.raises(ModelNotReadable, match=r"weights\.bin cannot be read: it is not a regular file"):
        read_first(external)


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"offset": "a"}, "not a number"),
        ({"offset": "-5"}, "fewer than the model says"),
        ({"length": "99999999"}, "fewer than the model says"),
        ({"location": "other.bin"}, "cannot be read"),
        *(
            ({"location": location}, "outside its own folder")
            for location in ("nul\0byte", "../secret", "/etc/passwd", "", ".", "a/../../secret")
        ),
    ],
)
def test_nothing_outside_the_folder_is_read_and_no_place_that_makes_no_sense(external, entries, says):
    (external.parent.parent / "secret").write_bytes(b"secret" * 100)
    rewrite(external, **entries)
    with pytest.raises(ModelNotReadable, match=says):
        read_first(external)


def test_a_weight_too_large_to_show_is_refused(external):
    with (external.parent / "weights.bin").open("r+b") as file:
        file.truncate(1 << 30)
    rewrite(external, offset="0", length=str(1 << 30))
    with pytest.raises(ModelNotReadable, match="too large to show"):
        read_first(external)


def test_without_a_folder_no_file_is_read(external):
    model = onnx.load(external, load_external_data=False)
    with pytest.raises(ModelNotReadable, match="given without its file"):
        lean_model(model).weight("weight-0").read()


@pytest.mark.parametrize(
    "placeholder", ["weight-2", "weight-9", "weight-", "weight-\u0661", "x", "../x", "weight-0/.."]
)
def test_placeholders_that_do_not_exist(placeholder):
    model = chain()
    for tensor in model.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(np.ones(1000, np.float32), tensor.name))
    model = lean_model(model)
    assert [model.weight(name) for name in ("weight-0", "weight-1")] == list(model.weights)
    with pytest.raises(ModelNotReadable, match="has no weight"):
        model.weight(placeholder)


class Named(os.PathLike):
    """A path that says itself what it is called."""

    def __init__(self, name):
        self.name = name

    def __fspath__(self):
        return self.name


@pytest.mark.parametrize(
    "model",
    [
        "x" * 100_000,
        "/".join(["d" * 200] * 500),
        "new\nline\n" * 400,
        "a\0b" * 1000,
        "\ud800x",
        "\x1b[31mred" * 1000,
        b"x" * 100_000,
        Named("x" * 100_000),
        Named(b"x" * 100_000),
        Named(b"\xff.onnx"),
        Named(7),
        type("L" * 100_000, (), {})(),
        [1] * 100_000,
        None,
    ],
    ids=lambda model: type(model).__name__[:10],
)
def test_a_message_is_short_whatever_was_given(model):
    with pytest.raises(ModelNotReadable) as caught:
        read_structure(model)
    message = str(caught.value)
    assert len(message) < 500
    assert len(message.splitlines()) <= 3
    message.encode()  # can be printed


def test_the_names_beside_a_missing_file_are_shortened(tmp_path):
    for number in range(7):
        (tmp_path / f"{number}{'n' * 200}.onnx").write_bytes(b"")
    with pytest.raises(ModelNotReadable, match=r"Models in that folder: 0n+…n+\.onnx, 1n") as caught:
        read_structure(tmp_path / "other.onnx")
    assert max(map(len, str(caught.value).splitlines())) < 500


def test_a_path_of_bytes_is_read(tmp_path):
    onnx.save(chain(), tmp_path / "model.onnx")
    source = read_structure(Named(os.fsencode(tmp_path / "model.onnx")))
    assert source.name == "model.onnx"
    assert len(source.model.graph.node) == 4
