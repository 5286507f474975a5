"""Two learners in two browsers: they sign in to a class's hub, see a graph, check a lab, read feedback."""

import contextlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("jupyterhub")

from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import TimeoutError as WaitedInVain

from tests.support.hub import PIN, ROOM_PASSWORD, Hub, hub
from tests.support.jupyterlab import PATIENCE

LAB = "lab03_trace_breakers"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="a class is served on Linux"),
]


@pytest.fixture(scope="module")
def room() -> Iterator[Hub]:
    """A new class, served."""
    with tempfile.TemporaryDirectory(prefix="onnxlab-test-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        with hub(Path(name, "class")) as running:
            yield running


@pytest.fixture
def pages(browser: Browser) -> Iterator[list[Page]]:
    """Two browsers that know nothing of each other."""
    contexts = [browser.new_context(viewport={"width": 1280, "height": 900}) for _ in range(2)]
    pages = [context.new_page() for context in contexts]
    for page in pages:
        page.set_default_timeout(PATIENCE)
    yield pages
    for context in contexts:
        context.close()


def sign_in(page: Page, room: Hub, name: str) -> None:
    page.goto(room.url)
    page.get_by_label("Name:").fill(name)
    page.get_by_label("Room password:").fill(ROOM_PASSWORD)
    page.get_by_label("Your PIN").fill(PIN)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"**/user/{name}/lab/**")
    expect(page.locator(".jp-Notebook")).to_be_visible()


def choose(page: Page, menu: str, item: str) -> None:
    page.locator(".lm-MenuBar-item", has_text=menu).first.click()
    page.locator(".lm-Menu-item", has_text=item).first.click()


def run_all_cells(page: Page) -> None:
    """Run the notebook in front; JupyterLab may ignore it right after the start: ask again."""
    notebook = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    expect(notebook.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")).to_be_attached()
    begun = notebook.locator(".jp-InputPrompt", has_text=re.compile(r"\[(\*|\d+)\]")).first
    for _ in range(5):
        choose(page, "Run", "Run All Cells")
        with contextlib.suppress(WaitedInVain):
            begun.wait_for(state="attached", timeout=20_000)
            return
    raise AssertionError("Run All Cells was asked for five times, and no cell began.")


def see_the_first_graph(page: Page) -> None:
    """The page is the first chapter; all of it is run."""
    run_all_cells(page)
    frame = page.locator("iframe.onnxlab-graph").first
    frame.wait_for(state="attached")
    handle = frame.element_handle()
    assert handle is not None
    handle.scroll_into_view_if_needed()
    page.wait_for_function("frame => frame.dataset.status === 'ready'", arg=handle)
    content = handle.content_frame()
    assert content is not None
    assert content.locator("g.node").count() >= 2


def check_a_lab(page: Page, room: Hub, name: str) -> None:
    """Open a lab, run it, and see what the checks say of answers that are still missing."""
    page.goto(f"{room.url}user/{name}/lab/tree/labs/{LAB}.ipynb")
    # Not the chapter, which JupyterLab opens again beside it.
    expect(page.locator("#jp-main-dock-panel .lm-mod-current", has_text=f"{LAB}.ipynb")).to_be_visible()
    lab = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    expect(lab.locator("h1", has_text="Trace breakers")).to_be_visible()
    run_all_cells(page)
    expect(lab.locator(".jp-OutputArea", has_text="not attempted").first).to_be_visible()
    page.keyboard.press("Control+s")


def onnxlab(*arguments: str) -> None:
    """Run a command of the package, as who serves does beside the hub."""
    done = subprocess.run(
        [sys.executable, "-m", "onnxlab.cli", *arguments], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_two_learners(room, pages, tmp_path):
    names = ("ada", "bob")
    for page, name in zip(pages, names, strict=True):
        sign_in(page, room, name)
    see_the_first_graph(pages[0])
    check_a_lab(pages[1], room, "bob")
    taken, results = tmp_path / "taken", tmp_path / "results"
    onnxlab("class", "take", str(room.folder), str(taken))
    for lab in taken.glob("*/*.ipynb"):
        if lab.stem != LAB:
            lab.unlink()
    onnxlab("grade", str(taken), "--out", str(results))
    onnxlab("class", "feedback", str(room.folder), str(results))
    pages[1].goto(f"{room.url}user/bob/lab/tree/feedback/results.html")
    frame = pages[1].frame_locator(".jp-HTMLViewer iframe")
    expect(frame.locator("body")).to_contain_text("not attempted")
    pages[1].screenshot(path=tmp_path / "feedback.png")
    pages[1].goto(f"{room.url}user/ada/lab")
    expect(pages[1].locator("body")).to_contain_text("403")
