"""The way through the labs: what comes next, the bar and the card, the map, and the buttons below a check."""

import json
import re
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from ipywidgets.widgets.widget import _instances

from onnxlab.kit.exercise import exercise, lab, labs
from onnxlab.kit.outcome import Outcome, Status
from onnxlab.kit.progress import choose_track, record, standings
from onnxlab.kit.tracks import DECISIVE, _table, exercise_for, short_way
from onnxlab.notebook.labs.next_step import display_buttons, progress_map, way_on
from onnxlab.notebook.labs.standings import course_path, go_on, is_done, next_text, path_notes
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
    assert next_text(standings()[0]).startswith("Every chapter is done, and every exercise passed: ")


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


@pytest.mark.parametrize("chapter", [score.chapter for score in scores()])
def test_a_chapter_is_known_by_its_exercise_or_its_last_predictions(chapter, answer):
    """Each has a real one: an exercise of a lab, or three predictions, a grid's cells counted singly."""
    name, questions = exercise_for(chapter), answers._questions()[chapter]
    if name:
        end(name, Status.INCORRECT)
        assert not is_done(score_of(chapter)), "an attempt shows nothing"
        end(name)
        assert f"Pass {name} in {exercise(name)[0].name} " in short_way(chapter)
    else:
        book = json.loads((ROOT / "notebooks" / f"{chapter}.ipynb").read_text("utf-8"))
        outputs = [output for cell in book["cells"] for output in cell.get("outputs", ())]
        texts = ["".join(output.get("data", {}).get("text/plain", "")) for output in outputs]
        asked = {answers.key(text): max(1, text.count("?") - 1) for text in texts}
        assert sum(asked[question] for question in questions[-DECISIVE:]) >= DECISIVE
        for question in questions[-DECISIVE:-1]:
            answers.keep(question, {"right": True})
        answers.keep(questions[-1], {"right": False})
        assert not score_of(chapter).known
        answers.keep(questions[-1], {"right": True})
    assert score_of(chapter).known
    assert is_done(score_of(chapter))


def score_of(chapter: str) -> Score:
    return next(score for score in scores() if score.chapter == chapter)


def test_every_exercise_of_the_table_is_for_a_chapter():
    assert set(_table()["exercises"]) <= {score.chapter for score in scores()}


def test_a_known_chapter_is_skipped_and_the_terminal_says_so():
    assert "Pass loop-count-as-input in lab01_control_flow" in next_text(standings()[0])
    for record_of_lab in lab("lab01").exercises:
        end(record_of_lab.id)
    assert next_id() == "03_export_arguments", "00 to 02 are shown by lab01"
    assert path_notes(standings()[0]) == ["You know these chapters, so they are skipped: 00, 01, 02"]
    assert "Get its last 3 predictions right" in progress_map(standings()[0])


def test_go_on_follows_the_track_in_jupyterlab_too(answer):
    choose_track("phone")
    markup = progress_map(standings()[0])
    assert markup.startswith("<p>Go on: 04_dynamic_shapes</p><p>Track: I ship to a phone, ")
    end(FIRST.id)
    assert next_id(FIRST.id) == SECOND.id, "a lab that was begun goes on, though no part of the track"
    for chapter in ("04_dynamic_shapes", "10_backends_differ", "15_quantise"):
        answer(chapter)
    assert next_id() == lab("lab10").exercises[0].id
