"""The course as a learner meets it: `course.py` serves JupyterLab, and every chapter runs in a browser."""

import base64
import re
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.support.jupyterlab import ROOT, JupyterServer
from tests.support.notebook_page import Notebook, wait_until

TWO_NODES = """
<ir_version: 8, opset_import: ["": 18]>
two (float[1, 3] x) => (float[1, 3] y) { positive = Relu(x) y = Neg(positive) }
"""


def pictures(cell: dict[str, Any]) -> list[str]:
    """Return the still pictures of the graphs that a cell put out; those in a slider have no live graph."""
    pages = [str(output.get("data", {}).get("text/html", "")) for output in cell.get("outputs", [])]
    stills = "".join(page for page in pages if "onnxlab-still" in page and "onnxlab-slider" not in page)
    images = re.findall(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", stills)
    return [base64.b64decode(image).decode() for image in images]


# nbval runs every chapter; JupyterLab runs one that compares graphs, and every one with --all.
CHAPTERS = [
    pytest.param(path.stem, marks=() if path.stem == "11_graph_surgery" else pytest.mark.release)
    for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
]


@pytest.mark.parametrize("chapter", CHAPTERS)
@pytest.mark.slow
def test_a_chapter_runs_from_top_to_bottom_and_draws_its_graphs(lab: JupyterServer, page: Page, chapter: str):
    notebook = lab.open(page, f"notebooks/{chapter}.ipynb")
    notebook.run_all()
    cells = notebook.contents()
    code = [cell for cell in cells if cell["cell_type"] == "code" and cell["source"].strip()]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert not [output for cell in code for output in cell["outputs"] if output["output_type"] == "error"]
    for index, cell in enumerate(cells):
        if stills := pictures(cell):
            expected = sum(still.count("graph-node") for still in stills)
            frames = notebook.graphs(index, len(stills))
            live = sum(frame.locator("g.graph-node").count() for frame in frames)
            # The picture shows what is inside a Loop or an If; the live graph opens it on a click.
            nested = "inside" in str(cell["outputs"])
            same = 0 < live <= expected if nested else live == expected
            assert same, f"cell {index}: the picture has {expected} nodes, Netron draws {live}"


def show(model: str) -> str:
    """A cell that shows a model."""
    return f"import onnx, onnxlab\nonnxlab.graph(onnx.parser.parse_model({model!r}))"


def test_graphs_whose_cells_are_pushed_out_of_sight_are_drawn_whole(scratch: Notebook):
    # All cells are in sight at first; each graph pushes those below it out, and JupyterLab hides them.
    scratch.fill([show(TWO_NODES)] * 6)
    scratch.page.set_viewport_size({"width": 1280, "height": 900})
    scratch.run_all()
    scratch.page.wait_for_timeout(3000)  # while they are out of sight
    for index in range(6):
        (frame,) = scratch.graphs(index)
        assert frame.locator("g.graph-node").count() == 2


# A graph that is made at the n-th time is hidden from the n-th of these milliseconds on, for three seconds.
HIDE_MEANWHILE = """(starts) => new MutationObserver(() => {
  for (const frame of document.querySelectorAll('iframe.onnxlab-graph:not([data-seen])')) {
    const start = starts.shift();
    frame.dataset.seen = 'yes';
    if (start === undefined) continue;
    setTimeout(() => { frame.style.display = 'none'; }, start);
    setTimeout(() => { frame.style.display = 'block'; }, start + 3000);
  }
}).observe(document.body, { subtree: true, childList: true })"""


@pytest.mark.slow
def test_a_graph_that_is_hidden_for_a_moment_is_drawn_whole(scratch: Notebook):
    nodes = "".join(f"x{n + 1} = Relu (x{n}) " for n in range(200))
    model = f'<ir_version: 8, opset_import: ["": 18]> long (float[1] x0) => (float[1] x200) {{ {nodes} }}'
    starts = [0, 100, 400]  # before, while and after it is drawn
    scratch.fill([show(model)] * len(starts))
    scratch.page.evaluate(HIDE_MEANWHILE, starts)
    for index in range(len(starts)):
        scratch.run(index)
    shown = f"frames => frames.length === {len(starts)} && frames.every((f) => f.style.display === 'block')"
    graphs = scratch.page.locator("iframe.onnxlab-graph")
    wait_until(scratch.page, lambda: graphs.evaluate_all(shown))
    for index, start in enumerate(starts):
        (frame,) = scratch.graphs(index)
        nodes_drawn = frame.frame_element().get_attribute("data-nodes")
        assert nodes_drawn == "202", f"hidden after {start} ms"  # and the input and the output


def test_nobody_is_asked_about_news(scratch: Notebook):
    scratch.page.wait_for_timeout(2000)  # the question comes a moment after the start, and stays
    assert scratch.page.get_by_text("news").count() == 0
