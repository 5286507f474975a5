"""Take the pictures of README.md and docs/ anew: a first graph, a check of a lab, the web site's first page.

    python3 course.py site --build SITE
    python -m tools.document_pictures --site SITE

JupyterLab is opened as `course.py` opens it for a learner, and the cells are run.
"""

import argparse
import os
import sys
import tempfile
import threading
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, ViewportSize, sync_playwright

from starter.checks import find_chromium
from starter.website import page_server
from tests.support.jupyterlab import ARGUMENTS, JupyterServer, jupyter_server

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WINDOW: ViewportSize = {"width": 1180, "height": 860}
WRONG = """def asinh_symbolic(g, x):
    one = g.op("Constant", value_t=torch.tensor(1.0))
    root = g.op("Sqrt", g.op("Add", g.op("Mul", x, x), one))
    return g.op("Log", g.op("Add", x, root))"""


def first_graph(browser: Browser, server: JupyterServer) -> None:
    """Chapter 00 down to its first graph, with the properties of a node."""
    page = browser.new_page(viewport=WINDOW)
    notebook = server.open(page, "notebooks/00_start_here.ipynb")
    page.get_by_role("tab", name="File Browser").first.click()  # folds it away
    notebook.run_all()
    index = next(
        i for i, cell in enumerate(notebook.contents()) if "torch.onnx.export" in "".join(cell["source"])
    )
    (frame,) = notebook.graphs(index)
    frame.locator(".node-item-type", has_text="Conv").first.click(force=True)
    page.mouse.move(5, 5)
    heading = page.locator(".jp-Notebook h2", has_text="A first export")
    heading.evaluate("heading => heading.scrollIntoView()")
    page.wait_for_timeout(2_000)
    page.screenshot(path=IMAGES / "first_graph.png")
    page.close()


def lab_check(browser: Browser, server: JupyterServer) -> None:
    """A wrong answer in lab 04, its counterexample, and its graph."""
    page = browser.new_page(viewport={"width": 1180, "height": 4000})
    notebook = server.open(page, "labs/lab04_asinh.ipynb")
    notebook.run(0)
    answer = """(source) => {
      const cells = [...window.jupyterapp.shell.currentWidget.content.model.cells];
      const answer = cells.find((cell) => cell.sharedModel.source.startsWith('def asinh_symbolic'));
      answer.sharedModel.setSource(source);
    }"""
    page.evaluate(answer, WRONG)
    page.get_by_role("tab", name="File Browser").first.click()
    notebook.run(5)
    notebook.run_graph(6)
    cell = notebook.cells.nth(5)
    cell.evaluate("cell => cell.scrollIntoView()")
    page.wait_for_timeout(2_000)
    box = cell.bounding_box()
    assert box is not None
    page.screenshot(
        path=IMAGES / "lab_check.png", clip={"x": box["x"], "y": box["y"], "width": 1090, "height": 790}
    )
    page.close()


def site_home(browser: Browser, site: Path) -> None:
    """The site's first page, with its graph alive."""
    with page_server(site) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"http://127.0.0.1:{listener.server_port}/en/index.html")
        page.locator(".onnxlab-still.onnxlab-replaced").first.wait_for(state="attached")
        page.wait_for_timeout(1_000)
        page.screenshot(path=IMAGES / "site.png")
        listener.shutdown()


def main(arguments: list[str]) -> int:
    """Take the pictures; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.document_pictures", description=__doc__)
    parser.add_argument("--site", type=Path, help="the built site; without it, its picture stays")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        os.environ["ONNXLAB_STATE"] = str(Path(name) / "progress.json")
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        with jupyter_server(Path(name), "workbook") as server:
            first_graph(browser, server)
            lab_check(browser, server)
        if options.site:
            site_home(browser, options.site)
        browser.close()
    for path in IMAGES.glob("*.png"):  # a third of the bytes, and no difference to the eye
        Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
