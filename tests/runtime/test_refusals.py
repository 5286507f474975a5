"""The reasons of ONNX Runtime's refusals, as raised today and as recorded."""

import numpy as np
import pytest
import torch
from onnx.parser import parse_model

from onnxlab.exporters.export import Exporter, export
from onnxlab.history import VERSIONS, recorded_fact, recorded_graph
from onnxlab.runtime.refusals import AxisMismatch, failure_table, parse_refusal
from onnxlab.runtime.session import open_session

HEAD = '<ir_version: 8, opset_import: ["" : 18]>'
STATIC = recorded_graph("1.8.1", "model_static")  # in: float32[1, 3, 10, 10]


def zeros(*shape):
    return np.zeros(shape, np.float32)


def refused(feed, model=STATIC):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the runtime's classes vary; the text is tested
        open_session(model).run(None, feed)
    return parse_refusal(caught.value)


@pytest.mark.parametrize(
    ("array", "mismatches"),
    [
        (zeros(2, 3, 10, 10), [(0, 2, 1)]),
        (zeros(1, 3, 20, 20), [(2, 20, 10), (3, 20, 10)]),
        (zeros(0, 1, 9, 11), [(0, 0, 1), (1, 1, 3), (2, 9, 10), (3, 11, 10)]),
    ],
)
def test_wrong_axes_are_listed(array, mismatches):
    refusal = refused({"in": array})
    assert refusal.input == "in"
    assert refusal.mismatches == tuple(AxisMismatch(*mismatch) for mismatch in mismatches)
    assert refusal.reason == "; ".join(f"axis {a}: got {g}, expected {e}" for a, g, e in mismatches)


X = zeros(1, 3, 10, 10)


@pytest.mark.parametrize(
    ("feed", "name", "reason"),
    [
        ({"in": X[0]}, "in", "rank: got 3, expected 4"),
        ({"in": X.astype("d")}, None, "dtype: got tensor(double), expected tensor(float)"),
        ({"x": X}, "in", "missing input: got x, expected in"),
        ({}, None, "missing input: got nothing, expected in"),
        ({"in": X, "extra": zeros(1)}, "extra", "unknown input"),
        ({"in": torch.zeros(X.shape)}, "in", "not an array"),
        ({"in": 3.0}, None, "not an array: got float, expected numpy array"),
        ({"in": None}, "in", "missing input: got nothing, expected in"),
    ],
)
def test_the_reason_of_a_refusal(feed, name, reason):
    refusal = refused(feed)
    assert refusal.reason == reason
    assert name in (None, refusal.input)


def test_a_name_with_spaces_and_colons():
    model = parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> g (float[2] a) => (float[2] y) { y = Relu(a) }'
    )
    for place in (model.graph.input[0], model.graph.node[0].input):
        if hasattr(place, "name"):
            place.name = "my input: one"
        else:
            place[0] = "my input: one"
    assert refused({"my input: one": zeros(3)}, model).input == "my input: one"


def test_an_error_from_inside_the_model_is_of_no_known_kind():
    add = parse_model(f"{HEAD} g (float[n] a, float[m] b) => (float[k] y) {{ y = Add(a, b) }}")
    refusal = refused({"a": zeros(2), "b": zeros(3)}, add)
    assert refusal.mismatches == ()
    assert "Add" in refusal.reason
    assert "\n" not in refusal.reason
    assert not refusal.reason.startswith("[ONNXRuntimeError]")


@pytest.mark.parametrize("text", ["", "something else", "\n\n"])
def test_any_text_is_taken(text):
    refusal = parse_refusal(text)
    assert (refusal.input, refusal.mismatches, refusal.reason) == (None, (), text.strip())


@pytest.mark.parametrize("version", VERSIONS)
def test_the_recorded_refusals_are_read_as_well(version):
    read = {
        cell: parse_refusal(outcome).reason
        for cell, outcome in recorded_fact(version, "nine_cells").items()
        if not outcome.startswith("succeed")
    }
    axis0, axes23 = "axis 0: got 2, expected 1", "axis 2: got 20, expected 10; axis 3: got 20, expected 10"
    assert read == {
        "Input[1] on model_static.onnx": axis0,
        "Input[2] on model_static.onnx": axes23,
        "Input[2] on model_dynamic_0.onnx": axes23,
        "Input[1] on model_dynamic_23.onnx": axis0,
    }


def test_nine_cells_as_they_are_today():
    names = ("model_static", "model_dynamic_0", "model_dynamic_23")
    models = {name: recorded_graph("1.8.1", name) for name in names}
    inputs = {"one": zeros(1, 3, 10, 10), "two": zeros(2, 3, 10, 10), "big": {"in": zeros(1, 3, 20, 20)}}
    table = failure_table(models, inputs)
    assert {cell for cell, outcome in table.cells.items() if not outcome.ok} == {
        ("model_static", "two"),
        ("model_static", "big"),
        ("model_dynamic_0", "big"),
        ("model_dynamic_23", "two"),
    }
    assert table.cells["model_dynamic_23", "big"].output_shapes == ((1, 3, 18, 18),)
    assert table.rows()[1] == {
        "model": "model_dynamic_0",
        "one": "ok (1, 3, 8, 8)",
        "two": "ok (2, 3, 8, 8)",
        "big": "error: axis 2: got 20, expected 10; axis 3: got 20, expected 10",
    }


def test_several_outputs_and_a_model_without_inputs():
    class Constant(torch.nn.Module):
        def forward(self, x):
            return torch.zeros(2), torch.zeros(3, 1)

    exported = export(Constant(), torch.ones(1), Exporter.TORCHSCRIPT)
    table = failure_table({"m": exported}, {"nothing": {}})
    assert str(table.cells["m", "nothing"]) == "ok (2,) (3, 1)"


def test_tables_may_be_empty():
    table = failure_table({}, {"a": zeros(1)})
    assert (table.rows(), dict(table.cells)) == ([], {})
    assert failure_table({"m": STATIC}, {}).rows() == [{"model": "m"}]
