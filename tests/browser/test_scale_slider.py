"""Chapter 09: the slider of the scale factor runs the model and changes the picture."""

import pytest
from playwright.sync_api import Page, expect

from tests.support.jupyterlab import Lab

CHAPTER = "notebooks/09_dynamic_resize.ipynb"


@pytest.mark.slow
def test_the_slider_enlarges_the_photograph(lab: Lab, page: Page):
    notebook = lab.open(page, CHAPTER)
    notebook.run_all()
    (position,) = [
        index for index, cell in enumerate(notebook.cells()) if cell["source"].rstrip().endswith("picture])")
    ]
    page.evaluate(
        """async (index) => {
          const notebook = window.jupyterapp.shell.currentWidget.content;
          notebook.activeCellIndex = index;
          await notebook.scrollToItem(index, 'center');
        }""",
        position,
    )
    handle = page.locator(".widget-slider [role=slider], .widget-slider .noUi-handle").first
    label = page.get_by_text("pixels", exact=False).and_(page.locator(".widget-label"))
    picture = page.locator("img.widget-image")
    expect(label).to_have_text("40 x 45 becomes 120 x 135 pixels")
    page.wait_for_function("() => document.querySelector('img.widget-image').naturalHeight === 120")
    assert picture.evaluate("image => image.naturalWidth") == 135
    handle.focus()
    handle.press("ArrowRight")
    expect(label).to_have_text("40 x 45 becomes 130 x 146 pixels")
    page.wait_for_function("() => document.querySelector('img.widget-image').naturalHeight === 130")
    shown = picture.evaluate("image => [image.clientHeight, image.clientWidth]")
    assert shown == [130, 146], "the picture is stretched"
