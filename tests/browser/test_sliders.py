"""The sliders of the chapters: moved by the keyboard, they compute anew in the kernel."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.jupyterlab import Lab

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.mark.parametrize(
    ("chapter", "key", "before", "after"),
    [
        (
            "02_trace_and_script.ipynb",
            "ArrowRight",
            "n = 2: the Loop makes 16 x 16",
            "n = 3: the Loop makes 14 x 14",
        ),
        ("06_trace_breakers.ipynb", "ArrowLeft", "error 0.890", r"torch .*, ONNX .*, error 0\.(?!890)\d+"),
    ],
)
def test_a_moved_slider_shows_another_answer(
    lab: Lab, page: Page, chapter: str, key: str, before: str, after: str
):
    opened = lab.open(page, lab.add(NOTEBOOKS / chapter))
    opened.run_all()
    slider = page.locator(".widget-slider [role=slider]")
    slider.scroll_into_view_if_needed()
    answer = page.locator(".onnxlab-slider.live p").filter(has_text=re.compile(r"n = \d|error"))
    expect(answer).to_contain_text(before)
    slider.press(key)
    expect(answer).to_have_text(re.compile(after))
