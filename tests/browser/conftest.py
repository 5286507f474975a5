"""Fixtures of the browser tests: one JupyterLab and one Chromium for all, one fresh page for each.

A test that uses `page` fails if the page asks anything of an address other than the server's own, and leaves
a screenshot if it fails.
"""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from starter.checks import WITHOUT_BROWSER, find_chromium
from tests.support.jupyterlab import ARGUMENTS, PATIENCE, Lab, end_lab, start_lab

expect.set_options(timeout=PATIENCE)  # by itself it gives up after five seconds
OUTCOME = pytest.StashKey[pytest.TestReport]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is a browser test, and all of it shares one server and one browser."""
    for item in items:
        if item.path.parent.name == "browser":
            item.add_marker(pytest.mark.browser)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Keep the outcome of a test for its fixtures."""
    report = yield
    if report.when == "call":
        item.stash[OUTCOME] = report
    return report


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Lab]:
    """A JupyterLab that course.py started; skipped with `browser`, so that none is started in vain."""
    lab, process = start_lab(tmp_path_factory.mktemp("lab"))
    yield lab
    end_lab(process)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    path = find_chromium()
    if path is None:
        pytest.skip(WITHOUT_BROWSER)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser, lab: Lab, request: pytest.FixtureRequest, tmp_path) -> Iterator[Page]:
    """A fresh page. Requests that leave the server's own address fail the test."""
    own = urlsplit(lab.url).netloc
    asked: set[str] = set()
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.on("request", lambda request: asked.add(request.url))
    page = context.new_page()
    page.on("websocket", lambda socket: asked.add(socket.url))
    page.set_default_timeout(PATIENCE)
    yield page
    outcome = request.node.stash.get(OUTCOME, None)
    if outcome is not None and outcome.failed:
        page.screenshot(path=tmp_path / "failed.png")
        print(f"screenshot: {tmp_path / 'failed.png'}")
    context.close()
    lab.end_kernels()
    outside = {
        url for url in asked if urlsplit(url).scheme not in ("data", "blob") and urlsplit(url).netloc != own
    }
    assert not outside, f"the page asked outside the server: {sorted(outside)}"
