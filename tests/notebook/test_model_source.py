"""What is said where there is no model to draw: short, whatever was given."""

import os

import onnx
import pytest

from onnxlab.errors import ModelNotReadable
from onnxlab.notebook.graph.model_source import read_structure
from tests.support.graph_models import chain


class Named(os.PathLike):
    """A path that says itself what it is called."""

    def __init__(self, name):
        self.name = name

    def __fspath__(self):
        return self.name


@pytest.mark.parametrize(
    "given",
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
    ids=lambda given: type(given).__name__[:10],
)
def test_a_message_is_short_whatever_was_given(given):
    with pytest.raises(ModelNotReadable) as caught:
        read_structure(given)
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
