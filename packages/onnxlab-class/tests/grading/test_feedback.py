"""Feedback pages: they have all that helps a student, and nothing in them that a student wrote is active."""

import re
from html.parser import HTMLParser

import pytest
from onnx import helper

from class_support.graded_class import EXERCISES, HOSTILE, LAB, SCRIPT, evidence, outcomes, submission
from onnxlab.errors import OnnxLabError
from onnxlab_class.grading.reports import remembering, write_feedback
from onnxlab_class.grading.results import Ledger
from onnxlab_class.grading.submissions import safe_name

SEED = 2**100 + 987654321012
STUDENTS = ["ada", "bob", *HOSTILE]


def picture(model, highlight) -> str:
    return f'<img alt="{len(model)} bytes" src="data:image/png;base64,AAAA">'


class Tags(HTMLParser):
    """Collects the tags and attributes that a browser acts on."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.links: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    return tags


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "out"
    with Ledger(folder, {"level": "full"}, SEED) as ledger:
        for number, student in enumerate(STUDENTS):
            shown = {exercise.id: evidence() for exercise in EXERCISES[:2]}
            note = f"cell 1: {SCRIPT}\ncell 2: \x1b[2J"
            ledger.record(submission(student), outcomes(number), evidence=shown, note=note)
        pages = write_feedback(
            folder,
            ledger.rows(),
            picture,
            failures={("eve", LAB): f"died {SCRIPT}", ("ada", LAB): "died"},
            ignored=[(folder / SCRIPT, "It is a link.")],
        )
    assert pages == len(STUDENTS)
    return folder


def test_pages_are_well_formed_and_inert(out):
    pages = [*(out / "feedback").iterdir(), out / "index.html"]
    assert len(pages) == len(STUDENTS) + 1
    for path in pages:
        text = path.read_text("utf-8")
        tags = parsed(text)
        assert not tags.seen & {"script", "iframe", "object", "embed", "link", "form", "svg", "b"}
        assert tags.handlers == []
        assert all(
            re.match(r"data:image/|feedback/[a-z0-9_-]+\.html$|\w+\.(csv|html)$", link) for link in tags.links
        )
        assert str(SEED) not in text
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)
        assert "default-src 'none'" in text
        assert "prefers-color-scheme: dark" in text


def test_page_says_what_helps(out):
    text = (out / "feedback" / "bob.html").read_text("utf-8")
    assert f"0 of {sum(exercise.points for exercise in EXERCISES)} points" in text
    assert "in the lab you handed in</span></h1>" in text
    for shown in (
        "The largest difference is 0.1, <code>atol</code> is 1e-5",
        "<dt>right is:</dt><dd>1.5</dd>",
        "<em>Look at:</em> the node <code>Log</code>",
        "In your code, line 3:",
        "NameError",
        "Not ready after 20 seconds",
        "not attempted",
        "Your model",
        "What was expected",
        "run from top to bottom",
        EXERCISES[0].title,
    ):
        assert shown in text
    assert "not graded yet" not in text
    assert "not graded yet" in (out / "feedback" / "ada.html").read_text("utf-8")
    assert "in the lab graded so far</span></h1>" in (out / "feedback" / "ada.html").read_text("utf-8")
    assert "died" not in (out / "feedback" / "ada.html").read_text("utf-8")


def test_no_judges_source_and_no_other_student(out):
    text = (out / "feedback" / "bob.html").read_text("utf-8")
    assert "def " not in text
    assert "raise Wrong" not in text
    assert "ada" not in text.replace("radad", "")


def test_index_lists_everybody_and_everything_left_out(out):
    text = (out / "index.html").read_text("utf-8")
    for student in STUDENTS:
        assert f"feedback/{safe_name(student)}.html" in text
        assert (out / "feedback" / f"{safe_name(student)}.html").is_file()
    assert "It is a link." in text
    assert f"eve, {LAB}" in text
    assert SCRIPT not in text


def test_same_picture_is_drawn_once_and_a_failed_one_is_said(out):
    drawings = []

    def failing(model, highlight):
        drawings.append(model)
        msg = "no layout"
        raise OnnxLabError(msg)

    for path in (out / "evidence").glob("drawn-*"):
        path.unlink()
    for _ in range(2):  # also in two runs
        with Ledger(out, {"level": "full"}) as ledger:
            write_feedback(out, ledger.rows(), failing)
    assert len(drawings) == 1
    assert "could not be drawn" in (out / "feedback" / "bob.html").read_text("utf-8")


def test_a_graph_that_takes_long_to_draw_is_not_drawn():
    names = [f"x{number}" for number in range(300)]
    inputs = [helper.make_tensor_value_info(name, 1, [1]) for name in names]
    outputs = [helper.make_tensor_value_info("y", 1, [1])]
    graph = helper.make_graph([helper.make_node("Sum", names, ["y"])], "g", inputs, outputs)

    def draw(model, highlight):
        raise AssertionError

    shown = remembering(draw)(helper.make_model(graph).SerializeToString(), ())
    assert "too large to be drawn" in shown


def test_evidence_that_is_gone_costs_only_the_picture(out):
    for path in (out / "evidence").iterdir():
        path.unlink()
    with Ledger(out, {"level": "full"}) as ledger:
        assert write_feedback(out, ledger.rows(), picture) == len(STUDENTS)
    text = (out / "feedback" / "bob.html").read_text("utf-8")
    assert "<img" not in text
    assert "right is" in text


def test_run_that_graded_nothing_has_an_index(tmp_path):
    assert write_feedback(tmp_path, [], picture) == 0
    parsed((tmp_path / "index.html").read_text("utf-8"))
