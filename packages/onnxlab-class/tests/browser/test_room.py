"""The instructor's page of the room, in a browser: it follows the checks, and shows no name unless asked."""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from class_support.learners import EXERCISES, failed, passed, people, progress_file, write
from onnxlab.kit import progress
from onnxlab.kit.outcome import Finding, Outcome, Status
from tests.support.notebook_page import PATIENCE

Opened = Callable[..., Page]
MARK = {"format": 1, "name": "spring", "version": "", "made": "", "written": {}}
ASINH = next(exercise for exercise in EXERCISES if exercise.id == "asinh-symbolic")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the page for the length of a block; give its address."""
    command = [sys.executable, "-m", "onnxlab.cli", "class", "room", str(folder), "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().split()[-1]
    finally:
        server.terminate()
        ended = server.wait(120)
    assert ended == 0


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of the page, and the folder of a class in which nobody has begun."""
    folder = tmp_path_factory.mktemp("class")
    (folder / "learners").mkdir()
    (folder / "class.json").write_text(json.dumps(MARK))
    with served(folder) as address:
        yield address, folder


@pytest.fixture
def folder(room: tuple[str, Path]) -> Path:
    """The folder without the learners of the test before; who asked to be left out, stays left out."""
    for home in (room[1] / "learners").iterdir():
        shutil.rmtree(home)
    return room[1]


@pytest.fixture
def opened(browser: Browser, room: tuple[str, Path]) -> Iterator[Opened]:
    """Open the page; a message in the console or a request elsewhere fails the test."""
    contexts, trouble = [], []
    address, _ = room

    def open_page(**options: object) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on(
            "request",
            lambda request: request.url.startswith((address, "data:")) or trouble.append(request.url),
        )
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        page.wait_for_selector("#grid table, #summary.trouble")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert trouble == []


def test_the_page_follows_what_checks_record(opened: Opened, folder: Path, monkeypatch: pytest.MonkeyPatch):
    write(folder, "grace", {})
    page = opened()
    expect(page.locator("#summary")).to_contain_text("1 learner.")
    monkeypatch.setenv("ONNXLAB_STATE", str(progress_file(folder, "mallory")))
    for _ in range(3):
        progress.record(Outcome(ASINH.id, Status.INCORRECT, 0, 4, (Finding(ASINH.parts[1], False),)))
    expect(page.locator("#summary")).to_contain_text("2 learners")
    expect(page.locator("#stuck tbody tr")).to_have_count(1)
    expect(page.locator("#stuck tbody tr")).to_contain_text(ASINH.parts[1])
    expect(page.locator("#grid td.stuck")).to_have_attribute("aria-label", "stuck, 3 checks")
    progress.record(Outcome(ASINH.id, Status.PASSED, 4, 4))
    expect(page.locator("#grid td.passed")).to_have_attribute("aria-label", "passed")
    expect(page.locator("#stuck")).to_contain_text("Nowhere")
    expect(page.locator(".exercise", has_text=ASINH.id)).to_contain_text("1 of 2 passed")
    assert "mallory" not in page.content()
    progress.set_private(True)
    expect(page.locator("#summary")).to_contain_text("1 learner, 1 not shown")
    expect(page.locator("#grid tbody tr")).to_have_count(1)


def test_what_nobody_checked_today_is_folded_and_a_lab_can_be_chosen(opened: Opened, folder: Path):
    now = int(time.time())
    other = next(exercise for exercise in EXERCISES if exercise.lab != ASINH.lab)
    write(folder, "ada", {ASINH.id: passed(now), other.id: passed(now - 3 * 86_400)})
    page = opened()
    bars, columns = page.locator(".exercise:visible"), page.locator("#grid thead button")
    asinh = sum(exercise.lab == ASINH.lab for exercise in EXERCISES)
    expect(bars).to_have_count(asinh)
    expect(columns).to_have_count(asinh)
    expect(page.locator("#folded")).to_contain_text("Labs that nobody has checked today: 15.")
    page.click("#folded button")
    expect(bars).to_have_count(len(EXERCISES))
    expect(columns).to_have_count(len(EXERCISES))
    expect(page.locator("#folded")).to_be_hidden()
    page.select_option("#labs", other.lab.partition("_")[0])
    expect(bars).to_have_count(sum(exercise.lab == other.lab for exercise in EXERCISES))
    expect(page.locator(".exercise:visible", has_text=other.id)).to_contain_text("1 of 1 passed")


def test_names_come_and_go_with_a_switch_and_no_row_is_in_the_projectors_page(opened: Opened, folder: Path):
    people(folder, 12)
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


def test_the_table_is_walked_through_with_the_keyboard_and_sorted(opened: Opened, folder: Path):
    first, second = EXERCISES[0], EXERCISES[1]
    now = int(time.time())
    write(folder, "ada", {first.id: passed(now)})
    write(folder, "grace", {first.id: failed(first, 1, 4, now - 900, now)})
    page = opened()
    page.select_option("#names", "accounts")
    page.select_option("#order", "stuck")
    expect(page.locator("#grid tbody th").first).to_contain_text("grace")
    page.locator("#grid td[tabindex='0']").focus()
    page.keyboard.press("Home")
    expect(page.locator("#detail")).to_contain_text(f"grace, {first.id}: stuck; 4 checks")
    detail = re.escape(f"does not hold: {first.parts[1]}; for ") + r"\d+ min"
    expect(page.locator("#detail")).to_contain_text(re.compile(detail))
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


@pytest.mark.parametrize(("many", "width", "scheme"), [(5, 390, "light"), (150, 1280, "dark")])
def test_it_fits_and_moves_with_few_and_with_many(
    opened: Opened, folder: Path, tmp_path: Path, many: int, width: int, scheme: str
):
    people(folder, many)
    page = opened(viewport={"width": width, "height": 850}, color_scheme=scheme)
    private = sum("private" in file.read_text() for file in folder.glob("learners/*/.onnxlab/progress.json"))
    expect(page.locator("#grid tbody tr")).to_have_count(many - private)
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") is (scheme == "light")
    now = int(time.time())
    write(folder, "learner-001", {exercise.id: passed(now) for exercise in EXERCISES})
    all_passed = f"tr:has(th):not(:has(.open, .tried, .stuck)):has(td.passed:nth-child({len(EXERCISES) + 1}))"
    expect(page.locator(f"#grid tbody {all_passed}")).not_to_have_count(0)
    page.screenshot(path=tmp_path / "room.png")


def test_a_server_that_ends_is_said_and_what_was_shown_stays(browser: Browser, tmp_path: Path):
    (tmp_path / "class.json").write_text(json.dumps(MARK))
    write(tmp_path, "ada", {EXERCISES[0].id: passed(int(time.time()))})
    page = browser.new_page()
    with served(tmp_path) as address:
        page.goto(address)
        page.wait_for_selector("#grid td.passed")
    expect(page.locator("#summary")).to_contain_text("The server does not answer.")
    assert page.locator("#grid td.passed").count() == 1
    page.close()
