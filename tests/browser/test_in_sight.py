"""A verdict stays in sight where a graph stands below it; what a button shows comes into sight."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import screenshot_of_failure
from tests.support.jupyterlab import JupyterServer, jupyter_server
from tests.support.notebook_page import RUNNING, Notebook, WatchedPage, wait_until

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
SETTLED = 3000
"""Milliseconds; after fewer, no widget moves a page any more (in_sight.js)."""

HAS_RUN = (
    "(index) => window.jupyterapp.shell.currentWidget.content.widgets[index].model.executionCount"
    f" && !({RUNNING})"
)
# How far the first line of a node lies below the top and above the bottom of the notebook's window.
MARGINS = """node => {
  const parts = [node, node.closest('.jp-WindowedPanel-outer')];
  const [inside, outside] = parts.map((part) => part.getBoundingClientRect());
  return [inside.top - outside.top, outside.bottom - inside.top - 20];
}"""


def run_and_advance(notebook: Notebook, index: int) -> None:
    """Put the cursor into a code cell and press Shift+Enter, as a reader does; wait until it has run."""
    notebook.scroll_to(index).locator(".cm-content").click()
    notebook.page.keyboard.press("Shift+Enter")
    notebook.page.wait_for_function(HAS_RUN, arg=index)


def require_in_sight(notebook: Notebook, index: int, selector: str) -> None:
    """Wait until a verdict is within the window's edges, with all that its cell shows."""
    cell = notebook.page.locator(f".jp-Notebook .jp-Cell[data-windowed-list-index='{index}']")
    verdict = cell.locator(selector).last
    expect(verdict).to_be_attached()
    notebook.page.wait_for_timeout(500)  # for JupyterLab to scroll on to the next cell
    wait_until(notebook.page, lambda: min(verdict.evaluate(MARGINS)) >= 0)


@pytest.mark.slow
def test_verdicts_and_what_buttons_show_are_in_sight_and_nothing_else_moves(lab: JupyterServer, page: Page):
    notebook = lab.new(page, STEPS, "in_sight.ipynb")
    page.set_viewport_size(WINDOW)
    for index in (0, 1, REVEAL):
        run_and_advance(notebook, index)
    cell = page.locator(f".jp-Notebook .jp-Cell[data-windowed-list-index='{REVEAL}']")
    expect(cell.locator("iframe.onnxlab-graph")).to_be_attached()  # below the verdict
    require_in_sight(notebook, REVEAL, ".onnxlab-predict.answer")
    run_and_advance(notebook, FAILED)
    require_in_sight(notebook, FAILED, ".onnxlab-report")

    cell = page.locator(f".jp-Notebook .jp-Cell[data-windowed-list-index='{FAILED}']")
    answers = {"Failing case": "inputs: (float32", "Hint": "Hint 1 of 3: ", "Right model": ""}
    for button, text in answers.items():
        cell.get_by_role("button", name=button, exact=True).click()
        if text:
            expect(cell.get_by_text(text)).to_be_in_viewport()
    expect(cell.locator("iframe.onnxlab-graph")).to_have_count(3)
    expect(cell.locator("iframe.onnxlab-graph").last).to_be_in_viewport()
    # By key: graphs that are still being drawn would move it away from under a mouse.
    cell.get_by_role("button", name="Hint", exact=True).press("Enter")
    expect(cell.get_by_text("Hint 2 of 3: ")).to_be_in_viewport()
    for text in filter(None, answers.values()):
        expect(cell).to_contain_text(text)
    expect(cell.locator("iframe.onnxlab-graph")).to_have_count(3)
    run_and_advance(notebook, PASSED)
    require_in_sight(notebook, PASSED, ".onnxlab-report")

    notebook.run_all()
    page.wait_for_timeout(SETTLED)
    active = page.locator(".jp-Notebook .jp-Cell.jp-mod-active")
    assert active.get_attribute("data-windowed-list-index") == str(len(STEPS) - 1)
    expect(active).to_be_in_viewport()
    notebook.save()
    page = page.context.new_page()
    lab.open(page, "in_sight.ipynb")  # the kernel, and so every widget, is still there
    page.wait_for_timeout(SETTLED)
    assert page.evaluate("() => document.querySelector('.jp-WindowedPanel-outer').scrollTop") == 0


@pytest.mark.release  # the same script, in another notebook
def test_notebook_7_keeps_the_verdict_in_sight_too(tmp_path, browser: Browser, request):
    with jupyter_server(tmp_path / "seven", "notebook") as server:
        watched = WatchedPage.open(browser)
        notebook = server.new(watched.page, STEPS, "in_sight.ipynb")
        watched.page.set_viewport_size(WINDOW)
        for index in (0, FAILED):
            run_and_advance(notebook, index)
        require_in_sight(notebook, FAILED, ".onnxlab-report")
        screenshot_of_failure(watched.page, request, tmp_path)
        watched.page.context.close()
