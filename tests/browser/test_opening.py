"""A chapter as it is when it is opened: trusted if it is the committed one, and without unsaved changes."""

import json

from playwright.sync_api import Page, expect

from tests.support.jupyterlab import JupyterServer

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
