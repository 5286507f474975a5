"""The one Chromium of all browser tests; a pytest plugin, which gives them their mark, too."""

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

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
_PROGRAMS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
)
_WITHOUT = (
    "no Chromium was found. Debian, Ubuntu: apt install chromium. macOS: brew install --cask chromium. "
    "Elsewhere set CHROME to the program's path."
)


def find_chromium() -> str | None:
    """Return the path of a Chromium or Chrome, from the variable CHROME or the usual places."""
    chrome = os.environ.get("CHROME")
    return next(filter(None, map(shutil.which, [chrome] if chrome else _PROGRAMS)), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in a folder called browser."""
    for item in items:
        if item.path.parent.name == "browser":
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """A headless Chromium; the tests that use it are skipped where there is none."""
    path = find_chromium()
    if path is None:
        pytest.skip(_WITHOUT)
    from playwright.sync_api import expect, sync_playwright

    from tests.support.notebook_page import PATIENCE

    expect.set_options(timeout=PATIENCE)  # by itself it gives up after five seconds
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield chromium
        chromium.close()
