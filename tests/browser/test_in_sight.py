"""A verdict stays in sight where a graph stands below it; what a button shows comes into sight."""

import pytest
from playwright.sync_api import Page, expect

from tests.support.jupyterlab import JupyterServer, jupyter_server
from tests.support.notebook_page import Notebook

WINDOW = {"width": 1280, "height": 800}
FILLER = "# " + "\n# ".join(str(number) for number in range(60))
STEPS = (
    "import os, tempfile, torch\n"
    'os.environ["ONNXLAB_STATE"] = tempfile.mkdtemp() + "/progress.json"  # a learner who begins\n'
    "from onnxlab import check, graph, predict, quiet_exporters\nquiet_exporters()",
    'guess = predict("Will it run?", ["yes", "no"])',
    'guess.reveal("no")\nmodel = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(9)]).eval()\n'
    'program = torch.onnx.export(model, (torch.rand(1, 4),), "m.onnx", verbose=False)\ngraph("m.onnx")',
    FILLER,
    'check("asinh-symbolic", lambda g, x: g.op("Atan", x))',
    FILLER,
    'check("asinh-symbolic", lambda g, x: g.op("Asinh", x))',
    FILLER,
)
REVEAL, FAILED, PASSED = 2, 4, 6
# How far the first line of a node lies below the top and above the bottom of the notebook's window.
MARGINS = """node => {
  const [inside, outside] = [node, node.closest('.jp-WindowedPanel-outer')].map((part) => part.getBoundingClientRect());
  return [inside.top - outside.top, outside.bottom - inside.top - 20];
}"""


def run_and_advance(notebook: Notebook, index: int) -> None:
    """Put the cursor into a code cell and press Shift+Enter, as a reader does; wait until nothing moves."""
    notebook.scroll_to(index).locator(".cm-content").click()
    notebook.page.keyboard.press("Shift+Enter")
    notebook.wait_for_kernel()
    notebook.page.wait_for_timeout(3500)


def margins(notebook: Notebook, index: int, selector: str) -> list[float]:
    """How far a verdict is from the window's edges; negative: out of sight."""
    cell = notebook.page.locator(f".jp-Notebook .jp-Cell[data-windowed-list-index='{index}']")
    return list(cell.locator(selector).last.evaluate(MARGINS))


@pytest.fixture
def steps(lab: JupyterServer, page: Page) -> Notebook:
    notebook = lab.new(page, STEPS, "in_sight.ipynb")
    page.set_viewport_size(WINDOW)
    run_and_advance(notebook, 0)
    return notebook


@pytest.mark.slow
def test_shift_enter_leaves_the_verdict_in_sight_and_the_graph_below_it(steps: Notebook, tmp_path):
    run_and_advance(steps, 1)
    run_and_advance(steps, REVEAL)
    steps.page.screenshot(path="/tmp/hlinks/reveal.png")
    assert min(margins(steps, REVEAL, ".onnxlab-predict.answer")) >= 0
    run_and_advance(steps, FAILED)
    steps.page.screenshot(path="/tmp/hlinks/failed.png")
    assert min(margins(steps, FAILED, ".onnxlab-report")) >= 0
    run_and_advance(steps, PASSED)
    steps.page.screenshot(path="/tmp/hlinks/passed.png")
    assert min(margins(steps, PASSED, ".onnxlab-report")) >= 0
