"""The sliders of the chapters: moved by the keyboard, they compute anew in the kernel."""

import re
from pathlib import Path

import pytest
from lab import Lab
from playwright.sync_api import Page, expect

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.mark.parametrize(
    ("chapter", "before", "after"),
    [
        ("02_trace_and_script.ipynb", "n = 2: from 20 x 20 to 16 x 16", "n = 3: from 20 x 20 to 14 x 14"),
        ("06_trace_breakers.ipynb", "distance 2", r"distance 1\.75: .* error 0\.\d+"),
    ],
)
def test_a_moved_slider_shows_another_answer(lab: Lab, page: Page, chapter: str, before: str, after: str):
    opened = lab.open(page, lab.add(NOTEBOOKS / chapter))
    opened.run_all()
    slider = page.locator(".widget-slider [role=slider]")
    slider.scroll_into_view_if_needed()
    label = page.locator(".widget-label").filter(has_text=re.compile(r"(n = |distance )\d"))
    expect(label).to_contain_text(before)
    slider.press("ArrowLeft" if "distance" in before else "ArrowRight")
    expect(label).to_have_text(re.compile(after))
