"""A chapter as it is when it is opened: trusted if it is the committed one, and without unsaved changes."""

import json
import re
from pathlib import Path

import onnx
from playwright.sync_api import Browser, Page, expect

from tests.support.graph_models import chain
from tests.support.jupyterlab import JupyterServer
from tests.support.notebook_page import KERNEL, Notebook, WatchedPage

CHAPTER = "notebooks/02_trace_and_script.ipynb"
WIDGET = "window.jupyterapp.shell.currentWidget"
TRUSTED = f"() => [...{WIDGET}.content.model.cells].every((cell) => cell.type !== 'code' || cell.trusted)"
DIRTY = f"() => {WIDGET}.context.model.dirty"


def test_a_chapter_opens_trusted_and_unchanged_and_a_changed_one_untrusted(lab: JupyterServer, page: Page):
    lab.open(page, CHAPTER)
    metadata = f"() => {WIDGET}.content.model.getMetadata('language_info').version"
    page.wait_for_function(metadata)  # the kernel has said what it is
    assert page.evaluate(TRUSTED)
    page.wait_for_timeout(2_000)  # time for what must not happen
    assert not page.evaluate(DIRTY)
    table = page.locator(".jp-RenderedHTMLCommon table").first
    table.scroll_into_view_if_needed()
    expect(page.locator(".jp-RenderedHTMLCommon style").first).to_be_attached()

    notebook = json.loads((lab.folder / CHAPTER).read_text("utf-8"))
    notebook["cells"][-1]["source"] = ["My notes"]
    (lab.folder / "notebooks" / "changed.ipynb").write_text(json.dumps(notebook), "utf-8")
    lab.open(page, "notebooks/changed.ipynb")
    assert not page.evaluate(TRUSTED)
    assert not page.evaluate(DIRTY)


def test_a_learners_chapter_opens_new_and_trusted_and_its_links_work(
    workbook: JupyterServer, browser: Browser, tmp_path: Path
):
    watched = WatchedPage.open(browser)
    page = watched.page
    notebook = workbook.open(page, CHAPTER)
    page.wait_for_function(f"() => {WIDGET}.content.model.getMetadata('language_info').version")
    assert page.evaluate(TRUSTED)
    assert not [cell for cell in notebook.contents() if cell.get("outputs")]
    expect(page.locator(".jp-Notebook .jp-OutputArea-output")).to_have_count(0)
    page.wait_for_timeout(2_000)  # time for what must not happen
    assert not page.evaluate(DIRTY)

    notebook.run(0)
    notebook.save()
    page.wait_for_function(f"() => !{WIDGET}.context.model.dirty")
    workbook.open(page, CHAPTER)
    assert page.evaluate(TRUSTED), "what the learner ran and saved stays trusted"

    page.locator(".jp-Notebook .jp-MarkdownOutput").get_by_role("link", name="01", exact=True).first.click()
    page.wait_for_function(f"() => {WIDGET}?.context?.path !== {json.dumps(CHAPTER)}")
    target = page.evaluate(f"() => {WIDGET}.context.path")
    assert (workbook.folder / target).exists()
    watched.page.context.close()
    watched.require_nothing_foreign(workbook.url)


def test_the_course_is_at_the_left_and_says_how_one_stands(
    workbook: JupyterServer, browser: Browser, tmp_path: Path
):
    """By keyboard alone; the record of a prediction is seen as soon as the kernel has kept it."""
    watched = WatchedPage.open(browser)
    page = watched.page
    page.goto(f"{workbook.url}lab/workspaces/panel?token={workbook.token}&reset")
    page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")  # which opens the files
    page.locator(".jp-SideBar [data-id=onnxlab-course]").press("Enter")
    panel = page.get_by_role("region", name="ONNX Lab")
    chapters = panel.locator("ul").last.get_by_role("button")
    chapters.first.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(chapters.nth(2)).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => {WIDGET}?.context?.path === {json.dumps(CHAPTER)}")
    expect(chapters.nth(2)).to_have_attribute("aria-current", "page")

    Notebook(page).wait_for_kernel()
    kept = "\n".join(
        (
            "from onnxlab.kit.progress import change_entry",
            "from onnxlab.notebook.predict.answers import _questions, answers_file",
            f"for key in _questions()[{Path(CHAPTER).stem!r}]:",
            "    change_entry(key, lambda entry: entry.{change}, answers_file())",
        )
    )
    execute = f"(code) => {KERNEL}.requestExecute({{ code }}).done"
    page.evaluate(execute, kept.replace("{change}", "update(right=True)"))
    expect(chapters.nth(2)).to_have_accessible_name(
        re.compile("Trace and script, .* 4 of 4 predictions answered, 4 right, done")
    )
    page.evaluate(execute, kept.replace("{change}", "clear()"))  # other tests have the same record

    # As a page from before an update may ask.
    headers = {"Authorization": f"token {workbook.token}"}
    refused = page.request.post(f"{workbook.url}onnxlab/course", headers=headers, data={"hint": "gone"})
    assert (refused.status, "exercise" in refused.json()["message"]) == (400, True)

    panel.locator("summary").press("Enter")
    panel.get_by_role("textbox").fill("Unsupported model IR version: 10, max supported IR version: 9")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(panel).to_contain_text("newer than the installed ONNX Runtime")
    expect(panel.get_by_role("button", name="Explained in chapter 13_ship_it")).to_be_visible()

    track = panel.get_by_role("combobox")
    track.focus()
    track.select_option("phone")
    expect(chapters).to_have_count(4)
    expect(track).to_be_focused()
    track.select_option("")
    expect(chapters.nth(4)).to_be_attached()
    page.route("**/onnxlab/course**", lambda route: route.fulfill(status=500))
    track.select_option("phone")
    expect(panel).to_contain_text("cannot be read")
    watched.page.context.close()
    workbook.end_kernels()
    watched.require_nothing_foreign(workbook.url)


def test_a_double_click_on_a_model_shows_its_graph(lab: JupyterServer, page: Page):
    """In a console, whose next line works with the file; a name is text, whatever is in it."""
    name = """it's "new" 模型.onnx"""
    (lab.folder / "models").mkdir(exist_ok=True)  # a second try has it
    onnx.save(chain(), lab.folder / "models" / name)
    # A workspace of its own: what other tests have open there is not restored over the folder.
    page.goto(f"{lab.url}lab/workspaces/opening/tree/models?token={lab.token}")
    page.locator(".jp-DirListing-item", has_text=name).dblclick()
    console = page.locator(".jp-ConsolePanel")
    frame = console.locator("iframe.onnxlab-graph[data-status=ready]")
    frame.wait_for(timeout=60_000)
    expect(frame).to_have_attribute("data-nodes", re.compile("[1-9]"))
    tabs = page.locator("#jp-main-dock-panel .lm-TabBar-tabLabel", has_text=name)
    expect(tabs).to_have_count(1)
    expect(console.locator(".jp-CodeConsole-content .cm-content").last).to_contain_text("graph(")
    console.locator(".jp-CodeConsole-promptCell .cm-content").click()
    page.keyboard.insert_text("import os; print(os.listdir())")
    page.keyboard.press("Shift+Enter")
    expect(console).to_contain_text(".onnx'")

    page.locator(".jp-DirListing-item", has_text=name).dblclick()  # activates the tab that is there
    page.wait_for_timeout(3_000)  # time for what must not happen, and for JupyterLab to save what is open
    expect(tabs).to_have_count(1)
    page.goto(f"{lab.url}lab/workspaces/opening?token={lab.token}")
    frame.wait_for(timeout=60_000)
    expect(tabs).to_have_count(1)
    page.wait_for_timeout(2_000)
    (lab.folder / "models" / name).unlink()
    page.goto(f"{lab.url}lab/workspaces/opening?token={lab.token}")
    page.locator(".jp-DirListing").wait_for()
    expect(tabs).to_have_count(0)


def test_after_a_restart_a_check_is_still_whole_and_the_next_one_says_what_to_run(scratch: Notebook):
    check = 'check("asinh-symbolic", lambda g, x: g.op("Atan", x))'
    notebook, page = scratch.fill(["from onnxlab import check", check]), scratch.page
    notebook.run(0)
    notebook.run(1)
    button = page.locator(".jp-Notebook .jupyter-button").first
    expect(button).to_be_visible()
    notebook.restart()
    expect(page.locator(".jp-Notebook .jupyter-widgets-disconnected").first).to_be_attached()
    expect(button).to_be_hidden()
    expect(notebook.cells.nth(1)).to_contain_text("asinh-symbolic: incorrect")
    expect(notebook.run(1)).to_contain_text("Run All Above Selected Cell")
    expect(page.locator(".jp-Notebook [data-mime-type='application/vnd.jupyter.error']")).to_have_count(0)
    expect(page.locator(".jp-Notebook [data-mime-type='application/vnd.jupyter.stderr']")).to_have_count(0)
