"""A class on a hub, in browsers: from the sign-in over a lab to the feedback; a room that is seen live."""

import contextlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("jupyterhub")

from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import TimeoutError as WaitTimedOut

from class_support.graded_class import EXERCISES, outcome, submission
from class_support.hub import INSTRUCTOR_PASSWORD, PIN, ROOM_PASSWORD, Hub
from class_support.learners import people
from onnxlab import cli
from onnxlab_class.classroom.course.folder import open_class
from onnxlab_class.classroom.hub.accounts import is_name, plain_name
from onnxlab_class.grading.reports import write_reports
from onnxlab_class.grading.results import Ledger
from tests.support.notebook_page import PATIENCE, wait_until

LAB = "lab04_asinh"
ANSWER = "def asinh_symbolic(g, x):\n    return g.op('Asinh', x)"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="a class is served on Linux"),
]


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


def sign_in(page: Page, address: str, name: str, password: str = ROOM_PASSWORD) -> None:
    page.goto(address)
    page.get_by_label("Name:").fill(name)
    page.get_by_label("Room password:").fill(password)
    page.get_by_label("Your PIN").fill(PIN)
    page.get_by_role("button", name="Sign in").click()


def choose(page: Page, menu: str, item: str) -> None:
    page.locator(".lm-MenuBar-item", has_text=menu).first.click()
    page.locator(".lm-Menu-item", has_text=item).first.click()


def run_all_cells(page: Page) -> None:
    """Run the notebook in front; JupyterLab may ignore it right after the start: ask again."""
    notebook = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    expect(notebook.locator(".jp-Toolbar-kernelName")).to_contain_text("Python 3")  # else it asks which
    expect(notebook.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")).to_be_attached()
    begun = notebook.locator(".jp-InputPrompt", has_text="[*]").first  # numbers are saved with it
    for _ in range(5):
        choose(page, "Run", "Run All Cells")
        with contextlib.suppress(WaitTimedOut):
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


def solve(page: Page, room: Hub) -> None:
    """Open the lab, type an answer over the first exercise, run all, see the report, save."""
    page.goto(f"{room.url}user/ada/lab/tree/labs/{LAB}.ipynb")
    # Not the chapter, which JupyterLab opens again beside it.
    expect(page.locator("#jp-main-dock-panel .lm-mod-current", has_text=f"{LAB}.ipynb")).to_be_visible()
    lab = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    expect(lab.locator("h1", has_text="asinh")).to_be_visible()
    lab.locator(".jp-CodeCell .cm-content", has_text="def asinh_symbolic(").click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(ANSWER)
    run_all_cells(page)
    shown = lab.locator(".jp-OutputArea", has_text="asinh-symbolic: passed, 2 of 2 points").first
    expect(shown).to_be_visible()
    page.keyboard.press("Control+s")
    saved = room.folder / "learners" / "ada" / "labs" / f"{LAB}.ipynb"
    wait_until(page, lambda: json.dumps(ANSWER.splitlines()[-1])[1:-1] in saved.read_text())


def test_a_learner_from_the_sign_in_to_the_feedback_whom_nobody_else_visits(room, pages, tmp_path):
    page, other = pages
    sign_in(page, room.url, "ada")
    page.wait_for_url("**/user/ada/lab/**")
    expect(page.locator(".jp-Notebook")).to_be_visible()
    see_the_first_graph(page)
    solve(page, room)
    page.locator(".jp-SideBar [data-id=onnxlab-course]").click()
    course = page.get_by_role("region", name="ONNX Lab")
    expect(course.get_by_role("button", name=re.compile("^Lab 4: .* 2 of .* points, begun"))).to_be_attached()

    results = tmp_path / "results"
    with Ledger(results, {}) as ledger:
        ledger.record(submission("ada"), [outcome(EXERCISES[0], 0)])
        write_reports(ledger, lambda model, highlight: "")
    assert cli.main(["class", "feedback", str(room.folder), str(results)]) == 0
    page.goto(f"{room.url}user/ada/lab/tree/feedback/results.html")
    exercises = page.frame_locator(".jp-HTMLViewer iframe").locator("section")
    points = EXERCISES[0].points
    expect(exercises.filter(has_text=EXERCISES[0].id)).to_contain_text(f"{points} of {points} points passed")

    sign_in(other, f"{room.url}services/room/", "bob")
    other.goto(f"{room.url}user/ada/lab")
    expect(other.locator("h1")).to_contain_text("403")
    assert other.url.startswith(room.url)


def test_the_sign_in_page_names_the_class_and_refuses_a_name_before_it_is_sent(room, pages):
    page, _ = pages
    page.goto(room.url)
    expect(page.locator("h1")).to_have_text(f"ONNX Lab: {open_class(room.folder).name}")
    expect(page.locator("#name_rule")).to_contain_text("A name begins with a letter")
    valid = page.get_by_label("Name:").evaluate
    for name in ("ada", " Ada ", "A-b_2", "x" * 30, "2ada", "a.b", "Ada Lovelace", "\u00e4d\u00e4", "x" * 31):
        page.get_by_label("Name:").fill(name)
        assert valid("field => field.checkValidity()") == is_name(plain_name(name)), name
    page.get_by_label("Name:").fill("Ada Lovelace")
    page.get_by_label("Room password:").fill(ROOM_PASSWORD)
    page.get_by_label("Your PIN").fill(PIN)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("Your PIN")).to_have_value(PIN)
    expect(page.get_by_label("Room password:")).to_have_value(ROOM_PASSWORD)


def test_the_instructor_sees_the_room_live_and_learners_do_not(room, pages):
    learner, page = pages
    sign_in(learner, f"{room.url}services/room/", "bob")
    expect(learner.locator("body")).to_contain_text("403")
    sign_in(page, room.url, "instructor", INSTRUCTOR_PASSWORD)
    page.wait_for_url(f"{room.url}services/room/")
    expect(page.locator("#summary")).to_contain_text("learner")
    people(room.folder, 4)
    expect(page.locator("#grid td.passed")).not_to_have_count(0)
    with page.expect_download() as saved:
        page.click("#learners-csv")
    assert "asinh-symbolic" in Path(saved.value.path()).read_text()
    expect(page.get_by_role("link", name="Your JupyterLab")).to_have_attribute("href", "/hub/spawn")
    page.get_by_role("link", name="Accounts").click()
    expect(page.get_by_role("button", name="Edit User").first).to_be_visible()
    for name in ("Start All", "Stop All", "Access Server", "Add Users", "Shutdown Hub", "Start Server"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    page.go_back()
    expect(page.locator("#summary")).to_contain_text("learner")
    page.context.clear_cookies()
    expect(page.locator("#summary")).to_contain_text("You are signed out")
