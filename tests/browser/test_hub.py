"""A class on a hub, in browsers: a learner sees a graph, checks a lab, reads feedback; a room seen live."""

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("jupyterhub")

from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import TimeoutError as WaitTimedOut

from onnxlab.labs.kit.exercise import lab as lab_record
from onnxlab.labs.kit.outcome import Outcome, Status
from onnxlab_class.classroom.hub.homes import give_feedback
from onnxlab_class.grading.reports import write_feedback
from onnxlab_class.grading.results import Graded
from tests.support.hub import INSTRUCTOR_PASSWORD, PIN, ROOM_PASSWORD, Hub, hub
from tests.support.learners import people
from tests.support.notebook_page import PATIENCE

LAB = "lab03_trace_breakers"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="a class is served on Linux"),
]


@pytest.fixture(scope="module")
def room(class_folder: Path) -> Iterator[Hub]:
    """A class, served."""
    with tempfile.TemporaryDirectory(prefix="onnxlab-test-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)  # learners may be users of their own, who have to get in
        with hub(Path(shutil.copytree(class_folder, Path(name, "class")))) as running:
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


def write_page(results: Path, name: str) -> None:
    """Write a learner's feedback page, of a lab that was handed in as it was handed out."""
    rows = []
    for exercise in lab_record(LAB).exercises:
        outcome = Outcome(exercise.id, Status.NOT_ATTEMPTED, 0, exercise.points)
        columns = (name, LAB, exercise.id, str(outcome.status), 0, exercise.points)
        rows.append(Graded(*columns, "digest", outcome.as_json()))
    write_feedback(results, rows, lambda model, highlight: "")


def test_a_learner_sees_a_graph_checks_a_lab_and_reads_feedback(room, pages, tmp_path):
    page, other = pages
    sign_in(page, room.url, "ada")
    page.wait_for_url("**/user/ada/lab/**")
    expect(page.locator(".jp-Notebook")).to_be_visible()
    see_the_first_graph(page)
    check_a_lab(page, room, "ada")
    write_page(tmp_path / "results", "ada")
    assert give_feedback(room.folder, tmp_path / "results").files == {"ada": 1}
    page.goto(f"{room.url}user/ada/lab/tree/feedback/results.html")
    frame = page.frame_locator(".jp-HTMLViewer iframe")
    expect(frame.locator("body")).to_contain_text("not attempted")
    page.screenshot(path=tmp_path / "feedback.png")
    sign_in(other, f"{room.url}hub/token", "bob")
    other.goto(f"{room.url}user/ada/lab")
    expect(other.locator("body")).to_contain_text("403")


def test_the_instructor_sees_the_room_live_and_learners_do_not(room, pages):
    learner, page = pages
    sign_in(learner, f"{room.url}services/room/", "bob")
    expect(learner.locator("body")).to_contain_text("403")
    sign_in(page, f"{room.url}services/room/", "instructor", INSTRUCTOR_PASSWORD)
    expect(page.locator("#summary")).to_contain_text("learner")
    people(room.folder, 4)
    expect(page.locator("#grid td.passed")).not_to_have_count(0)
    with page.expect_download() as saved:
        page.click("#learners-csv")
    assert "asinh-symbolic" in Path(saved.value.path()).read_text()
    page.context.clear_cookies()
    expect(page.locator("#summary")).to_contain_text("You are signed out")
