"""Models that nobody here wrote: onnx's own, and those of other packages where they are installed."""

import importlib.util
import warnings
from pathlib import Path

import onnx
import onnx.backend.test
import pytest

from onnxlab import graph
from onnxlab.notebook.graph.static_picture import draw_picture

SHIPPED = Path(onnx.backend.test.__file__).parent / "data"
KINDS = sorted(folder.name for folder in SHIPPED.iterdir() if folder.is_dir() and any(folder.rglob("*.onnx")))


def panes(model):
    """The panes of a graph; fails where there is a message instead."""
    view = graph(model)
    assert repr(view).startswith("Graph("), view
    return view._panes


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_onnx_ships_models_that_all_open(kind):
    for path in sorted((SHIPPED / kind).rglob("*.onnx")):
        (pane,) = panes(path)
        if pane.nodes <= 120:
            picture = draw_picture(pane.flat)
            assert picture.svg.count("graph-node") >= 1, path


def kind(model):
    """What a reader of models can stumble over: domains, functions, attributes, missing inputs, sequences."""
    nodes, ends = model.graph.node, (*model.graph.input, *model.graph.output)
    return (
        frozenset(node.domain for node in nodes),
        bool(model.functions),
        len(nodes) > 1,
        frozenset(attribute.type for node in nodes for attribute in node.attribute),
        any("" in node.input for node in nodes),
        frozenset(value.type.WhichOneof("value") for value in ends),
    )


@pytest.mark.slow
@pytest.mark.parametrize("step", [None, pytest.param(4, marks=pytest.mark.release)])
def test_models_that_onnx_generates_for_its_operators_open(step):
    """One of each kind; before a release every fourth: an operator has several."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = {case.name: case.model for case in collect_testcases(None) if case.model is not None}
    assert len(models) > 1500
    names = sorted(models)[::step] if step else {kind(model): name for name, model in models.items()}.values()
    assert len(names) > 50
    for name in names:
        (pane,) = panes(models[name])
        if pane.nodes <= 60:
            assert draw_picture(pane.flat).height > 0, name


@pytest.mark.parametrize("package", ["magika", "silero_vad"])
def test_models_of_other_packages_open(package):
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    paths = sorted(Path(spec.origin).parent.rglob("*.onnx"))
    assert paths
    for path in paths:
        (pane,) = panes(path)
        assert draw_picture(pane.flat, bodies=False).height > 0
