"""The live graph in Notebook 7, and in JupyterLab below a hub's address."""

import json
from collections.abc import Iterator

import onnx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.jupyterlab import JupyterServer, jupyter_server
from tests.support.notebook_page import WatchedPage, wait_until

LOOP = """
<ir_version: 10, opset_import: ["": 18]>
control (float[4] x) => (float[4] out) <int64 trips = {3}, float[1] two = {2.0}>
{
    y = Loop (trips, , x) <body = body (int64 i, bool go, float[4] acc) => (bool again, float[4] next)
        { again = Identity(go) next = Mul(acc, two) }>
    out = Relu(y)
}
"""
# JupyterLab at its own address is what test_graph_page.py looks at.
SERVERS = [
    pytest.param(("notebook", "/"), id="notebook"),
    pytest.param(("lab", "/user/ada@example.org/"), id="hub", marks=pytest.mark.release),
]


@pytest.fixture(scope="module", params=SERVERS)
def server(request, browser: Browser, tmp_path_factory) -> Iterator[JupyterServer]:
    """Each front end; skipped with `browser`."""
    app, base = request.param
    with jupyter_server(tmp_path_factory.mktemp("server"), app, base) as running:
        onnx.save(onnx.parser.parse_model(LOOP), running.folder / "loop.onnx")
        yield running


@pytest.fixture
def page(browser: Browser, server: JupyterServer) -> Iterator[Page]:
    """A fresh page; requests that leave the server's own address fail the test."""
    watched = WatchedPage.open(browser)
    yield watched.page
    watched.page.context.close()
    watched.require_nothing_foreign(server.url)


def test_nodes_bodies_clicks_colours_theme_restart_and_reopening(server: JupyterServer, page: Page):
    notebook = server.new(
        page,
        [
            "from onnxlab import graph\nview = graph('loop.onnx')\nview",
            "print(view.selected)",
            "view.highlight = {'Mul': 'rgb(1, 200, 3)'}",
            "view.select('Relu').path",
        ],
    )
    # The real Netron, with the model's nodes; the picture is not there any more.
    (frame,) = notebook.run_graph(0)
    titles = frame.locator("g.graph-node .node-item-type:first-child > text").all_text_contents()
    assert titles == ["Loop", "body", "Identity", "Mul", "Relu"], "the body is open, as in the picture"
    expect(notebook.cells.nth(0).locator(".onnxlab-still")).to_be_hidden()

    # A node inside the body is clicked, and Python knows it.
    multiply = frame.locator(".graph-node", has_text="Mul").last
    multiply.locator(".node-item-type").click()
    notebook.run_until(1, "Mul .*")
    frame.locator("#sidebar-closebutton").click()

    # A highlight set in Python is seen, and a node selected there.
    notebook.run(2)
    border = multiply.locator("> .node-border")
    expect(border).to_have_css("stroke", "rgb(1, 200, 3)")
    notebook.run(3)
    frame.locator(".graph-node.select", has_text="Relu").wait_for()

    # A link in the text selects a node, by mouse and by keyboard.
    link = notebook.add_text(1, "[the loop](#node=Loop), then [Relu](#node=Relu)").locator("a")
    link.first.click()
    frame.locator(".graph-node.select", has_text="Loop").first.wait_for()
    link.last.press("Enter")
    frame.locator(".graph-node.select", has_text="Relu").wait_for()

    # The theme follows the page's.
    light = frame.evaluate("() => getComputedStyle(document.body).backgroundColor")
    page.evaluate("() => { document.body.dataset.jpThemeLight = 'false'; }")
    expect(frame.locator("body")).not_to_have_css("background-color", light)
    page.evaluate("() => { document.body.dataset.jpThemeLight = 'true'; }")

    # After a restart the graph is still there, and comes to life again when the cell is run.
    notebook.restart()
    assert frame.locator("g.graph-node").count() >= 2
    (frame,) = notebook.run_graph(0)
    assert frame.locator("g.graph-node").count() >= 3  # Loop, the box of its body, Relu

    # Saved, and opened without a kernel: the picture is there, and no error about the widget.
    notebook.save()
    saved = json.loads((server.folder / "graphs.ipynb").read_text())
    assert "widgets" not in saved["metadata"]
    assert len(json.dumps(saved["cells"][0]["outputs"])) < 30_000
    for cell in saved["cells"]:
        cell["execution_count"] = None
    (server.folder / "reopened.ipynb").write_text(json.dumps(saved))
    reopened = server.open(page, "reopened.ipynb")
    picture = reopened.cells.nth(0).locator(".onnxlab-still img")
    picture.wait_for()
    wait_until(page, lambda: picture.evaluate("image => image.complete && image.naturalHeight > 100"))
    page.wait_for_timeout(2_000)
    assert picture.is_visible()
    assert "Error displaying widget" not in reopened.cells.nth(0).inner_text()


def test_each_graph_of_a_pair_has_room(server: JupyterServer, page: Page):
    pairs = [f"graph('loop.onnx', 'loop.onnx', names=('before', {name!r}))" for name in ("after", "")]
    notebook = server.new(page, ["from onnxlab import graph", *pairs], name="pair.ipynb")
    notebook.run(0)
    for index in (1, 2):
        notebook.run_graph(index)
    for width in (1440, 1024):
        page.set_viewport_size({"width": width, "height": 2600})
        for index in (1, 2):
            left, right = (
                box.bounding_box() for box in notebook.cells.nth(index).locator(".onnxlab-graph").all()
            )
            assert left
            assert right
            assert min(left["width"], right["width"]) >= 480, f"{width}: {left['width']}, {right['width']}"
            assert min(left["height"], right["height"]) >= 320
            assert left["width"] == pytest.approx(right["width"], abs=1)
            assert left["y"] == right["y"] or left["y"] + left["height"] <= right["y"]
