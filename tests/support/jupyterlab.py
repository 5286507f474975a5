"""Jupyter servers for the browser tests: JupyterLab as course.py starts it, a plain one, and Notebook 7."""

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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import nbformat
from playwright.sync_api import Page

from tests.support.notebook_page import HIGH, PATIENCE, Notebook

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class JupyterServer:
    """A running server.

    Attributes:
        url: Its address, ending with a slash.
        token: What lets a browser in.
        folder: Its root.
        below: Where notebooks are opened, below the address.
        shared_kernels: The kernels that outlive a test, by their ids.
    """

    url: str
    token: str
    folder: Path
    below: str = "lab/tree/"
    shared_kernels: set[str] = field(default_factory=set)

    def address(self, notebook: str) -> str:
        """Return the address of a notebook, given by its path below the root."""
        reset = "&reset" if self.below == "lab/tree/" else ""  # JupyterLab would open what was open before
        return f"{self.url}{self.below}{notebook}?token={self.token}{reset}"

    def open(self, page: Page, notebook: str) -> Notebook:
        """Open a notebook (its path below the root) in a page and wait until its kernel is ready."""
        page.goto(self.address(notebook))
        opened = Notebook(page)
        opened.wait_for_kernel()
        return opened

    def new(self, page: Page, cells: Sequence[str], name: str = "graphs.ipynb") -> Notebook:
        """Write a notebook and open it with all of its cells in sight."""
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(book, self.folder / name)
        page.set_viewport_size(HIGH)
        return self.open(page, name)

    def end_kernels(self) -> None:
        """End every kernel that is not shared: one with torch in it takes hundreds of megabytes."""
        for kernel in json.loads(self.ask("api/kernels")):
            if kernel["id"] not in self.shared_kernels:
                self.ask(f"api/kernels/{kernel['id']}", method="DELETE")

    def ask(self, path: str, method: str = "GET") -> bytes:
        """Send a request to the server's API; return the reply."""
        headers = {"Authorization": f"token {self.token}"}
        request = urllib.request.Request(self.url + path, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE / 1000) as reply:
            return bytes(reply.read())


@contextmanager
def jupyter_server(
    folder: Path,
    app: Literal["course", "workbook", "lab", "notebook"] = "course",
    base: str = "/",
    language: str = "en",
) -> Iterator[JupyterServer]:
    """Run a server in a root of its own, with nothing of the person's settings.

    Args:
        folder: An empty folder for its files.
        app: "course" is JupyterLab as course.py starts it, with copies of the course's notebooks: a run
            cannot change the committed ones. "workbook" has the learner's folder instead. "lab" is a plain
            JupyterLab, "notebook" Notebook 7.
        base: The path below which it lives, such as a hub's.
        language: Of a workbook.
    """
    root, log = folder / "root", folder / "server.log"
    root.mkdir(parents=True)
    if app == "course":
        for name in ("notebooks", "labs"):
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    commands = {
        "course": [str(ROOT / "course.py")],
        "workbook": [str(ROOT / "course.py"), f"--folder={root}", "--language", language],
        "lab": ["-m", "jupyterlab", "--allow-root"],
        "notebook": ["-m", "notebook", "--allow-root"],
    }
    port, token = free_port(), secrets.token_hex(16)
    options = [
        *("--no-browser", f"--port={port}", "--ip=127.0.0.1"),
        *([] if app == "workbook" else [f"--ServerApp.root_dir={root}"]),
        *("--ServerApp.port_retries=0", f"--ServerApp.base_url={base}"),
        f"--{'JupyterNotebookApp' if app == 'notebook' else 'LabApp'}.expose_app_in_browser=True",
    ]
    url = f"http://127.0.0.1:{port}{base}"
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [sys.executable, *commands[app], *options],
            env=os.environ | own_folders(folder) | {"ONNXLAB_ENVIRONMENT": "current", "JUPYTER_TOKEN": token},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for_server(f"{url}api?token={token}", process, log)
        yield JupyterServer(url, token, root, "notebooks/" if app == "notebook" else "lab/tree/")
    finally:
        end_server(process)


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
