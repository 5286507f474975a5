"""Fixtures of the browser tests: one JupyterLab for all.

To load JupyterLab takes a processor eight seconds: a test has a `page` of its own where it opens a notebook
or needs a fresh one, and otherwise fills the cells of `scratch`. With both, a test fails if the page asks
anything of an address other than the server's own or opens a dialog, and leaves a screenshot if it fails.
"""

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, Page

from onnxlab.course.fresh import METADATA
from tests.support.jupyterlab import JupyterServer, jupyter_server
from tests.support.notebook_page import HIGH, KERNEL, Notebook, WatchedPage

OUTCOME = pytest.StashKey[pytest.TestReport]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Keep the outcome of a test for its fixtures."""
    report = yield
    if report.when == "call":
        item.stash[OUTCOME] = report
    return report


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[JupyterServer]:
    """A JupyterLab that course.py started; skipped with `browser`, so that none is started in vain."""
    with jupyter_server(tmp_path_factory.mktemp("lab")) as server:
        yield server


@pytest.fixture(scope="session")
def workbook(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[JupyterServer]:
    """A JupyterLab on the folder that course.py makes, which is all that a learner has."""
    with jupyter_server(tmp_path_factory.mktemp("workbook"), "workbook") as server:
        yield server


@pytest.fixture
def page(
    browser: Browser, lab: JupyterServer, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Page]:
    """A fresh page."""
    watched = WatchedPage.open(browser)
    yield watched.page
    screenshot_of_failure(watched.page, request, tmp_path)
    watched.page.context.close()
    lab.end_kernels()
    watched.require_nothing_foreign(lab.url)


@pytest.fixture(scope="session")
def scratch_page(browser: Browser, lab: JupyterServer) -> Iterator[WatchedPage]:
    """The page of `scratch`."""
    watched = WatchedPage.open(browser)
    nbformat.write(nbformat.v4.new_notebook(metadata=METADATA), lab.folder / "scratch.ipynb")
    lab.open(watched.page, "scratch.ipynb")
    lab.shared_kernels.add(watched.page.evaluate(f"() => {KERNEL}.id"))
    yield watched
    watched.page.context.close()


@pytest.fixture
def scratch(
    scratch_page: WatchedPage, lab: JupyterServer, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Notebook]:
    """One notebook for all tests that need no page of their own; each fills in its cells."""
    scratch_page.page.set_viewport_size(HIGH)
    yield Notebook(scratch_page.page)
    screenshot_of_failure(scratch_page.page, request, tmp_path)
    for tab in scratch_page.page.context.pages:
        if tab is not scratch_page.page:  # left in front, it would keep this page from filling the screen
            tab.close()
    scratch_page.require_nothing_foreign(lab.url)


def screenshot_of_failure(page: Page, request: pytest.FixtureRequest, folder: Path) -> None:
    """Leave a picture of the page if the test failed."""
    outcome = request.node.stash.get(OUTCOME, None)
    if outcome is not None and outcome.failed:
        page.screenshot(path=folder / "failed.png")
        print(f"screenshot: {folder / 'failed.png'}")
