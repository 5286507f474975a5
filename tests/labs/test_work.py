"""The folder between a learner's code and its judge: what is read from it is not trusted."""

import os

import numpy as np
import onnx
import pytest
import torch

from onnxlab.kit.outcome import Wrong
from onnxlab.kit.work import LARGEST, Work


@pytest.fixture
def work(tmp_path) -> Work:
    return Work(tmp_path, [1, 2, 3])


def test_values_come_back(work):
    work.write_json("facts", {"a": [1, "b", None, 2.5]})
    work.write_array("numbers", torch.arange(6).reshape(2, 3))
    work.write_model("model", onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [])))
    assert work.json("facts") == {"a": [1, "b", None, 2.5]}
    assert work.array("numbers").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert work.model("model").graph.name == "g"
    assert work.has("model")
    assert not work.has("other")


def test_questions_are_the_same_each_time(work):
    assert work.questions().integers(1000) == work.questions().integers(1000)


@pytest.mark.parametrize("value", [object(), {1: object()}, {1, 2}, b"bytes", torch.ones(2)])
def test_json_of_anything_else_is_refused_in_the_learners_terms(work, value):
    with pytest.raises(Wrong, match="other than plain Python values"):
        work.write_json("facts", value)


@pytest.mark.parametrize("value", [None, "text", object(), {"a": 1}])
def test_array_of_anything_else_is_refused(work, value):
    with pytest.raises(Wrong, match="a tensor was expected"):
        work.write_array("numbers", value)


@pytest.mark.parametrize("read", [Work.json, Work.array, Work.model])
def test_missing_file(work, read):
    with pytest.raises(Wrong, match="Nothing was made for this"):
        read(work, "nothing")


def test_pickled_array_is_not_loaded(work):
    np.save(work.folder / "numbers.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(Wrong, match="cannot be read"):
        work.array("numbers")


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_links_and_pipes_are_not_followed(work, tmp_path):
    secret = tmp_path.parent / "secret.json"
    secret.write_text("[1]")
    (work.folder / "facts.json").symlink_to(secret)
    with pytest.raises(Wrong):
        work.json("facts")
    os.mkfifo(work.folder / "pipe.json")
    with pytest.raises(Wrong, match="is not a file"):
        work.json("pipe")


def test_too_large_is_neither_written_nor_read(work):
    with pytest.raises(Wrong, match="16,777,216 are the most"):
        work.write_array("numbers", np.zeros(LARGEST // 8 + 100))
    with (work.folder / "facts.json").open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(Wrong, match="at most"):
        work.json("facts")


def test_deeply_nested_json_is_refused(work):
    (work.folder / "facts.json").write_text("[" * 100_000)
    with pytest.raises(Wrong, match="cannot be read"):
        work.json("facts")


def test_weights_in_another_file_are_refused(work):
    weight = onnx.TensorProto(name="w", data_type=1, dims=[1], data_location=onnx.TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="/etc/passwd")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["w"], ["y"])], "g", [], [], [weight])
    (work.folder / "model.onnx").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    with pytest.raises(Wrong, match="cannot be read"):
        work.model("model")
