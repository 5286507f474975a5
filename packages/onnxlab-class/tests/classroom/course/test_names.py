"""Learners named as a class's folders and labs, and as each other in another Unicode form."""

import csv
import json
import unicodedata
from pathlib import Path

import pytest

from onnxlab import cli
from onnxlab.kit.exercise import LABS, lab
from onnxlab.kit.outcome import Outcome, Status
from onnxlab_class.classroom.course.folder import _PRIVATE
from onnxlab_class.classroom.hub.homes import give_feedback, take_labs
from onnxlab_class.classroom.names import is_reserved
from onnxlab_class.grading.reports import write_reports
from onnxlab_class.grading.results import Ledger
from onnxlab_class.grading.submissions import find, safe_name

LAB = "lab04_asinh"
FILE = f"{LAB}.ipynb"
PLACES = (
    "submitted",
    "learners",
    "release",
    "source",
    "autograded",
    "feedback",
    "settings",
    "hub",
    "exchange",
)
FORMS = ("ren\u00e9", unicodedata.normalize("NFD", "ren\u00e9"), "rene", "Rene", "\uff52\uff45\uff4e\uff45")
HOME_OWNERS = ("ada", *PLACES, "lab04", *FORMS)


def notebook(of: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": f"answer = {of!r}"}]})


@pytest.fixture
def homes(tmp_path: Path) -> Path:
    """Homes of learners with all these names; some would pass for a class if names counted."""
    for name in HOME_OWNERS:
        (tmp_path / "homes" / name / "labs").mkdir(parents=True)
        (tmp_path / "homes" / name / "labs" / FILE).write_text(notebook(name), "utf-8")
        (tmp_path / "homes" / name / "ada" / "labs").mkdir(parents=True)
        (tmp_path / "homes" / name / "ada" / "labs" / FILE).write_text(notebook("forged"), "utf-8")
    return tmp_path / "homes"


@pytest.mark.parametrize(
    "name",
    [
        *_PRIVATE,
        *PLACES,
        *LABS,
        *(name.partition("_")[0] for name in LABS),
        *("lab4", "LAB_04", "lab99", "labs", "class.json", "gradebook.db", "nbgrader_config.py"),
        *(
            "Submitted",
            "LEARNERS",
            " source ",
            "re\u017fults",
            "\uff53\uff55\uff42\uff4d\uff49\uff54\uff54\uff45\uff44",
        ),
    ],
)
def test_names_of_places_and_labs_are_reserved_in_any_form(name):
    assert is_reserved(name)


@pytest.mark.parametrize(
    "name", ["ada", "submit", "label", "lab", "laboratory", "hubert", "ada-lab", "ren\u00e9"]
)
def test_other_names_are_free(name):
    assert not is_reserved(name)


def test_everybodys_own_lab_is_taken_whatever_they_are_called(homes, tmp_path):
    collected = take_labs(homes, tmp_path / "taken")
    assert collected.files == dict.fromkeys(HOME_OWNERS, 1)
    assert collected.left == ()
    for name in HOME_OWNERS:
        assert (tmp_path / "taken" / name / FILE).read_text("utf-8") == notebook(name)


def test_everybodys_page_gets_into_their_own_home_whatever_they_are_called(homes, tmp_path):
    pages = tmp_path / "results" / "feedback"
    pages.mkdir(parents=True)
    for name in HOME_OWNERS:
        (pages / f"{safe_name(name)}.html").write_text(name, "utf-8")
    assert len({page.name.casefold() for page in pages.iterdir()}) == len(HOME_OWNERS)
    assert give_feedback(homes, tmp_path / "results").files == dict.fromkeys(HOME_OWNERS, 1)
    for name in HOME_OWNERS:
        assert (homes / name / "feedback" / "results.html").read_text("utf-8") == name


@pytest.mark.parametrize("course", [False, True])
def test_everybody_is_a_row_whatever_they_are_called(homes, tmp_path, course):
    root = tmp_path / "my-class"
    taken = root / "submitted" if course else root
    take_labs(homes, taken)
    if course:
        (root / "class.json").write_text("{}")
        (root / "submitted" / "mallory").mkdir()
        (root / "submitted" / "mallory" / "notes.ipynb").write_text(notebook("mallory"))
        (root / "learners" / "carol").mkdir(parents=True)
        (root / "from-mail").mkdir()
        (root / "from-mail" / FILE).write_text(notebook("late"))
    intake = find(root)
    # A folder with a lab's name holds single files; whose this one is, nothing says.
    assert {one.student for one in intake.submissions} == {*HOME_OWNERS} - {"lab04"}
    with Ledger(tmp_path / "out", {"level": "full"}) as ledger:
        for one in intake.submissions:
            first = lab(LAB).exercises[0]
            ledger.record(one, [Outcome(first.id, Status.PASSED, first.points, first.points)])
        write_reports(ledger, lambda model, marked: "", ignored=intake.ignored, without=intake.without)
    table = csv.DictReader((tmp_path / "out" / "grades.csv").read_text("utf-8").splitlines())
    rows = {row["student"]: row for row in table}
    others = {f"lab04/{FILE}": "not taken"}
    if course:
        others |= {"mallory": "not taken", "carol": "not submitted"}
        assert (root / "from-mail") in [path for path, _ in intake.ignored]
    assert rows.keys() == {*HOME_OWNERS, *others} - {"lab04"}
    page = (tmp_path / "out" / "index.html").read_text("utf-8")
    for name, status in others.items():
        assert rows[name][f"{lab(LAB).exercises[0].id} status"] == status
        assert rows[name]["total"] == ("0" if status == "not submitted" else "")
        assert f"<bdi>{name}</bdi>" in page


def test_a_student_called_submitted_hides_nobody_at_the_command(tmp_path, capsys):
    for name in ("ada", "bob", "submitted"):
        (tmp_path / "class" / name).mkdir(parents=True)
        (tmp_path / "class" / name / "notes.ipynb").write_text("{}")
    assert cli.main(["grade", str(tmp_path / "class"), "--out", str(tmp_path / "out")]) == 2
    printed = capsys.readouterr().out
    for name in ("ada", "bob", "submitted"):
        assert f"class/{name}/notes.ipynb: Neither" in printed
