"""A notebook that a browser shows: its cells are run one by one or all at once, and its graphs are found."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Dialog, Frame, Locator, Page, Request, ViewportSize, expect

PATIENCE = 120_000
"""Milliseconds to wait for anything: only what never comes takes as long, on any machine under any load."""

HIGH: ViewportSize = {"width": 1280, "height": 2600}
"""JupyterLab takes cells that are out of sight from the page: in a window this high, all of them stay."""

KERNEL = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel"
READY = "iframe.onnxlab-graph[data-status=ready]"
# Whether a cell is running or waits for its turn.
RUNNING = (
    "[...window.jupyterapp.shell.currentWidget.content.model.cells]"
    ".some((cell) => cell.type === 'code' && cell.executionState === 'running')"
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
ADD_TEXT = """([index, source]) => {
  const { sharedModel } = window.jupyterapp.shell.currentWidget.content.model;
  sharedModel.insertCell(index, { cell_type: 'markdown', metadata: {}, source });
}"""
# A graph that was laid out while its cell was hidden has labels of no size, and boxes too small for them.
SPILLED = """() => [...document.querySelectorAll('g.node-item')].filter((item) => {
  const width = (part) => item.querySelector(part)?.getBoundingClientRect().width;
  return width('text') > width('path') + 1;
}).map((item) => item.textContent)"""


@dataclass
class WatchedPage:
    """A page in a browser context of its own that keeps what no page of ours may do.

    Attributes:
        page: The page.
        requested: Every address that it requested.
        dialogs: The text of each dialog that it opened.
    """

    page: Page
    requested: set[str] = field(default_factory=set)
    dialogs: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, browser: Browser, height: int = 900) -> "WatchedPage":
        """Open an empty page."""
        context = browser.new_context(viewport={"width": 1280, "height": height})
        watched = cls(context.new_page())

        def stopped(request: Request) -> None:
            if request.failure == "csp":  # the policy of a graph's frame stops a request before it leaves
                watched.requested.discard(request.url)

        def dismiss(dialog: Dialog) -> None:
            watched.dialogs.append(dialog.message)
            dialog.dismiss()

        context.on("request", lambda request: watched.requested.add(request.url))
        context.on("requestfailed", stopped)
        watched.page.on("websocket", lambda socket: watched.requested.add(socket.url))
        watched.page.on("dialog", dismiss)
        watched.page.set_default_timeout(PATIENCE)
        return watched

    def require_nothing_foreign(self, server: str) -> None:
        """Fail if the page asked anything of an address other than the server's, or opened a dialog."""
        own = urlsplit(server).netloc
        addresses = {url: urlsplit(url) for url in self.requested}
        outside = {
            url for url, at in addresses.items() if at.scheme not in ("data", "blob") and at.netloc != own
        }
        dialogs = list(self.dialogs)
        self.requested.clear()
        self.dialogs.clear()
        assert not outside, f"the page asked outside the server: {sorted(outside)}"
        assert not dialogs


@dataclass(frozen=True)
class Notebook:
    """The notebook that a page shows. Cells are counted from 0; `run` needs them in sight."""

    page: Page

    @property
    def cells(self) -> Locator:
        """The code cells."""
        return self.page.locator(".jp-Notebook .jp-CodeCell")

    def fill(self, sources: Sequence[str]) -> "Notebook":
        """Put other cells in the place of the notebook's; the kernel goes on."""
        self.page.evaluate(FILL, list(sources))
        expect(self.cells).to_have_count(len(sources))
        return self

    def add_text(self, index: int, source: str) -> Locator:
        """Insert a cell of Markdown before a cell; return the notebook's cells of Markdown."""
        self.page.evaluate(ADD_TEXT, [index, source])
        return self.page.locator(".jp-Notebook .jp-MarkdownCell")

    def wait_for_kernel(self) -> None:
        """Wait until the kernel has nothing to do."""
        self.page.wait_for_function(f"() => {KERNEL}?.status === 'idle'", timeout=PATIENCE)

    def run(self, index: int, *, until: str | None = None) -> Locator:
        """Run a cell as a person does; return its output when it is there.

        Args:
            index: The cell, among the code cells.
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

    def run_until(self, index: int, pattern: str) -> None:
        """Run a cell that prints something again until that is as expected.

        A click reaches the kernel in its own time: JupyterLab has it handled in a thread beside the cells'.
        """
        self.run(index)

        def matches() -> bool:
            if re.fullmatch(pattern, self.output(index)):
                return True
            self.run(index)
            return False

        wait_until(self.page, matches)

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

    def run_all(self) -> None:
        """Do what Run > Run All Cells does, and wait for the end: a kernel is idle between two cells, too."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.page.wait_for_function(
            f"() => {KERNEL}?.status === 'idle' && !({RUNNING})", timeout=3 * PATIENCE
        )

    def contents(self) -> list[dict[str, Any]]:
        """Return the cells with their outputs, as they would be saved now."""
        return list(
            self.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells")
        )

    def scroll_to(self, index: int) -> Locator:
        """Make a cell (of any type) the active one, bring it into sight and return it."""
        self.page.evaluate(
            """async (index) => {
              const notebook = window.jupyterapp.shell.currentWidget.content;
              notebook.activeCellIndex = index;
              await notebook.scrollToItem(index, 'start');
            }""",
            index,
        )
        return self.page.locator(f".jp-Notebook .jp-Cell[data-windowed-list-index='{index}']")

    def graphs(self, index: int, count: int = 1) -> list[Frame]:
        """Scroll to a cell and return the frames of its graphs when they are drawn.

        A browser draws nothing in frames that are out of sight.
        """
        frames = self.scroll_to(index).locator("iframe.onnxlab-graph")
        expect(frames).to_have_count(count)
        contents = []
        for number in range(frames.count()):
            handle = frames.nth(number).element_handle()
            assert handle is not None
            handle.scroll_into_view_if_needed()
            ready = "frame => frame.dataset.status === 'ready'"
            self.page.wait_for_function(ready, arg=handle, timeout=PATIENCE)
            content = handle.content_frame()
            assert content is not None
            assert content.evaluate(SPILLED) == [], "labels that are wider than their boxes"
            contents.append(content)
        return contents


def wait_until(page: Page, condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; fail if it never does."""
    deadline = time.monotonic() + PATIENCE / 1000
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        page.wait_for_timeout(100)
