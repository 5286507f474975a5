"""Take pictures of every chapter and lab as its readers see it, and put them on one sheet.

Each page is opened in JupyterLab (light and wide, dark and narrow), in Notebook 7, as a saved page on a
machine without fonts for Chinese, and on the web site (light, dark, a phone). A picture shows what is around
the first graph, plot or table. Nothing is run: `tests/browser/test_course.py --all` does that.

    python3 course.py site --build SITE
    python -m measurements.screenshots FOLDER --site SITE [--only 02 lab05] [--sheet FOLDER/sheet.webp]

One file for each picture goes into FOLDER, in the size of the window. It takes about 20 seconds a notebook.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from starter.website import page_server
from tests.support.chromium import ARGUMENTS, find_chromium
from tests.support.jupyterlab import jupyter_server

ROOT = Path(__file__).parents[1]
THUMBNAIL = (300, 225)
LABEL = 22  # pixels of a line above each row
# What a reader comes for; in a notebook without any of it, the top is shown.
CONTENT = ", ".join(
    (
        *(".onnxlab-still", ".onnxlab-live", "iframe.onnxlab-graph", ".onnxlab-report"),
        *(".jp-OutputArea img", ".output img", "table"),
    )
)
NO_CHINESE = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>/usr/share/fonts/truetype/dejavu</dir><cachedir>{cache}</cachedir></fontconfig>
"""


@dataclass(frozen=True)
class View:
    """One way to read a notebook.

    Attributes:
        name: What stands above its column.
        width: Of the window, in pixels.
        dark: Whether it is asked for a dark page.
        address: Where a notebook's page is, from its path without the ending, as `labs/lab04_asinh`.
    """

    name: str
    width: int
    dark: bool
    address: Callable[[str], str]


def picture(context: BrowserContext, view: View, address: str, path: Path) -> None:
    """Open a page, bring the first content into sight and keep what the window shows."""
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(address)
    if "token=" in address:
        page.wait_for_function("() => document.querySelectorAll('.jp-Cell').length > 3")
        if view.dark:
            set_dark(page)
        page.wait_for_timeout(1500)  # outputs come after the cells
    page.wait_for_load_state()
    page.evaluate(
        """(content) => [...document.querySelectorAll(content)].find((one) => one.checkVisibility())
          ?.scrollIntoView({ block: 'center' })""",
        CONTENT,
    )
    page.wait_for_timeout(1500)  # a live graph draws itself
    page.screenshot(path=path)
    page.close()


def set_dark(page: Page) -> None:
    """Choose JupyterLab's dark theme."""
    page.evaluate(
        "() => window.jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })"
    )
    page.wait_for_function("() => document.body.dataset.jpThemeLight === 'false'")


@contextlib.contextmanager
def jupyterlab() -> Iterator[Callable[[str], str]]:
    """Start JupyterLab as `course.py` does; give the function from a notebook's name to its address."""
    with tempfile.TemporaryDirectory() as name, jupyter_server(Path(name)) as server:
        yield lambda page: server.address(f"{page}.ipynb")


@contextlib.contextmanager
def notebook_7() -> Iterator[Callable[[str], str]]:
    """Start Notebook 7 with the course's notebooks; give the function from a name to its address."""
    with tempfile.TemporaryDirectory() as name, jupyter_server(Path(name), "notebook") as server:
        for folder in ("notebooks", "labs"):
            shutil.copytree(ROOT / folder, server.folder / folder)
        yield lambda page: server.address(f"{page}.ipynb")


@contextlib.contextmanager
def pages_of(folder: Path) -> Iterator[Callable[[str], str]]:
    """Serve the built web site on this machine; give the function from a notebook's name to its address."""
    with page_server(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield lambda page: f"http://127.0.0.1:{server.server_port}/en/{page}.html"
        server.shutdown()


def saved(notebooks: list[str], folder: Path) -> Callable[[str], str]:
    """Make nbconvert's page of each notebook; return the function from a name to its address."""
    files = [str(ROOT / f"{name}.ipynb") for name in notebooks]
    command = [sys.executable, "-m", "nbconvert", "--to", "html", f"--output-dir={folder}", *files]
    subprocess.run(command, check=True, capture_output=True)
    return lambda page: (folder / f"{Path(page).name}.html").as_uri()


def take(browser: Browser, views: list[View], notebooks: list[str], out: Path) -> None:
    """Take the pictures of some views, and say how far it is."""
    for view in views:
        scheme = "dark" if view.dark else "light"
        size = {"width": view.width, "height": view.width * 3 // 4 if view.width > 500 else 844}
        context = browser.new_context(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]  # a TypedDict
        for name in notebooks:
            picture(context, view, view.address(name), out / f"{Path(name).name}, {view.name}.png")
            print(f"{name}, {view.name}", file=sys.stderr)
        context.close()


def sheet(views: list[View], notebooks: list[str], out: Path) -> Image.Image:
    """Return all pictures on one: a row for each notebook, a column for each view."""
    width, height = THUMBNAIL
    contact_sheet = Image.new("RGB", (width * len(views), (height + LABEL) * len(notebooks) + LABEL), "white")
    draw = ImageDraw.Draw(contact_sheet)
    for column, view in enumerate(views):
        draw.text((column * width + 4, 4), view.name, "black")
    for row, name in enumerate(notebooks):
        top = LABEL + row * (height + LABEL)
        draw.text((4, top + 4), name, "black")
        for column, view in enumerate(views):
            with Image.open(out / f"{Path(name).name}, {view.name}.png") as screenshot:
                small = screenshot.convert("RGB")
            small.thumbnail((width - 4, height))
            contact_sheet.paste(small, (column * width, top + LABEL))
    return contact_sheet


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("--site", type=Path, required=True, help="what `course.py site --build` made")
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="NAME", help="beginnings of notebooks' names"
    )
    parser.add_argument("--sheet", type=Path, help="the file for all of them together")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    paths = [*sorted((ROOT / "notebooks").glob("*.ipynb")), *sorted((ROOT / "labs").glob("*.ipynb"))]
    notebooks = [
        path.relative_to(ROOT).with_suffix("").as_posix()
        for path in paths
        if path.name.startswith(tuple(options.only))
    ]
    with contextlib.ExitStack() as open_:
        folder = Path(open_.enter_context(tempfile.TemporaryDirectory()))
        fonts = folder / "fonts.conf"
        fonts.write_text(NO_CHINESE.format(cache=folder / "cache"), "utf-8")
        lab, notebook = open_.enter_context(jupyterlab()), open_.enter_context(notebook_7())
        web = open_.enter_context(pages_of(options.site))
        plain = [View("saved page, no Chinese font", 1200, dark=False, address=saved(notebooks, folder))]
        views = [
            View("JupyterLab, 1600, light", 1600, dark=False, address=lab),
            View("JupyterLab, 1024, dark", 1024, dark=True, address=lab),
            View("Notebook 7", 1280, dark=False, address=notebook),
            View("web site, light", 1280, dark=False, address=web),
            View("web site, dark", 1280, dark=True, address=web),
            View("web site, phone", 390, dark=False, address=web),
        ]
        playwright = open_.enter_context(sync_playwright())
        for chosen, variables in ((views, {}), (plain, {"FONTCONFIG_FILE": str(fonts)})):
            chromium = playwright.chromium.launch(
                executable_path=find_chromium(), args=ARGUMENTS, env={**os.environ, **variables}
            )
            take(chromium, chosen, notebooks, options.folder)
            chromium.close()
    if options.sheet:
        sheet([*views, *plain], notebooks, options.folder).save(options.sheet, quality=60)


if __name__ == "__main__":
    main()
