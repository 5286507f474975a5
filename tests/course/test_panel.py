"""What the course's panel in JupyterLab says; the browser's tests look at it."""

import json
import os
import shutil
from pathlib import Path

import pytest

from onnxlab.course.panel import course
from onnxlab.kit.progress import change_entry, standings, state_file
from onnxlab.kit.tracks import exercise_for
from onnxlab.notebook.labs.standings import path_notes
from onnxlab.notebook.predict.answers import answers_file, keep

ROOT = Path(__file__).parents[2]
KEYS = json.loads((ROOT / "src/onnxlab/assets/predictions.json").read_text("utf-8"))
WORDS = "Unsupported model IR version: 10, max supported IR version: 9"


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("ONNXLAB_STATE", str(tmp_path / "progress.json"))


def entry(reply, name):
    return next(step for step in reply["steps"] if name in step["path"])


def test_it_says_how_the_learner_stands_with_each_chapter_and_lab():
    for number, question in enumerate(KEYS["02_trace_and_script"]):
        keep(question, {"right": number > 0})
    change_entry("loop-count-as-input", lambda kept: kept.update(passed=True, attempts=2))
    reply = course(ROOT, "en", {})
    assert entry(reply, "02_trace") == {
        "path": "notebooks/02_trace_and_script.ipynb",
        "title": "02 \u00b7 Trace and script",
        "note": "50 minutes \u00b7 4 of 4 predictions answered, 3 right",
        "state": "done",
    }
    lab = entry(reply, "lab01")
    assert (lab["note"], lab["state"]) == ("35 minutes \u00b7 3 of 7 points", "begun")
    assert entry(reply, "03_export")["state"] == "open"
    assert reply["steps"].index(lab) == 3, "a lab stands after its chapter"
    assert reply["next"]["title"] == "Keep both sides of a branch, in either exporter"
    assert reply["next"]["place"].startswith("#cell-id=")
    assert not reply["notes"]


def test_a_chapter_that_is_known_says_so_and_the_next_one_how_to_skip_it():
    keep(KEYS["02_trace_and_script"][0], {"right": False})
    reply = course(ROOT, "en", {})
    assert "02_trace" in reply["next"]["path"]
    assert "to skip it" in reply["next"]["hints"][0]
    change_entry(exercise_for("02_trace_and_script"), lambda kept: kept.update(passed=True))
    assert entry(course(ROOT, "en", {}), "02_trace")["state"] == "known"


def test_a_hint_is_given_and_counted_until_there_is_none():
    change_entry("loop-count-as-input", lambda kept: kept.update(attempts=1))
    for number in (1, 2, 3):
        upcoming = course(ROOT, "en", {"hint": "loop-count-as-input"})["next"]
        assert len(upcoming["hints"]) == number
    assert upcoming["exercise"] == ""


def test_a_track_is_followed_and_left_and_no_other_one_is_kept():
    reply = course(ROOT, "en", {"track": "phone"})
    assert reply["steps"][-1]["path"] == "labs/lab10_quantise.ipynb"
    assert len(reply["steps"]) == 4
    refused = course(ROOT, "en", {"track": "nowhere"})
    assert refused["track"] == "phone"
    assert refused["notes"][0].startswith("There is no track 'nowhere'.\nThe tracks are two-hours, ")
    for whole in ("all", ""):  # as for the commands
        course(ROOT, "en", {"track": "phone"})
        reply = course(ROOT, "en", {"track": whole})
        assert (reply["track"], reply["notes"]) == ("", [])
        assert len(reply["steps"]) > 40


def test_a_track_of_an_earlier_course_is_said_and_the_course_goes_on():
    change_entry("onnxlab", lambda kept: kept.update(track="retired"))
    reply = course(ROOT, "en", {})
    assert reply["notes"][0].startswith("There is no track 'retired'.\nThe tracks are two-hours, ")
    assert path_notes(standings()[0]) == reply["notes"]
    assert len(reply["steps"]) > 40


def test_of_a_message_of_ten_megabytes_the_end_is_read_and_that_is_said():
    cut = course(ROOT, "en", {"why": "site-packages/" * 700_000 + WORDS})
    assert cut["before"][0] == "The message has 9,800,061 characters; the last 50,000 were read."
    assert cut["before"][1:] == course(ROOT, "en", {"why": WORDS})["before"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_message_is_answered_with_the_place_that_explains_it(language, tmp_path):
    reply = course(ROOT, language, {"why": WORDS})
    path = ROOT / reply["chapter"]["path"]
    assert (path.parent.name == "zh") == (language == "zh")
    cells = json.loads(path.read_text("utf-8"))["cells"]
    (cell,) = (cell for cell in cells if reply["chapter"]["place"] == f"#cell-id={cell['id']}")
    assert cell["source"][0].startswith("## 1.")
    assert "chapter" not in course(ROOT / "docs", language, {"why": WORDS})
    explained = tmp_path / reply["chapter"]["path"]
    explained.parent.mkdir(parents=True)
    explained.write_text("[" * 100_000, "utf-8")
    assert course(tmp_path, language, {"why": WORDS})["chapter"]["place"] == ""


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "{",
        "[]",
        '{"cells": [{"source": 1}]}',
        '{"cells": []}',
        '{"cells": [{"source": []}]}',
        "[" * 100_000,
    ],
)
def test_a_broken_notebook_stays_in_the_list(broken, tmp_path):
    for folder in ("notebooks", "labs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "notebooks" / "01_first_deployment.ipynb").write_text(broken, "utf-8")
    os.mkfifo(tmp_path / "notebooks" / "03_export_arguments.ipynb")  # which nobody writes into
    shutil.copy(ROOT / "notebooks" / "02_trace_and_script.ipynb", tmp_path / "notebooks")
    titles = [step["title"] for step in course(tmp_path, "en", {})["steps"]]
    assert titles == ["01_first_deployment", "02 \u00b7 Trace and script"]


def test_damaged_records_and_a_folder_without_the_course_are_said(tmp_path):
    state_file().write_text("[", "utf-8")
    answers_file().write_text("]", "utf-8")
    reply = course(tmp_path, "en", {})
    assert len(reply["notes"]) == 2
    assert str(tmp_path) in reply["notes"][1]
    assert not reply["steps"]
    assert reply["next"] is None
    assert "minutes" not in str(reply["tracks"])
