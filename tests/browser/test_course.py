"""The course as a learner meets it: `course.py` serves JupyterLab, and every chapter runs in a browser."""

import base64
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from lab import ROOT, Lab
from playwright.sync_api import Page

from onnxlab.authoring.cleaning import METADATA

CHAPTERS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TWO_NODES = """
<ir_version: 8, opset_import: ["": 18]>
two (float[1, 3] x) => (float[1, 3] y) { positive = Relu(x) y = Neg(positive) }
"""


def pictures(cell: dict[str, Any]) -> list[str]:
    """Return the still pictures of the graphs that a cell put out."""
    pages = [str(output.get("data", {}).get("text/html", "")) for output in cell.get("outputs", [])]
    stills = "".join(page for page in pages if "onnxlab-still" in page)
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


def test_nobody_is_asked_about_news(lab: Lab, page: Page):
    page.goto(f"{lab.url}lab?token={lab.token}")
    page.wait_for_function("() => window.jupyterapp?.started?.then(() => true)")
    page.wait_for_timeout(2000)  # the question comes a moment after the start
    assert page.get_by_text("news").count() == 0
