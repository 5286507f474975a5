"""Take the pictures of README.md and docs/: a graph, a check, the panel, a patient, the doctor, the site.

    python3 course.py site --build SITE
    python -m tools.document_pictures --site SITE
    python -m tools.document_pictures --only doctor_terminal patient
    python -m tools.document_pictures --language zh

JupyterLab is opened as `course.py` opens it for a learner, and the cells are run.
"""

import argparse
import html
import os
import pty
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from starter.website import page_server
from tests.support.chromium import ARGUMENTS, find_chromium
from tests.support.jupyterlab import JupyterServer, jupyter_server
from tests.support.notebook_page import PATIENCE, Notebook

IMAGES = Path(__file__).parents[1] / "docs" / "images"
CHINESE = ("first_graph", "lab_check")
"""The pictures that the Chinese documents have, too: in docs/images/zh, beside the site's."""
WINDOW: ViewportSize = {"width": 1180, "height": 860}
FILES = ".jp-SideBar.jp-mod-left [data-id=filebrowser]"
WRONG = """def asinh_symbolic(g, x):
    one = g.op("Constant", value_t=torch.tensor(1.0))
    root = g.op("Sqrt", g.op("Add", g.op("Mul", x, x), one))
    return g.op("Log", g.op("Add", x, root))"""


def first_graph(browser: Browser, server: JupyterServer, edition: str) -> None:
    """Chapter 00 down to its first graph, with the properties of a node."""
    page = browser.new_page(viewport=WINDOW)
    notebook = server.open(page, f"notebooks/{edition}00_start_here.ipynb")
    page.locator(FILES).click()  # folds it away
    notebook.run_all()
    index = next(
        i for i, cell in enumerate(notebook.contents()) if "torch.onnx.export" in "".join(cell["source"])
    )
    (frame,) = notebook.graphs(index)
    frame.locator(".node-item-type", has_text="Conv").first.click(force=True)
    page.mouse.move(5, 5)
    heading = page.locator(".jp-Notebook h2", has_text=re.compile(r"^4\. "))
    heading.evaluate("heading => heading.scrollIntoView()")
    page.wait_for_timeout(2_000)
    page.screenshot(path=IMAGES / edition / "first_graph.png")
    page.close()


def answer_wrongly(page: Page, server: JupyterServer, edition: str) -> tuple[Notebook, int]:
    """Open lab 04 and write a wrong answer; return the notebook, and the check's place among the codes."""
    notebook = server.open(page, f"labs/{edition}lab04_asinh.ipynb")
    answer = """(source) => {
      const cells = [...window.jupyterapp.shell.currentWidget.content.model.cells];
      const answer = cells.find((cell) => cell.sharedModel.source.startsWith('def asinh_symbolic'));
      answer.sharedModel.setSource(source);
    }"""
    page.evaluate(answer, WRONG)
    codes = ["".join(cell["source"]) for cell in notebook.contents() if cell["cell_type"] == "code"]
    index = codes.index('check("asinh-symbolic", asinh_symbolic)')
    notebook.run(0)
    notebook.run(index - 1)
    return notebook, index


def course_panel(browser: Browser, server: JupyterServer, edition: str) -> None:
    """The course at the left of a lab that was begun, with a hint."""
    page = browser.new_page(viewport=WINDOW)
    notebook, index = answer_wrongly(page, server, edition)
    notebook.run(index)
    page.locator(".jp-SideBar [data-id=onnxlab-course]").click()
    page.locator(".onnxlab-course [data-key=hint]").click()
    page.locator(".onnxlab-course [aria-live] p").first.wait_for()
    page.mouse.move(WINDOW["width"] / 2, 5)
    page.wait_for_timeout(2_000)
    page.screenshot(path=IMAGES / edition / "course_panel.png")
    page.close()


def lab_check(browser: Browser, server: JupyterServer, edition: str) -> None:
    """A wrong answer in lab 04, its counterexample, and its graph."""
    page = browser.new_page(viewport={"width": 1180, "height": 4000})
    notebook, index = answer_wrongly(page, server, edition)
    page.locator(FILES).click()
    notebook.run_graph(index)
    cell = notebook.cells.nth(index)
    cell.evaluate("cell => cell.scrollIntoView()")
    page.wait_for_timeout(2_000)
    box = cell.bounding_box()
    assert box is not None
    page.screenshot(
        path=IMAGES / edition / "lab_check.png",
        clip={"x": box["x"], "y": box["y"], "width": 1090, "height": 790},
    )
    page.close()


PATIENT = (
    """import inspect
import torch
from onnxlab import patient, quiet_exporters

quiet_exporters()
card = patient("index-put")
print(card)
print(inspect.getsource(type(card.module)))""",
    """class Attempt(torch.nn.Module):  # a first try; replace it with a repair
    def forward(self, table, index, values):
        return table.index_add(0, index, values)


card.check("translate", Attempt())""",
    "card.hint()",
)
ILL = """import warnings
import torch
from onnxlab import doctor

class Head(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x, 0.1).reshape(int(x.shape[0]), -1)

with warnings.catch_warnings(action="ignore"):  # they say what the doctor finds
    torch.onnx.export(
        Head().eval(), (torch.ones(4, 6),), "head.onnx", dynamo=False, verbose=False,
        input_names=["x"], dynamic_axes={"x": {0: "rows"}},
    )"""


def cells_with_outputs(browser: Browser, server: JupyterServer, cells: tuple[str, ...], path: Path) -> None:
    """A notebook of some cells, after their run."""
    page = browser.new_page()
    notebook = server.new(page, cells, f"{path.stem}.ipynb")
    page.set_viewport_size({"width": 1180, "height": 1600})
    page.locator(FILES).click()
    for index in range(len(cells)):
        notebook.run(index)
    page.mouse.move(5, 5)
    page.wait_for_timeout(2_000)
    boxes = [notebook.cells.nth(index).bounding_box() for index in (0, len(cells) - 1)]
    assert boxes[0] is not None
    assert boxes[1] is not None
    top, bottom = boxes[0]["y"], boxes[1]["y"] + boxes[1]["height"]
    clip = {"x": boxes[0]["x"], "y": top, "width": 1090, "height": bottom - top}
    page.screenshot(path=path, clip=clip)  # type: ignore[arg-type]  # a TypedDict
    page.close()


def patient(browser: Browser, server: JupyterServer, edition: str) -> None:
    """A patient of the clinic, a first try that does not repair it, and a hint."""
    cells_with_outputs(browser, server, PATIENT, IMAGES / edition / "patient.png")


def doctor_notebook(browser: Browser, server: JupyterServer, edition: str) -> None:
    """What the doctor says of a file, in a notebook."""
    cells_with_outputs(
        browser, server, (ILL, 'doctor("head.onnx")'), IMAGES / edition / "doctor_notebook.png"
    )


def doctor_terminal(browser: Browser, server: JupyterServer, edition: str) -> None:
    """What it says of the same file in a terminal, with the terminal's colours."""
    subprocess.run([sys.executable, "-c", ILL], cwd=server.folder, check=True, capture_output=True)
    reader, writer = pty.openpty()  # colours are for terminals only
    command = [sys.executable, "-m", "onnxlab.cli", "doctor", "head.onnx"]
    subprocess.run(
        command, cwd=server.folder, stdout=writer, stderr=subprocess.DEVNULL
    )  # 1: it found something
    os.close(writer)
    shown = html.escape(os.read(reader, 1 << 16).decode())
    os.close(reader)
    shown = re.sub(r"\x1b\]8;;.*?\x1b\\", "", shown)  # links
    colours = {"31": "#f66", "33": "#fc6", "36": "#6cc"}
    for code, colour in colours.items():
        shown = re.sub(rf"\x1b\[{code}m(.*?)\x1b\[0m", rf"<b style='color: {colour}'>\1</b>", shown)
    page = browser.new_page(viewport={"width": 1000, "height": 400})
    style = "margin: 0; padding: 16px; background: #1e1e1e; color: #ddd; font: 14px monospace; "
    style += "white-space: pre-wrap"
    shown = f"$ onnxlab doctor head.onnx\n{shown}"
    page.set_content(f"<body style='margin: 0'><pre style='{style}'>{shown}</pre></body>")
    page.locator("pre").screenshot(path=IMAGES / edition / "doctor_terminal.png")
    page.close()


PICTURES = {
    take.__name__: take
    for take in (first_graph, lab_check, course_panel, patient, doctor_notebook, doctor_terminal)
}


def site_pages(browser: Browser, site: Path, edition: str) -> list[str]:
    """The site's first page, with its graph alive, and the page that opens a model, with one."""
    with page_server(site) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        home = f"http://127.0.0.1:{listener.server_port}/{edition or 'en/'}"
        page.goto(f"{home}index.html")
        page.locator(".onnxlab-still.onnxlab-replaced").first.wait_for(state="attached")
        page.wait_for_timeout(1_000)
        page.screenshot(path=IMAGES / edition / "site.png")
        page.set_viewport_size({"width": 1280, "height": 2600})
        page.goto(f"{home}open.html")
        page.locator("#onnxlab-file").set_input_files(site / "models" / "factor.onnx")
        page.locator(".onnxlab-run button").click()
        page.locator(".onnxlab-run[data-ran]").wait_for()
        page.locator(".onnxlab-open").screenshot(path=IMAGES / edition / "open_model.png")
        listener.shutdown()
    return ["site", "open_model"]


def main(arguments: list[str]) -> int:
    """Take the pictures; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.document_pictures", description=__doc__)
    parser.add_argument("--site", type=Path, help="the built site; without it, its pictures stay")
    parser.add_argument("--only", nargs="+", choices=PICTURES, default=list(PICTURES), metavar="NAME")
    parser.add_argument("--language", choices=("en", "zh"), default="en")
    options = parser.parse_args(arguments)
    names = [name for name in options.only if options.language == "en" or name in CHINESE]
    edition = "" if options.language == "en" else f"{options.language}/"  # a folder's name
    (IMAGES / edition).mkdir(exist_ok=True)
    expect.set_options(timeout=PATIENCE)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        os.environ["ONNXLAB_STATE"] = str(Path(folder) / "progress.json")
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        with jupyter_server(Path(folder), "workbook", language=options.language) as server:
            for name in names:
                PICTURES[name](browser, server, edition)
        if options.site:
            names += site_pages(browser, options.site, edition)
        browser.close()
    for name in names:  # a third of the bytes, and no difference to the eye
        path = IMAGES / edition / f"{name}.png"
        Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
