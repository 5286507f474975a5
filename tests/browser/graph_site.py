"""JupyterLab, Notebook 7 and a hub's address, with a notebook whose cells are run one by one."""

import os
import re
import secrets
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nbformat
from lab import KERNEL, free_port
from playwright.sync_api import Frame, Locator, Page

READY = "iframe.onnxlab-graph[data-status=ready]"


@dataclass(frozen=True)
class Site:
    """A running server.

    Attributes:
        url: Where notebooks are opened, with a slash at the end.
        token: What lets a browser in.
        folder: Its root.
    """

    url: str
    token: str
    folder: Path

    def open(self, page: Page, name: str) -> "Notebook":
        """Open a notebook that is in the root."""
        page.set_viewport_size({"width": 1280, "height": 2600})  # cells out of sight are not kept in the page
        reset = "&reset" if "/lab/" in self.url else ""  # JupyterLab would open what was open before
        page.goto(f"{self.url}{name}?token={self.token}{reset}")
        notebook = Notebook(page)
        notebook.cells.first.wait_for(timeout=60_000)
        return notebook

    def new(self, page: Page, cells: Sequence[str], name: str = "graphs.ipynb") -> "Notebook":
        """Write a notebook, open it and wait for its kernel."""
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(book, self.folder / name)
        notebook = self.open(page, name)
        notebook.wait_for_kernel()
        return notebook


@dataclass(frozen=True)
class Notebook:
    """The notebook that a page shows."""

    page: Page

    @property
    def cells(self) -> Locator:
        """The code cells."""
        return self.page.locator(".jp-Notebook .jp-CodeCell")

    def wait_for_kernel(self) -> None:
        """Wait until the kernel has nothing to do."""
        self.page.wait_for_function(
            f"() => {KERNEL}?.status === 'idle'",
            timeout=120_000,
        )

    def run(self, index: int, *, until: str | None = None) -> Locator:
        """Run a cell as a person does; return its output when it is there.

        Args:
            index: The cell, counted from 0.
            until: What to wait for in the output, as a selector; by default only for the kernel.
        """
        cell = self.cells.nth(index)
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")
        prompt = cell.locator(".jp-InputPrompt").first
        for _ in range(600):
            if re.fullmatch(r"\s*\[\d+\]:?\s*", prompt.inner_text()):
                break
            self.page.wait_for_timeout(100)
        output = cell.locator(".jp-Cell-outputWrapper")
        if until:
            output.locator(until).first.wait_for(state="attached", timeout=60_000)
        return output

    def run_graph(self, index: int) -> list[Frame]:
        """Run a cell that shows a graph; return its frames when they are drawn."""
        output = self.run(index, until=READY)
        frames = output.locator("iframe.onnxlab-graph")
        for number in range(frames.count()):
            handle = frames.nth(number).element_handle()
            assert handle is not None
            self.page.wait_for_function("frame => frame.dataset.status === 'ready'", arg=handle)
        contents = [handle.content_frame() for handle in frames.element_handles()]
        return [content for content in contents if content]

    def text(self, index: int) -> str:
        """Run a cell and return what it prints."""
        return self.run(index).inner_text().strip().partition("]:")[2].strip() or self.output(index)

    def output(self, index: int) -> str:
        """What the output of a cell says now."""
        return self.cells.nth(index).locator(".jp-OutputArea-output").last.inner_text().strip()

    def save(self) -> None:
        """Save the notebook."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")

    def restart(self) -> None:
        """Restart the kernel without asking."""
        self.page.evaluate(f"() => {KERNEL}.restart()")
        self.wait_for_kernel()


@contextmanager
def site(folder: Path, app: str = "lab", base: str = "/") -> Iterator[Site]:
    """Run a server below an address such as a hub's.

    Args:
        folder: An empty folder for its files.
        app: "lab" or "notebook".
        base: The path below which it lives.
    """
    root = folder / "root"
    root.mkdir(parents=True)
    port, token = free_port(), secrets.token_hex(16)
    places = [
        f"JUPYTER{name}" for name in ("_CONFIG_DIR", "_DATA_DIR", "LAB_SETTINGS_DIR", "LAB_WORKSPACES_DIR")
    ]
    own = {name: str(folder / name.lower()) for name in (*places, "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    name = {"lab": "LabApp", "notebook": "JupyterNotebookApp"}[app]
    options = [
        *("--no-browser", "--allow-root", f"--port={port}", "--ip=127.0.0.1"),
        *(
            f"--ServerApp.root_dir={root}",
            f"--ServerApp.base_url={base}",
            f"--IdentityProvider.token={token}",
        ),
        f"--{name}.expose_app_in_browser=True",
    ]
    log = (folder / "server.log").open("w", encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", {"lab": "jupyterlab", "notebook": "notebook"}[app], *options],
        env=os.environ | own,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        for _ in range(600):
            assert process.poll() is None, (folder / "server.log").read_text()
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{base}api?token={token}", timeout=1)
                break
            except OSError:
                time.sleep(0.1)
        tree = {"lab": "lab/tree/", "notebook": "notebooks/"}[app]
        yield Site(f"http://127.0.0.1:{port}{base}{tree}", token, root)
    finally:
        process.terminate()
        process.wait(30)
        log.close()
