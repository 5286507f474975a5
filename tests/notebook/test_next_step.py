"""The way through the labs: what comes next, the bar and the card, the map, and the buttons below a check."""

import json
import re

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from ipywidgets.widgets.widget import _instances

from onnxlab.labs.kit.exercise import exercise, lab
from onnxlab.labs.kit.outcome import Outcome, Status
from onnxlab.labs.kit.progress import record, standings
from onnxlab.notebook.labs.next_step import display_buttons, progress_map, way_on
from onnxlab.notebook.labs.standings import go_on, next_text
from onnxlab.notebook.outputs import display_html

VIEW = "application/vnd.jupyter.widget-view+json"
BITSHIFT = lab("lab05")
FIRST, SECOND, THIRD, LAST = BITSHIFT.exercises


@pytest.fixture(autouse=True)
def course(tmp_path, monkeypatch):
    """A course with two labs and a solution; the learner is in labs/."""
    monkeypatch.setenv("ONNXLAB_STATE", str(tmp_path / "progress.json"))
    cells = [
        {"cell_type": "markdown", "id": "intro", "source": ["# Lab 5"]},
        {"cell_type": "markdown", "id": "second", "source": ["## Find a wrong shift\n", "\n", "Write it."]},
        {"cell_type": "code", "id": "check", "source": [f'check("{SECOND.id}", find_wrong_shift)']},
    ]
    for path, content in (
        (f"labs/{BITSHIFT.name}.ipynb", cells),
        ("labs/lab06_resize_scales.ipynb", []),
        (f"solutions/{BITSHIFT.name}.ipynb", []),
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(json.dumps({"cells": content}))
    monkeypatch.chdir(tmp_path / "labs")


def end(name: str, status: Status = Status.PASSED) -> None:
    _, found = exercise(name)
    record(Outcome(name, status, found.points if status is Status.PASSED else 0, found.points))


def next_id(after: str = "") -> str:
    following = go_on(standings()[0], exercise(after)[1] if after else None)
    return following.exercise.id if following else ""


def test_next_is_the_first_lab_begun_then_the_first_left():
    assert next_id() == "loop-count-as-input"
    end(SECOND.id, Status.INCORRECT)
    assert next_id() == FIRST.id
    for record_of_lab in BITSHIFT.exercises:
        end(record_of_lab.id)
    assert next_id() == "loop-count-as-input"


def test_after_a_pass_the_same_lab_goes_on_before_the_next_one():
    end(SECOND.id)
    assert next_id(SECOND.id) == THIRD.id
    end(LAST.id)
    assert next_id(LAST.id) == FIRST.id
    end(FIRST.id)
    end(THIRD.id)
    assert next_id(THIRD.id) == "scales-input"


def test_nothing_is_next_when_everything_is_passed():
    for standing in standings()[0]:
        end(standing.exercise.id)
    assert next_id() == next_id(FIRST.id) == ""
    assert next_text(standings()[0]).startswith("Every exercise is passed: ")


def test_a_pass_leads_on_by_a_bar_and_links():
    end(FIRST.id)
    markup = way_on(BITSHIFT, FIRST)
    assert "1 of 4 exercises in this lab" in markup
    assert 'style="width: 25%"' in markup
    assert f'href="{BITSHIFT.name}.ipynb#cell-id=second"' in markup
    assert f'href="../solutions/{BITSHIFT.name}.ipynb"' in markup
    assert "card" not in markup


def test_the_last_pass_of_a_lab_shows_a_card_and_the_next_lab():
    for record_of_lab in BITSHIFT.exercises:
        end(record_of_lab.id)
    markup = way_on(BITSHIFT, LAST)
    assert f"Lab passed: {BITSHIFT.title}" in markup
    assert all(f"\u2713 {record_of_lab.title}" in markup for record_of_lab in BITSHIFT.exercises[1:])
    assert "15 of 15 points" in markup
    assert 'href="lab06_resize_scales.ipynb"' in markup


def test_a_copy_that_runs_is_linked_and_a_missing_notebook_is_not(monkeypatch, tmp_path):
    copy = tmp_path / "labs" / f"{BITSHIFT.name}-Copy1.ipynb"
    copy.write_text("damaged")
    monkeypatch.setenv("JPY_SESSION_NAME", f"/labs/{copy.name}")
    end(FIRST.id)
    assert f'href="{copy.name}"' in way_on(BITSHIFT, FIRST)
    monkeypatch.chdir("/")
    assert "href" not in way_on(BITSHIFT, FIRST)


def test_the_map_begins_with_where_to_go_on():
    end(FIRST.id)
    end(SECOND.id, Status.TIMED_OUT)
    markup = progress_map(standings()[0])
    assert markup.startswith("<p><strong>Go on here: <a ")
    assert re.findall("<details open>.*?</details>", markup) == [
        part for part in re.findall("<details.*?</details>", markup) if BITSHIFT.name in part
    ]
    assert "(tried, timed out)" in markup
    assert f"{BITSHIFT.title}</a> · 2 of 15 points" in markup


def test_a_button_shows_what_its_action_displays():
    InteractiveShell.instance()
    try:
        with capture_output() as captured:
            display_buttons({"Hint": lambda: display_html("<p>read the rule</p>", "read the rule")})
        [view] = captured.outputs
        assert list(view.data) == [VIEW], "nothing is saved"
        row, _ = _instances[view.data[VIEW]["model_id"]].children
        [button] = row.children
        assert button.description == "Hint"
        with capture_output() as captured:
            button.click()
        assert captured.outputs[-1].data["text/plain"] == "read the rule"
    finally:
        InteractiveShell.clear_instance()
