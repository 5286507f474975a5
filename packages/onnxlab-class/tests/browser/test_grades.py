"""The instructor's index of a run, in a browser."""

from pathlib import Path

from playwright.sync_api import Browser

from onnxlab.kit.exercise import labs
from onnxlab.kit.outcome import Status
from onnxlab_class.grading.reports import write_feedback
from onnxlab_class.grading.results import Graded


def test_all_sixteen_labs_are_in_sight_at_1280(browser: Browser, tmp_path: Path):
    rows = [
        Graded(
            "a-learner-with-a-name-of-30-ch",
            lab.name,
            task.id,
            str(Status.PASSED),
            task.points,
            task.points,
            "",
            {},
        )
        for lab in labs()
        for task in lab.exercises
    ]
    write_feedback(tmp_path, rows, lambda model, marked: "", without={"carol": "not submitted"})
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(f"file://{tmp_path}/index.html")
    last = page.locator("th.number").last
    assert (last.get_attribute("title") or "").startswith("Lab 16")
    box = last.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 1280
    assert page.evaluate(
        "document.querySelector('.wide').scrollWidth <= document.querySelector('.wide').clientWidth"
    )
    page.close()
