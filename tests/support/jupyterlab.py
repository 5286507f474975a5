"""What the browser tests drive: a JupyterLab started by course.py, and a notebook opened in it."""

import json
import os
import random
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Dialog, Frame, Page, Request, expect

ROOT = Path(__file__).parents[2]
# Chromium in a container, and without the services it would otherwise look for.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

PATIENCE = 300_000
"""Milliseconds to wait for anything: only what never comes takes as long, on any machine under any load."""

KERNEL = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel"


@dataclass
class WatchedPage:
    """A page of its own browser context, and what it did that no page of ours may do.

    Attributes:
        page: The page.
        asked: Every address that it asked for.
        dialogs: The text of each dialog that it opened.
    """

    page: Page
    asked: set[str] = field(default_factory=set)
    dialogs: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, browser: Browser, height: int = 900) -> "WatchedPage":
        """Open an empty page."""
        context = browser.new_context(viewport={"width": 1280, "height": height})
        watched = cls(context.new_page())

        def stopped(request: Request) -> None:
            if request.failure == "csp":  # the policy of a graph's frame stops a request before it leaves
                watched.asked.discard(request.url)

        def dismiss(dialog: Dialog) -> None:
            watched.dialogs.append(dialog.message)
            dialog.dismiss()

        context.on("request", lambda request: watched.asked.add(request.url))
        context.on("requestfailed", stopped)
        watched.page.on("websocket", lambda socket: watched.asked.add(socket.url))
        watched.page.on("dialog", dismiss)
        watched.page.set_default_timeout(PATIENCE)
        return watched

    def require_nothing_foreign(self, server: str) -> None:
        """Fail if the page asked anything of an address other than the server's, or opened a dialog."""
        own = urlsplit(server).netloc
        addresses = {url: urlsplit(url) for url in self.asked}
        outside = {
            url for url, at in addresses.items() if at.scheme not in ("data", "blob") and at.netloc != own
        }
        dialogs = list(self.dialogs)
        self.asked.clear()
        self.dialogs.clear()
        assert not outside, f"the page asked outside the server: {sorted(outside)}"
        assert not dialogs


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab.

    Attributes:
        url: Its address, ending with a slash.
        token: What lets a browser in.
        folder: Its root: a copy of the course's notebooks, so that a run cannot change the committed ones.
        kept: The kernels that outlive a test.
    """

    url: str
    token: str
    folder: Path
    kept: set[str] = field(default_factory=set)

    def add(self, path: Path) -> str:
        """Copy a notebook into the root; return its path there."""
        shutil.copy(path, self.folder / path.name)
        return path.name

    def end_kernels(self) -> None:
        """End every kernel that is not kept: one with torch in it takes hundreds of megabytes."""
        for kernel in json.loads(self.ask("api/kernels")):
            if kernel["id"] not in self.kept:
                self.ask(f"api/kernels/{kernel['id']}", method="DELETE")

    def ask(self, path: str, method: str = "GET") -> bytes:
        """Ask the server itself something."""
        headers = {"Authorization": f"token {self.token}"}
        request = urllib.request.Request(self.url + path, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE / 1000) as reply:
            return bytes(reply.read())

    def open(self, page: Page, notebook: str) -> "OpenNotebook":
        """Open a notebook (its path below the root) in a page and wait until its kernel is ready."""
        page.goto(f"{self.url}lab/tree/{notebook}?token={self.token}&reset")
        page.wait_for_function(
            f"() => {KERNEL}?.status === 'idle'",
            timeout=PATIENCE,
        )
        return OpenNotebook(page)


# A graph that was laid out while its cell was hidden has labels of no size, and boxes too small for them.
SPILLED = """() => [...document.querySelectorAll('g.node-item')].filter((item) => {
  const width = (part) => item.querySelector(part)?.getBoundingClientRect().width;
  return width('text') > width('path') + 1;
}).map((item) => item.textContent)"""


# Whether a cell is running or waits for its turn.
RUNNING = (
    "[...window.jupyterapp.shell.currentWidget.content.model.cells]"
    ".some((cell) => cell.type === 'code' && cell.executionState === 'running')"
)


@dataclass(frozen=True)
class OpenNotebook:
    """The notebook that a page shows."""

    page: Page

    def run_all(self) -> None:
        """Do what Run > Run All Cells does, and wait for the end: a kernel is idle between two cells, too."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.page.wait_for_function(f"() => {KERNEL}?.status === 'idle' && !({RUNNING})", timeout=PATIENCE)

    def contents(self) -> list[dict[str, Any]]:
        """Return the cells with their outputs, as they would be saved now."""
        found = self.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells")
        return list(found)

    def graphs(self, cell: int, count: int = 1) -> list[Frame]:
        """Scroll to a cell and return the frames of its graphs when they are drawn.

        A browser draws nothing in frames that are out of sight.

        Args:
            cell: The cell, counted from 0.
            count: How many graphs it has.
        """
        self.page.evaluate(
            """async (index) => {
              const notebook = window.jupyterapp.shell.currentWidget.content;
              notebook.activeCellIndex = index;
              await notebook.scrollToItem(index, 'start');
            }""",
            cell,
        )
        inside = f".jp-Notebook .jp-Cell[data-windowed-list-index='{cell}']"
        frames = self.page.locator(f"{inside} iframe.onnxlab-graph")
        expect(frames).to_have_count(count)
        drawn = []
        for number in range(frames.count()):
            handle = frames.nth(number).element_handle()
            assert handle is not None
            handle.scroll_into_view_if_needed()
            ready = "frame => frame.dataset.status === 'ready'"
            self.page.wait_for_function(ready, arg=handle, timeout=PATIENCE)
            content = handle.content_frame()
            assert content is not None
            assert content.evaluate(SPILLED) == [], "labels that are wider than their boxes"
            drawn.append(content)
        return drawn


def free_port() -> int:
    """Return a port that nobody uses now, and that no system gives away to somebody else meanwhile."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)  # below what systems choose from by themselves
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def wait_for_server(url: str, process: "subprocess.Popen[Any]", log: Path) -> None:
    """Wait until a server answers; fail with what it wrote if it ends, or does not answer in minutes."""
    until = time.monotonic() + 2 * PATIENCE / 1000
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text("utf-8")
        try:
            with urllib.request.urlopen(url, timeout=10):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(log.read_text("utf-8"))


def own_folders(folder: Path) -> dict[str, str]:
    """Return variables that keep Jupyter away from a person's settings: it gets folders of its own."""
    config = ("JUPYTER_CONFIG_DIR", "JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR", "IPYTHONDIR")
    names = (*config, "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    return {name: str(folder / name.lower()) for name in names}


def start_lab(folder: Path) -> tuple[Lab, "subprocess.Popen[str]"]:
    """Start JupyterLab with course.py in a root of its own, with nothing of the person's settings."""
    root = folder / "root"
    for name in ("notebooks", "labs"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    port, token = free_port(), secrets.token_hex(16)
    options = ["--no-browser", f"--port={port}", "--ip=127.0.0.1", f"--ServerApp.root_dir={root}"]
    options.append("--LabApp.expose_app_in_browser=True")
    log = (folder / "jupyterlab.log").open("w", encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "course.py"), *options],
        env=os.environ | own_folders(folder) | {"ONNXLAB_ENVIRONMENT": "current", "JUPYTER_TOKEN": token},
        stdout=log,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lab = Lab(f"http://127.0.0.1:{port}/", token, root)
    try:
        wait_for_server(f"{lab.url}api?token={token}", process, folder / "jupyterlab.log")
    except AssertionError:
        process.kill()
        raise
    return lab, process


def end_server(process: "subprocess.Popen[Any]") -> None:
    """End a server in order; if that does not end it, all the same: its kernels follow it.

    Jupyter Server sometimes hangs when it is ended while a kernel is still starting.
    """
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(PATIENCE / 1000)


def end_lab(process: "subprocess.Popen[str]") -> None:
    """End course.py, which ends the server in order and then the kernels."""
    process.terminate()
    process.wait(PATIENCE / 1000)
