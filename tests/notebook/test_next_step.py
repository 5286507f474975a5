"""The way through the labs: what comes next, the bar and the card, the map, and the buttons below a check."""

import json
import re
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from ipywidgets.widgets.widget import _instances

from onnxlab.kit.exercise import exercise, lab, labs
from onnxlab.kit.outcome import Outcome
from onnxlab.kit.progress import record, standings
from onnxlab.kit.status import Status
from onnxlab.notebook.labs.next_step import display_buttons, progress_map, way_on
from onnxlab.notebook.labs.standings import course_path, go_on, next_text
from onnxlab.notebook.outputs import display_html
from onnxlab.notebook.predict import answers
from onnxlab.notebook.predict.answers import Score, scores

ROOT = Path(__file__).parents[2]
VIEW = "application/vnd.jupyter.widget-view+json"
RESIZE = lab("lab06")
FIRST, SECOND, LAST = RESIZE.exercises


@pytest.fixture(autouse=True)
def course(tmp_path, monkeypatch):
    """A course with a lab and a chapter; the learner is in labs/."""
    monkeypatch.setenv("ONNXLAB_STATE", str(tmp_path / "progress.json"))
    cells = [
        {"cell_type": "markdown", "id": "intro", "source": ["# Lab 6"]},
        {"cell_type": "markdown", "id": "second", "source": ["## A Resize with two faces\n", "\n", "Do."]},
        {"cell_type": "code", "id": "check", "source": [f'check("{SECOND.id}", DynamicResize)']},
    ]
    for path, content in ((f"labs/{RESIZE.name}.ipynb", cells), ("notebooks/10_backends_differ.ipynb", [])):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(json.dumps({"cells": content}))
    monkeypatch.chdir(tmp_path / "labs")


@pytest.fixture
def answer():
    """Answers predictions of chapters, in order, without a notebook."""
    questions = answers._questions()

    def answered(chapter: str, count: int = 99, *, right: bool = True) -> None:
        for name in questions[chapter][:count]:
            answers.keep(name, {"right": right})

    return answered


def end(name: str, status: Status = Status.PASSED) -> None:
    _, found = exercise(name)
    record(Outcome(name, status, found.points if status is Status.PASSED else 0, found.points))


def next_id(after: str = "", chapter: str = "") -> str:
    following = go_on(standings()[0], exercise(after)[1] if after else None, chapter)
    if isinstance(following, Score):
        return following.chapter
    return following.exercise.id if following else ""


@pytest.mark.parametrize("record_of_lab", labs(), ids=lambda record: record.name)
def test_a_lab_names_the_last_chapter_that_its_notebook_names(record_of_lab):
    book = json.loads((ROOT / "labs" / f"{record_of_lab.name}.ipynb").read_text("utf-8"))
    before = re.findall(r"\.\./notebooks/(\w+)\.ipynb", "".join(book["cells"][0]["source"]))
    assert before[-1] == record_of_lab.after


def test_the_path_has_every_lab_once_and_after_its_chapter():
    names = [s.chapter if isinstance(s, Score) else s[0].lab.name for s in course_path(standings()[0])]
    for record_of_lab in labs():
        assert names.index(record_of_lab.after) < names.index(record_of_lab.name)
    assert len(names) == len(set(names)) == len(labs()) + len(scores())


def test_a_beginner_is_sent_to_the_chapters_in_order_and_to_a_lab_after_its_chapter(answer):
    assert next_id() == "00_start_here"
    assert next_id(chapter="00_start_here") == "01_first_deployment", "the chapter that is being read"
    answer("00_start_here")
    assert next_id() == "01_first_deployment"
    answer("01_first_deployment")
    answer("02_trace_and_script", 2, right=False)
    assert next_id() == "02_trace_and_script"
    answer("02_trace_and_script")
    assert next_id() == "loop-count-as-input"


def test_a_lab_that_was_begun_comes_first_and_what_was_left_out_last(answer):
    end(SECOND.id, Status.INCORRECT)
    assert next_id() == FIRST.id
    for record_of_lab in RESIZE.exercises:
        end(record_of_lab.id)
    assert next_id() == "10_backends_differ", "the chapter after lab06"
    answer("20_clinic")
    for record_of_lab in lab("lab13").exercises:
        end(record_of_lab.id)
    assert next_id() == "00_start_here"


def test_after_a_pass_the_same_lab_goes_on_before_the_next_one():
    end(SECOND.id)
    assert next_id(SECOND.id) == LAST.id
    end(LAST.id)
    assert next_id(LAST.id) == FIRST.id
    end(FIRST.id)
    assert next_id(FIRST.id) == "10_backends_differ", "never a lab before its chapter"


def test_nothing_is_next_when_everything_is_done(answer):
    for standing in standings()[0]:
        end(standing.exercise.id)
    for score in scores():
        answer(score.chapter)
    assert next_id() == next_id(FIRST.id) == ""
    assert next_text(standings()[0]).startswith("Every prediction is answered, and every exercise passed: ")


def test_a_pass_leads_on_by_a_bar_and_links():
    end(FIRST.id)
    markup = way_on(RESIZE, FIRST)
    assert "1 of 3 exercises in this lab" in markup
    assert 'style="width: 33%"' in markup
    assert f'href="{RESIZE.name}.ipynb#cell-id=second"' in markup
    assert "card" not in markup


def test_the_last_pass_of_a_lab_shows_a_card_and_the_next_lab():
    for record_of_lab in RESIZE.exercises:
        end(record_of_lab.id)
    markup = way_on(RESIZE, LAST)
    assert f"Lab passed: {RESIZE.title}" in markup
    assert all(f"\u2713 {record_of_lab.title}" in markup for record_of_lab in RESIZE.exercises[1:])
    assert f"{RESIZE.points} of {RESIZE.points} points" in markup
    assert 'href="../notebooks/10_backends_differ.ipynb"' in markup


def test_a_copy_that_runs_is_linked_and_a_missing_notebook_is_not(monkeypatch, tmp_path):
    copy = tmp_path / "labs" / f"{RESIZE.name}-Copy1.ipynb"
    copy.write_text("damaged")
    monkeypatch.setenv("JPY_SESSION_NAME", f"/labs/{copy.name}")
    end(FIRST.id)
    assert f'href="{copy.name}"' in way_on(RESIZE, FIRST)
    monkeypatch.chdir("/")
    assert "href" not in way_on(RESIZE, FIRST)


def test_a_chapter_that_works_in_a_temporary_folder_has_its_links(monkeypatch, tmp_path):
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "notebooks" / "10_backends_differ.ipynb"))
    monkeypatch.chdir(tmp_path.parent)
    markup = progress_map(standings()[0])
    assert f'href="../labs/{RESIZE.name}.ipynb#cell-id=second"' in markup
    assert 'href="10_backends_differ.ipynb"' in markup


def test_the_map_begins_with_where_to_go_on():
    end(FIRST.id)
    end(SECOND.id, Status.TIMED_OUT)
    markup = progress_map(standings()[0])
    assert markup.startswith('<p><a class="go" ')
    assert re.findall("<details open>.*?</details>", markup) == [
        part for part in re.findall("<details.*?</details>", markup) if RESIZE.name in part
    ]
    assert "(tried, timed out)" in markup
    assert f"{RESIZE.title}</a> · {FIRST.points} of {RESIZE.points} points" in markup


def test_a_button_shows_what_its_action_displays():
    InteractiveShell.instance()
    try:
        with capture_output() as captured:
            display_buttons(
                {word: lambda word=word: display_html(f"<p>{word}</p>", word) for word in ("hint", "case")}
            )
        [view] = captured.outputs
        assert list(view.data) == [VIEW], "nothing is saved"
        row, *_ = _instances[view.data[VIEW]["model_id"]].children
        hint, case = row.children
        assert [hint.description, case.description] == ["hint", "case"]
        for button in (hint, case):
            with capture_output() as captured:
                button.click()
            assert captured.outputs[0].data["text/plain"] == button.description
    finally:
        InteractiveShell.clear_instance()
