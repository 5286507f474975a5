"""Every form of a model is loaded; every file that is not a model is refused."""

import gzip
import io
import os

import onnx
import pytest
import safetensors.torch
import torch
from onnx import TensorProto, helper
from onnx.parser import parse_model

from onnxlab.errors import ExportFailed, ModelNotReadable
from onnxlab.exporters.export import Exporter, export
from onnxlab.model.load import load, load_alone

RELU = parse_model('<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { y = Relu(x) }')


def _saved(value, **options):
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def with_weights_outside(folder, location="weights.bin"):
    model = onnx.ModelProto()
    model.CopyFrom(RELU)
    weight = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[2])
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


def _constant(tensor):
    return helper.make_node("Constant", [], ["w"], value=tensor)


PLACES = {  # where a tensor can lie, beside the initializers and the nodes of the graph
    "sparse": lambda model, tensor: model.graph.sparse_initializer.add().values.CopyFrom(tensor),
    "its indices": lambda model, tensor: model.graph.sparse_initializer.add().indices.CopyFrom(tensor),
    "a sparse attribute": lambda model, tensor: (
        model.graph.node[0].attribute.add(type="SPARSE_TENSOR").sparse_tensor.values.CopyFrom(tensor)
    ),
    "a list of sparse ones": lambda model, tensor: (
        model.graph.node[0].attribute.add(type="SPARSE_TENSORS").sparse_tensors.add().values.CopyFrom(tensor)
    ),
    "a function": lambda model, tensor: model.functions.add().node.append(_constant(tensor)),
    "its defaults": lambda model, tensor: model.functions.add().attribute_proto.add().t.CopyFrom(tensor),
    "a body": lambda model, tensor: (
        model.graph.node[0].attribute.add().g.sparse_initializer.add().values.CopyFrom(tensor)
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_no_tensor_leads_to_a_file_outside_of_the_models_folder(tmp_path, place):
    (tmp_path / "secret.bin").write_bytes(bytes(8))
    (tmp_path / "inner").mkdir()
    model = onnx.ModelProto()
    model.CopyFrom(RELU)
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="../secret.bin")
    PLACES[place](model, tensor)
    file = tmp_path / "inner" / "model.onnx"
    file.write_bytes(model.SerializeToString())
    for form in (model, file.read_bytes(), file):
        with pytest.raises(ModelNotReadable, match="in another file"):
            load(form)


def test_every_form_of_a_model_is_taken(tmp_path):
    file = tmp_path / "relu.onnx"
    onnx.save(RELU, file)
    assert load(RELU) is RELU
    for form in (file, str(file), file.read_bytes(), bytearray(file.read_bytes())):
        assert load(form) == RELU


def test_a_fresh_export_is_taken():
    result = export(torch.nn.ReLU(), torch.ones(2), Exporter.TORCHSCRIPT)
    assert load(result).graph.node[0].op_type == "Relu"


def test_a_failed_export_says_why():
    result = export(torch.nn.ReLU(), torch.ones(2), Exporter.TORCHSCRIPT, opset_version=99)
    with pytest.raises(ExportFailed, match="Unsupported onnx_opset_version: 99"):
        load(result)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"import torch\n", "is not an ONNX model.\nIt looks like text"),
        (b"version https://git-lfs.github.com/spec/v1\n", "pointer of Git LFS: .*\nRun: git lfs pull"),
        (b"\xef\xbb\xbf\n<!DOCTYPE html><html>", "It is a web page"),
        (b"<html><body>Sign in</body></html>", "It is a web page"),
        (_saved(torch.zeros(2)), "torch.save"),
        (_saved(torch.zeros(2), _use_new_zipfile_serialization=False), "torch.save"),
        (_saved(torch.nn.Linear(2, 2)), "torch.save"),
        (safetensors.torch.save({"w": torch.zeros(2)}), "safetensors"),
        (gzip.compress(b"model"), "compressed"),
        (b"PK\x03\x04" + bytes(40), "zip archive"),
        (bytes(4) + b"ORTM" + bytes(40), "the ORT format"),
        (b"\x89PNG\r\n\x1a\n" + bytes(40), "is not an ONNX model.\nThe file is damaged"),
        (RELU.SerializeToString()[:-20], "is not an ONNX model"),
        (TensorProto(name="x", dims=[2]).SerializeToString(), "is not an ONNX model"),
    ],
    ids=[
        *("empty", "program", "pointer", "page", "sign-in", "tensor", "old tensor", "module"),
        *("safetensors", "gzip", "zip", "ort", "picture", "cut", "proto"),
    ],
)
def test_a_file_that_is_not_a_model_is_refused(tmp_path, content, message):
    file = tmp_path / "model.onnx"
    file.write_bytes(content)
    with pytest.raises(ModelNotReadable, match=message) as caught:
        load(file)
    assert "model.onnx" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 3


@pytest.mark.parametrize("name", [b"Relu", b"here", b"own"])
def test_a_name_that_is_not_text_is_refused(tmp_path, name):
    """Protobuf gives bytes for it, and whatever expects a string fails on these, far from here."""
    model = onnx.ModelProto.FromString(RELU.SerializeToString())
    model.graph.initializer.add(name="here", data_type=1, dims=[1], raw_data=b"\xff" * 4)
    model.opset_import.add(domain="own", version=1)
    file = tmp_path / "model.onnx"
    file.write_bytes(model.SerializeToString().replace(name, b"\xff\xfe"[: len(name)] + name[2:]))
    for form in (file, file.read_bytes()):
        with pytest.raises(ModelNotReadable, match="is not text in UTF-8") as caught:
            load(form)
        assert len(str(caught.value).splitlines()) == 3
    file.write_bytes(model.SerializeToString())
    assert load(file) == model


def test_a_missing_file_names_the_models_beside_it(tmp_path):
    onnx.save(RELU, tmp_path / "relu.onnx")
    with pytest.raises(ModelNotReadable, match=r"no file .*rely.onnx.\nModels in that folder: relu.onnx"):
        load(tmp_path / "rely.onnx")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(ModelNotReadable, match="is a folder"):
        load(tmp_path)


@pytest.mark.filterwarnings("error")
def test_a_key_that_another_tool_wrote_about_external_data_is_passed_over(tmp_path):
    (tmp_path / "weights.bin").write_bytes(bytes(8))
    model = onnx.load(with_weights_outside(tmp_path), load_external_data=False)
    model.graph.initializer[0].external_data.add(key="own", value="1")
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    assert load(tmp_path / "model.onnx").graph.initializer[0].raw_data == bytes(8)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes in folders")
@pytest.mark.parametrize("load_form", [load, load_alone])
def test_a_pipe_is_refused_at_once(tmp_path, load_form):
    """To read one waits until somebody writes."""
    os.mkfifo(tmp_path / "pipe.onnx")
    with pytest.raises(ModelNotReadable, match=r"pipe\.onnx is a pipe or a device"):
        load_form(tmp_path / "pipe.onnx")


@pytest.mark.parametrize("path", ["model\0.onnx", "x" * 5000])
def test_an_impossible_path_is_refused(path):
    with pytest.raises(ModelNotReadable, match="cannot be read"):
        load(path)


@pytest.mark.parametrize("other", [None, 3, RELU.graph])
def test_another_object_is_refused(other):
    with pytest.raises(ModelNotReadable, match=f"not a {type(other).__name__}"):
        load(other)


def test_weights_beside_the_model_are_read(tmp_path):
    file = with_weights_outside(tmp_path)
    (tmp_path / "weights.bin").write_bytes(bytes([0, 0, 128, 63] * 2))
    assert onnx.numpy_helper.to_array(load(file).graph.initializer[0]).tolist() == [1.0, 1.0]


def test_missing_weights_are_named(tmp_path):
    with pytest.raises(ModelNotReadable, match="keeps its weights in another file") as caught:
        load(with_weights_outside(tmp_path))
    assert "weights.bin" in str(caught.value)


@pytest.mark.parametrize("location", ["../secret.bin", "{folder}/secret.bin", "inner/../../secret.bin"])
def test_weights_outside_the_models_folder_are_not_read(tmp_path, location):
    secret = tmp_path / "secret.bin"
    secret.write_bytes(bytes(8))
    folder = tmp_path / "models"
    (folder / "inner").mkdir(parents=True)
    with pytest.raises(ModelNotReadable, match="cannot be used"):
        load(with_weights_outside(folder, location.format(folder=tmp_path)))


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    (tmp_path / "secret.bin").write_bytes(bytes(8))
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "weights.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(ModelNotReadable, match="cannot be used"):
        load(with_weights_outside(folder))


def test_in_memory_there_is_no_place_to_look_for_weights(tmp_path):
    data = with_weights_outside(tmp_path).read_bytes()
    for form in (data, onnx.load_model_from_string(data)):
        with pytest.raises(ModelNotReadable, match="'w' for one"):
            load(form)


def test_weights_of_a_subgraph_count_too():
    tensor = TensorProto(name="t", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    body = helper.make_graph([helper.make_node("Constant", [], ["c"], value=tensor)], "body", [], [])
    node = helper.make_node("If", ["x"], ["y"], then_branch=body, else_branch=body)
    with pytest.raises(ModelNotReadable, match="the Constant of 'c' for one"):
        load(helper.make_model(helper.make_graph([node], "g", [], [])))
