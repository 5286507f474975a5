"""Highlights and values, as data."""

import math

import pytest

from onnxlab.errors import OnnxLabError
from onnxlab.notebook.graph.lean_model import lean_model
from onnxlab.notebook.graph.marks import (
    group_marks,
    highlight_marks,
    merge_marks,
    names_of,
    unknown_names,
    value_marks,
)
from tests.support.graph_models import chain, loop


@pytest.fixture
def nodes():
    return lean_model(chain()).nodes


@pytest.mark.parametrize(
    ("highlight", "paths"),
    [
        ("Conv", {"0", "2"}),
        ("/relu", {"1"}),
        ("b", {"1"}),  # the value that it makes
        (["Conv", "/add"], {"0", "2", "3"}),
        ({"Relu": "teal"}, {"1"}),
        (None, set()),
        ("Gemm", set()),
    ],
)
def test_highlight_by_operator_node_and_value(nodes, highlight, paths):
    assert highlight_marks(nodes, highlight).keys() == paths


def test_nodes_inside_bodies_are_highlighted():
    assert highlight_marks(lean_model(loop()).nodes, "If").keys() == {"0/body/1"}


def test_a_colour_must_be_a_colour(nodes):
    assert highlight_marks(nodes, {"Relu": "rgb(1 2 3 / 50%)"})["1"]["stroke"] == "rgb(1 2 3 / 50%)"
    with pytest.raises(OnnxLabError, match="not a CSS colour"):
        highlight_marks(nodes, {"Relu": "red;} body {display: none"})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.234e-6, "1.2e-06"),
        (0, "0"),
        (12345, "12,345"),
        ((1, None, 8), "1\u00d7?\u00d78"),
        ((), "scalar"),
        ("text", "text"),
    ],
)
def test_texts_of_values(nodes, value, text):
    assert value_marks(nodes, {"a": value})["0"]["rows"] == [["", text]]


def test_larger_numbers_are_more_strongly_coloured(nodes):
    marks = value_marks(nodes, {"a": 1e-9, "b": 1e-4, "c": 3.0, "y": math.nan})
    shares = [float(marks[path]["fill"].split(", ")[-1][:-1]) for path in "0123"]
    assert shares[0] < shares[1] < shares[2] == shares[3]


@pytest.mark.parametrize(
    ("values", "paths"),
    [
        ((2e-7, 3e-3, 8e-3, 9e-3), ["1"]),
        ((2e-7, 3e-7, math.nan, math.nan), ["2"]),
        ((0.2, 4.0, 80.0, 0.1), []),  # numbers of another kind, as milliseconds
    ],
)
def test_the_first_node_that_diverges_has_a_border(nodes, values, paths):
    marks = value_marks(nodes, dict(zip("abcy", values, strict=True)))
    assert [path for path, mark in marks.items() if "stroke" in mark] == paths


def test_later_marks_hold():
    merged = merge_marks({"0": {"stroke": "red", "fill": "blue"}}, {"0": {"stroke": "green"}})
    assert merged == {"0": {"stroke": "green", "fill": "blue"}}


def test_a_group_shows_what_is_marked_inside():
    marks = {"0": {"stroke": "red"}, "1": {"size": 1e-3, "rows": [], "fill": ""}, "2": {"size": math.nan}}
    shown = group_marks({"group:0": ["0", "1"], "group:1": ["1", "2"], "group:2": ["3"]}, marks)
    assert shown["group:0"]["stroke"] == "red"
    assert shown["group:0"]["rows"] == [["largest inside", "0.001"]]
    assert shown["group:1"]["rows"] == [["largest inside", "nan"]]
    assert "group:2" not in shown


def test_unknown_names_with_what_is_near(nodes):
    existing = names_of(nodes)
    assert unknown_names(existing, ["Conv", "/relu", "c"]) == []
    assert unknown_names(existing, ["Covn"]) == ["Nothing in the graph is called 'Covn'; near: Conv."]
    assert unknown_names(existing, ["zzz"]) == ["Nothing in the graph is called 'zzz'."]
