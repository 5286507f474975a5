"""The course as a learner meets it: `course.py` serves JupyterLab, and every chapter runs in a browser."""

import base64
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Page

from onnxlab.authoring.cleaning import METADATA
from tests.support.jupyterlab import ROOT, Lab

CHAPTERS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TWO_NODES = """
<ir_version: 8, opset_import: ["": 18]>
two (float[1, 3] x) => (float[1, 3] y) { positive = Relu(x) y = Neg(positive) }
"""


def pictures(cell: dict[str, Any]) -> list[str]:
    """Return the still pictures of the graphs that a cell put out; those in a slider have no live graph."""
    pages = [str(output.get("data", {}).get("text/html", "")) for output in cell.get("outputs", [])]
    stills = "".join(page for page in pages if "onnxlab-still" in page and "onnxlab-slider" not in page)
    found = re.findall(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", stills)
    return [base64.b64decode(picture).decode() for picture in found]


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_runs_from_top_to_bottom_and_draws_its_graphs(lab: Lab, page: Page, chapter: Path):
    notebook = lab.open(page, f"notebooks/{chapter.name}")
    notebook.run_all()
    cells = notebook.cells()
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


def test_a_live_graph_is_netron_with_the_models_nodes(lab: Lab, page: Page):
    cell = nbformat.v4.new_code_cell(
        f"import onnx, onnxlab\nonnxlab.graph(onnx.parser.parse_model({TWO_NODES!r}))"
    )
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=METADATA), lab.folder / "two_nodes.ipynb")
    notebook = lab.open(page, "two_nodes.ipynb")
    notebook.run_all()
    (frame,) = notebook.graphs(0)
    assert frame.locator("g.graph-node").count() == 2
    assert frame.locator("g.graph-node .node-item-type").all_text_contents() == ["Relu", "Neg"]


def test_graphs_whose_cells_are_pushed_out_of_sight_are_drawn_whole(lab: Lab, page: Page):
    # All cells are in sight at first; each graph pushes those below it out, and JupyterLab hides them.
    show = f"onnxlab.graph(onnx.parser.parse_model({TWO_NODES!r}))"
    sources = [f"import onnx, onnxlab\n{show}", *[f"graph = {show}\ngraph" for _ in range(5)]]
    cells = [nbformat.v4.new_code_cell(each) for each in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=METADATA), lab.folder / "pushed.ipynb")
    notebook = lab.open(page, "pushed.ipynb")
    notebook.run_all()
    page.wait_for_timeout(3000)  # while they are out of sight
    for index in range(len(sources)):
        (frame,) = notebook.graphs(index)
        assert frame.locator("g.graph-node").count() == 2


HIDE_MEANWHILE = """([first, last]) => new MutationObserver(() => {
  const frame = document.querySelector('iframe.onnxlab-graph:not([data-seen])');
  if (!frame) return;
  frame.dataset.seen = 'yes';
  setTimeout(() => { frame.style.display = 'none'; }, first);
  setTimeout(() => { frame.style.display = 'block'; }, last);
}).observe(document.body, { subtree: true, childList: true })"""


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 50, 100, 200, 400])  # ms: before, while and after it is drawn
def test_a_graph_that_is_hidden_for_a_moment_is_drawn_whole(lab: Lab, page: Page, after: int):
    nodes = "".join(f"x{n + 1} = Relu (x{n}) " for n in range(200))
    model = f'<ir_version: 8, opset_import: ["": 18]> long (float[1] x0) => (float[1] x200) {{ {nodes} }}'
    cell = nbformat.v4.new_code_cell(
        f"import onnx, onnxlab\nonnxlab.graph(onnx.parser.parse_model({model!r}))"
    )
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=METADATA), lab.folder / "hidden.ipynb")
    notebook = lab.open(page, "hidden.ipynb")
    page.evaluate(HIDE_MEANWHILE, [after, after + 3000])
    notebook.run_all()
    page.wait_for_timeout(after + 3500)
    (frame,) = notebook.graphs(0)
    assert frame.frame_element().get_attribute("data-nodes") == "202"  # and the input and the output


def test_nobody_is_asked_about_news(lab: Lab, page: Page):
    page.goto(f"{lab.url}lab?token={lab.token}")
    page.wait_for_function("() => window.jupyterapp?.started?.then(() => true)")
    page.wait_for_timeout(2000)  # the question comes a moment after the start
    assert page.get_by_text("news").count() == 0
