"""`onnxlab record`: a page and a picture of what somebody has done."""

from xml.etree import ElementTree

import pytest

from onnxlab.cli import main
from onnxlab.course.record import make_record
from onnxlab.kit.exercise import exercise, lab, labs
from onnxlab.kit.outcome import Outcome, Status
from onnxlab.kit.progress import record
from onnxlab.notebook.predict import answers


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("ONNXLAB_STATE", str(tmp_path / "progress.json"))


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(picture) if element.tag.endswith("text")]


def test_a_track_on_a_page_and_a_picture(tmp_path, capsys):
    [quantise] = lab("lab10").exercises
    asinh = exercise("asinh-symbolic")[1]
    for one in (quantise, asinh):  # the second one is no part of the track
        record(Outcome(one.id, Status.PASSED, one.points, one.points))
    for question, right in zip(answers._questions()["10_backends_differ"], (True, False, True), strict=True):
        answers.keep(question, {"right": right})
    command = ["record", "--name", "Zoë <Ada> O'Hara", "--track", "phone", "--out", str(tmp_path / "out")]
    assert main(command) == 0
    assert "onnxlab-record.html" in capsys.readouterr().out
    page, picture = sorted((tmp_path / "out").iterdir())
    shown = texts(picture.read_text("utf-8"))
    assert shown[1:5] == [
        "Zoë <Ada> O'Hara",
        "I ship to a phone",
        "5 of 5 points in the labs",
        "2 of 3 chapters done",
    ]
    assert "onnxruntime 1." in shown[5]
    assert shown[6] == "The learner's own record, not signed"
    text = page.read_text("utf-8")
    assert picture.read_text("utf-8") in text
    assert "<tr><td>\u2713 15 · Quantise</td><td>known: quantise-to-8-bits</td></tr>" in text
    assert "<tr><td>\u2713 10 · Backends differ</td><td>2 of 3 predictions right</td></tr>" in text
    assert "<tr><td>\u2013 04 · Dynamic shapes</td><td>0 of 3 predictions right</td></tr>" in text
    assert "<tr><td>Lab 10: Quantise</td><td>5 / 5</td></tr>" in text
    assert "asinh" not in text
    assert "<Ada>" not in text


def test_the_whole_course_and_a_track_without_labs(tmp_path):
    every = {one.id: one.points for record_of_lab in labs() for one in record_of_lab.exercises}
    total = sum(every.values())
    shown = texts(make_record("Ada", every, answers.scores(), None).picture)
    assert shown[2:4] == ["The whole course", f"{total} of {total} points in the labs"]
    assert main(["record", "--name", "Ada", "--track", "two-hours", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "onnxlab-record.html").read_text("utf-8")
    assert "0 of 3 chapters done" in page
    assert "points" not in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--name", " "], "' ' cannot be the name on a record."),
        (["--name", "x" * 61], "1 to 60 characters"),
        (["--name", "eve\u202e"], "that can be seen"),
        (["--name", "Ada", "--track", "phones"], "There is no track 'phones'."),
        (["--name", "Ada", "--out", "taken"], "cannot be written"),
    ],
)
def test_what_cannot_be_is_refused_in_words(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").touch()
    assert main(["record", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("onnxlab-record*"))
