"""Two learners in two browsers: they sign in to a class's hub, see a graph, and hand a lab in."""

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("jupyterhub")

from hub_room import PIN, ROOM_PASSWORD, Hub, hub
from lab import PATIENCE
from playwright.sync_api import Browser, Page, expect

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


def see_the_first_graph(page: Page) -> None:
    """The page is the first chapter; all of it is run."""
    choose(page, "Run", "Run All Cells")
    frame = page.locator("iframe.onnxlab-graph").first
    frame.wait_for(state="attached")
    handle = frame.element_handle()
    assert handle is not None
    handle.scroll_into_view_if_needed()
    page.wait_for_function("frame => frame.dataset.status === 'ready'", arg=handle)
    content = handle.content_frame()
    assert content is not None
    assert content.locator("g.node").count() >= 2


def hand_in(page: Page, room: Hub, name: str) -> None:
    choose(page, "Nbgrader", "Assignment List")
    row = page.locator("#fetched_assignments_list .list_item", has_text=LAB).first
    row.get_by_role("button", name="Submit").click()
    expect(page.locator("#submitted_assignments_list")).to_contain_text(LAB)
    inbound = room.folder / "exchange" / room.folder.name / "inbound"
    until = time.monotonic() + PATIENCE / 1000
    while not (found := list(inbound.glob(f"{name}+{LAB}+*"))):
        assert time.monotonic() < until, "nothing arrived"
        time.sleep(0.2)
    assert (found[0] / f"{LAB}.ipynb").is_file()


def test_two_learners(room, pages):
    names = ("ada", "bob")
    for page, name in zip(pages, names, strict=True):
        sign_in(page, room, name)
    see_the_first_graph(pages[0])
    pages[1].goto(f"{room.url}user/bob/lab/tree/labs/{LAB}.ipynb")
    expect(pages[1].locator(".jp-Notebook")).to_be_visible()
    for page, name in zip(pages, names, strict=True):
        hand_in(page, room, name)
    pages[1].goto(f"{room.url}user/ada/lab")
    expect(pages[1].locator("body")).to_contain_text("403")
