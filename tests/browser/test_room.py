"""The instructor's page of the room, in a browser: it follows real checks, and shows no name unless asked."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from onnxlab.labs.kit import progress
from tests.support.jupyterlab import PATIENCE
from tests.support.learners import EXERCISES, failed, passed, people, progress_file, write

WRONG = 'lambda g, x: g.op("Sinh", x)'
RIGHT = 'lambda g, x: g.op("Asinh", x)'
Opened = Callable[..., Page]


def check(account: Path, answer: str, times: int = 1) -> None:
    """Check an exercise as a learner's kernel does."""
    code = f"from onnxlab import check\nfor _ in range({times}): check('asinh-symbolic', {answer})"
    environment = os.environ | {"ONNXLAB_STATE": str(account)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    """Open the page of a class folder; a message in the console or a request elsewhere fails the test."""
    contexts, trouble = [], []
    command = [sys.executable, "-m", "onnxlab.cli", "class", "room", str(tmp_path), "--no-browser"]
    (tmp_path / "learners").mkdir()
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = server.stdout.readline().split()[-1]

    def open_page(**options: object) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", lambda one: one.url.startswith((address, "data:")) or trouble.append(one.url))
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        page.wait_for_selector("#grid table, #summary.trouble")
        return page

    yield open_page
    for context in contexts:
        context.close()
    server.terminate()
    assert server.wait(120) == 0
    assert trouble == []


def cell(page: Page, row: int, exercise: str) -> str:
    """Return what a screen reader is told of a cell; rows are counted from 0."""
    column = [each.id for each in EXERCISES].index(exercise) + 1
    inside = f"#grid tbody tr:nth-child({row + 1}) > :nth-child({column + 1})"
    return str(page.locator(inside).get_attribute("aria-label"))


def test_the_page_follows_real_checks(opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path, "grace", {})
    page = opened()
    expect(page.locator("#summary")).to_contain_text("1 learner.")
    ada = progress_file(tmp_path, "ada")
    check(ada, WRONG, times=3)
    expect(page.locator("#summary")).to_contain_text("2 learners")
    expect(page.locator("#stuck tbody tr")).to_have_count(1)
    expect(page.locator("#stuck tbody tr")).to_contain_text("right for ordinary numbers at any shape")
    assert cell(page, 1, "asinh-symbolic") == "stuck, 3 checks"
    check(ada, RIGHT)
    expect(page.locator("#grid td.passed")).to_have_count(1)
    assert cell(page, 1, "asinh-symbolic") == "passed"
    expect(page.locator("#stuck")).to_contain_text("Nowhere")
    expect(page.locator(".exercise", has_text="asinh-symbolic")).to_contain_text("1 of 2 passed")
    assert "ada" not in page.content()
    monkeypatch.setenv("ONNXLAB_STATE", str(ada))
    progress.set_private(True)
    expect(page.locator("#summary")).to_contain_text("1 learner, 1 not shown")
    expect(page.locator("#grid tbody tr")).to_have_count(1)


def test_names_come_and_go_with_a_switch_and_no_row_is_in_the_projectors_page(opened: Opened, tmp_path: Path):
    people(tmp_path, 12)
    page = opened()
    assert "learner-0" not in page.content()
    page.select_option("#names", "accounts")
    expect(page.locator("#grid tbody th").first).to_contain_text("learner-0")
    with page.expect_download() as saved:
        page.click("#learners-csv")
    assert "learner-0" in Path(saved.value.path()).read_text()
    page.check("#projector")
    expect(page.locator("#grid td")).to_have_count(0)
    assert "learner-0" not in page.content().replace("learners.csv", "")
    assert not page.locator("#learners-csv").is_visible()
    page.uncheck("#projector")
    expect(page.locator("#grid tbody th").first).to_contain_text("learner-0")
    page.reload()
    page.wait_for_selector("#grid table")
    assert "learner-0" not in page.content(), "names are asked for anew"


def test_the_table_is_walked_through_with_the_keyboard_and_sorted(opened: Opened, tmp_path: Path):
    first, second = EXERCISES[0], EXERCISES[1]
    now = int(tmp_path.stat().st_mtime)
    write(tmp_path, "ada", {first.id: passed(now)})
    write(tmp_path, "grace", {first.id: failed(first, 1, 4, now - 900, now)})
    page = opened()
    page.select_option("#names", "accounts")
    page.select_option("#order", "stuck")
    expect(page.locator("#grid tbody th").first).to_contain_text("grace")
    page.locator("#grid td[tabindex='0']").focus()
    page.keyboard.press("Home")
    expect(page.locator("#detail")).to_contain_text(f"grace, {first.id}: stuck; 4 checks")
    said = re.escape(f"does not hold: {first.parts[1]}; for ") + r"\d+ min"
    expect(page.locator("#detail")).to_contain_text(re.compile(said))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#detail")).to_contain_text(f"ada, {second.id}: open")
    assert page.locator("#grid td[tabindex='0']").count() == 1
    page.select_option("#order", "most")
    expect(page.locator("#grid tbody th").first).to_contain_text("ada")
    expect(page.locator("#grid td:focus")).to_have_count(1)
    page.locator("#grid thead button").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#grid tbody th").first).to_contain_text("grace")


@pytest.mark.parametrize(
    ("many", "width", "scheme"),
    [(5, 390, "light"), (500, 1280, "dark")],
)
def test_it_fits_and_moves_with_few_and_with_many(
    opened: Opened, tmp_path: Path, many: int, width: int, scheme: str
):
    people(tmp_path, many)
    page = opened(viewport={"width": width, "height": 850}, color_scheme=scheme)
    private = sum(
        "private" in file.read_text() for file in tmp_path.glob("learners/*/.onnxlab/progress.json")
    )
    expect(page.locator("#grid tbody tr")).to_have_count(many - private)
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") is (scheme == "light")
    now = int(tmp_path.stat().st_mtime)
    write(tmp_path, "learner-001", {each.id: passed(now) for each in EXERCISES})
    whole = f"tr:has(th):not(:has(.open, .tried, .stuck)):has(td.passed:nth-child({len(EXERCISES) + 1}))"
    expect(page.locator(f"#grid tbody {whole}")).not_to_have_count(0)
    page.screenshot(path=tmp_path / "room.png")


def test_a_server_that_ends_is_said_and_what_was_shown_stays(browser: Browser, tmp_path: Path):
    write(tmp_path, "ada", {EXERCISES[0].id: passed(1_700_000_000)})
    command = [sys.executable, "-m", "onnxlab.cli", "class", "room", str(tmp_path), "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        page = browser.new_page()
        page.goto(server.stdout.readline().split()[-1])
        page.wait_for_selector("#grid td.passed")
    finally:
        server.terminate()
        server.wait(120)
    expect(page.locator("#summary")).to_contain_text("The server does not answer.")
    assert page.locator("#grid td.passed").count() == 1
    page.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a class is served on Linux")
def test_behind_a_hub_the_instructor_sees_it_live_and_learners_do_not(browser: Browser):
    pytest.importorskip("jupyterhub")
    from tests.support.hub import INSTRUCTOR_PASSWORD, PIN, ROOM_PASSWORD, hub

    def signed_in(url: str, name: str, password: str) -> Page:
        page = browser.new_context().new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(f"{url}services/room/")
        page.fill("[name=username]", name)
        page.fill("[name=password]", password)
        page.fill("[name=pin]", PIN)
        page.keyboard.press("Enter")
        return page

    with tempfile.TemporaryDirectory(prefix="onnxlab-test-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)  # learners may be users of their own, who have to get in
        folder = Path(name, "class")
        with hub(folder) as running:
            learner = signed_in(running.url, "ada", ROOM_PASSWORD)
            expect(learner.locator("body")).to_contain_text("403")
            page = signed_in(running.url, "instructor", INSTRUCTOR_PASSWORD)
            expect(page.locator("#summary")).to_contain_text("learner")
            people(folder, 4)
            expect(page.locator("#grid td.passed")).not_to_have_count(0)
            with page.expect_download() as saved:
                page.click("#learners-csv")
            assert "asinh-symbolic" in Path(saved.value.path()).read_text()
            page.context.clear_cookies()
            expect(page.locator("#summary")).to_contain_text("You are signed out")
            for each in (learner, page):
                each.context.close()
