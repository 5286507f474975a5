"""Formgrader after our grading, as an instructor sees it."""

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from class_support.nbgrader_course import LAB, grade, hand_in, named, notebook, small_course
from onnxlab.kit.exercise import lab
from onnxlab.kit.outcome import Status
from tests.support.jupyterlab import end_server, free_port, wait_for_server
from tests.support.notebook_page import PATIENCE, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the warm process needs Linux"),
]
POINTS = lab(LAB).points
HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A course in which ada and ben are graded, and cleo is not."""
    folder = tmp_path / "course"
    folder.mkdir()
    course = small_course(folder)
    wrong = notebook("labs")
    named(wrong, "asinh-symbolic").source = "def asinh_symbolic(g, x):\n    return g.op('Atan', x)"
    wrong.cells[0].source += HOSTILE
    hand_in(folder, "ada", notebook())
    hand_in(folder, "ben", wrong)
    grade(course, ada=[Status.PASSED] * 2, ben=[Status.INCORRECT] * 2)
    hand_in(folder, "cleo", notebook())
    return folder


@pytest.fixture
def formgrader(folder: Path, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A Jupyter server in the course: its address, and what lets a browser in."""
    port, token = free_port(), secrets.token_hex(16)
    own = {
        name: str(tmp_path / name)
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    }
    own |= {"JUPYTER_TOKEN": token, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    options = [f"--port={port}", "--ip=127.0.0.1", "--no-browser", f"--ServerApp.root_dir={folder}"]
    if os.geteuid() == 0:
        options.append("--allow-root")
    with (tmp_path / "server.log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyter_server", *options],
            cwd=folder,
            env=os.environ | own,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for_server(f"{address}/api?token={token}", server, tmp_path / "server.log")
        yield address, token
    finally:
        end_server(server)


def test_formgrader_shows_what_was_graded(formgrader: tuple[str, str], browser: Browser, tmp_path: Path):
    address, token = formgrader
    context = browser.new_context(
        viewport={"width": 1280, "height": 1100}, extra_http_headers={"Authorization": f"token {token}"}
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{address}/formgrader/manage_submissions/{LAB}")
    rows = {name: page.get_by_role("row").filter(has_text=name) for name in ("ada", "ben", "cleo")}
    expect(rows["ada"]).to_contain_text(f"{POINTS} / {POINTS}")
    expect(rows["ada"]).to_contain_text("graded")
    expect(rows["ben"]).to_contain_text(f"0 / {POINTS}")
    expect(rows["cleo"]).to_contain_text("needs autograding")
    page.screenshot(path=tmp_path / "submissions.png")

    page.goto(f"{address}/formgrader/gradebook/{LAB}/{LAB}")
    links = page.locator("tbody a[href*='/submissions/']")
    expect(links.first).to_be_visible()
    paths: set[str | None] = set()

    def both() -> bool:
        paths.update(links.evaluate_all("links => links.map((link) => link.getAttribute('href'))"))
        return len(paths) == 2

    wait_until(page, both)
    for path in sorted(filter(None, paths)):
        page.goto(address + path)
        text = page.locator("#notebook-container").first
        expect(text).to_contain_text("asinh-symbolic")
        if "incorrect" in text.inner_text():
            break
    else:
        pytest.fail("ben's work is not there")
    expect(page.locator("#check-asinh-symbolic")).to_have_attribute("placeholder", "0")
    why = re.compile("Off by 0.5 <script>")
    expect(page.locator("#asinh-symbolic-comment")).to_have_attribute("placeholder", why)
    expect(page.locator(".onnxlab section")).to_have_count(2)
    expect(page.locator(".onnxlab .status").first).to_have_css("color", "rgb(207, 34, 46)")
    page.screenshot(path=tmp_path / "submission.png", full_page=True)
    assert page.title() == LAB  # nothing that ben wrote ran
    context.close()
