"""JupyterLab, Notebook 7 and a hub's address, with a notebook whose cells are run one by one."""

import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nbformat
from playwright.sync_api import Frame, Locator, Page, expect

from tests.support.jupyterlab import (
    KERNEL,
    PATIENCE,
    OpenNotebook,
    end_server,
    free_port,
    own_folders,
    wait_for_server,
)

FORGET_RUN = """index => {
  const { widgets } = window.jupyterapp.shell.currentWidget.content;
  widgets.filter(({ model }) => model.type === 'code')[index].model.executionCount = null;
}"""
FILL = """(sources) => {
  const { sharedModel } = window.jupyterapp.shell.currentWidget.content.model;
  const untouched = { cell_type: 'code', metadata: {}, outputs: [], execution_count: null };
  const cells = sources.map((source) => ({ ...untouched, source }));
  sharedModel.insertCells(0, cells);
  sharedModel.deleteCellRange(cells.length, sharedModel.cells.length);
}"""
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
        page.set_default_timeout(PATIENCE)
        page.set_viewport_size({"width": 1280, "height": 2600})  # cells out of sight are not kept in the page
        reset = "&reset" if "/lab/" in self.url else ""  # JupyterLab would open what was open before
        page.goto(f"{self.url}{name}?token={self.token}{reset}")
        notebook = Notebook(page)
        notebook.cells.first.wait_for()
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
class Notebook(OpenNotebook):
    """The notebook that a page shows, all of it in sight, and its cells to be run one by one."""

    @property
    def cells(self) -> Locator:
        """The code cells."""
        return self.page.locator(".jp-Notebook .jp-CodeCell")

    def fill(self, sources: Sequence[str]) -> "Notebook":
        """Put other cells in the place of the notebook's; the kernel goes on."""
        self.page.evaluate(FILL, list(sources))
        expect(self.cells).to_have_count(len(sources))
        return self

    def wait_for_kernel(self) -> None:
        """Wait until the kernel has nothing to do."""
        self.page.wait_for_function(
            f"() => {KERNEL}?.status === 'idle'",
            timeout=PATIENCE,
        )

    def run(self, index: int, *, until: str | None = None) -> Locator:
        """Run a cell as a person does; return its output when it is there.

        Args:
            index: The cell, counted from 0.
            until: What to wait for in the output, as a selector; by default only for the kernel.
        """
        cell = self.cells.nth(index)
        cell.locator(".cm-content").click()
        self.page.evaluate(FORGET_RUN, index)  # the number of an earlier run would be taken for this one's
        self.page.keyboard.press("Shift+Enter")
        expect(cell.locator(".jp-InputPrompt").first).to_have_text(re.compile(r"^\s*\[\d+\]:?\s*$"))
        output = cell.locator(".jp-Cell-outputWrapper")
        if until:
            output.locator(until).first.wait_for(state="attached")
        return output

    def run_until(self, index: int, says: str) -> None:
        """Run a cell that prints something again until that is as expected.

        A click reaches the kernel in its own time: JupyterLab has it handled in a thread beside the cells'.

        Args:
            index: The cell, counted from 0.
            says: A regular expression for all that it prints.
        """
        self.run(index)

        def said() -> bool:
            if re.fullmatch(says, self.output(index)):
                return True
            self.run(index)
            return False

        wait_until(self.page, said)

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


def wait_until(page: Page, condition: Callable[[], bool]) -> None:
    """Ask again and again until a condition holds; fail if it never does."""
    until = time.monotonic() + PATIENCE / 1000
    while not condition():
        assert time.monotonic() < until, "it never came to be so"
        page.wait_for_timeout(100)


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
    name = {"lab": "LabApp", "notebook": "JupyterNotebookApp"}[app]
    options = [
        *("--no-browser", "--allow-root", f"--port={port}", "--ip=127.0.0.1"),
        *(
            f"--ServerApp.root_dir={root}",
            "--ServerApp.port_retries=0",
            f"--ServerApp.base_url={base}",
            f"--IdentityProvider.token={token}",
        ),
        f"--{name}.expose_app_in_browser=True",
    ]
    log = (folder / "server.log").open("w", encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", {"lab": "jupyterlab", "notebook": "notebook"}[app], *options],
        env=os.environ | own_folders(folder),
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        wait_for_server(f"http://127.0.0.1:{port}{base}api?token={token}", process, folder / "server.log")
        tree = {"lab": "lab/tree/", "notebook": "notebooks/"}[app]
        yield Site(f"http://127.0.0.1:{port}{base}{tree}", token, root)
    finally:
        end_server(process)
        log.close()
