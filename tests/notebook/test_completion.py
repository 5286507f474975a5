"""The text box of chapter 17: what is typed is continued, and the saved notebook keeps the first answer."""

import pytest

from onnxlab.notebook import completion as module
from onnxlab.notebook.completion import completion
from tests.support.small_decoder import decoder


@pytest.fixture
def live(monkeypatch):
    """The saved HTML and text, and the live widget's two parts, which do not wait between tokens."""
    shown = {}
    monkeypatch.setattr(module, "PAUSE", 0)
    monkeypatch.setattr(
        module,
        "display_saved_and_live",
        lambda markup, text, widget, hides: shown.update(saved=markup, text=text, parts=widget.children),
    )
    return shown


def test_the_saved_form_has_the_end_of_the_text_and_the_shape_of_the_cache(live):
    completion({"one": decoder()}, "ab", 4)
    assert live["text"] == "one:\nab<ab<\n(last step: 1 token in; cache: 1 x (1, 2, 5, 3))"
    assert "<pre><b>ab</b>&lt;ab&lt;</pre>" in live["saved"]
    assert "With a running kernel" in live["saved"]


def test_what_is_typed_is_continued_token_by_token(live):
    completion({"one": decoder()}, "ab", 4)
    box, view = live["parts"]
    updates = []
    view.observe(lambda change: updates.append(change["new"]), "value")
    box.value = "bb<a"
    assert len(updates) == 4
    for step, (text, shape) in enumerate(zip(["b", "b&lt;", "b&lt;a", "b&lt;ab"], range(4, 8), strict=True)):
        assert f"<pre><b>bb&lt;a</b>{text}</pre>" in updates[step]
        assert f"(1, 2, {shape}, 3)" in updates[step]
    assert "last step: 4 tokens in" in updates[0]
    assert "With a running kernel" not in view.value


def test_a_refusal_stands_beside_what_others_write(live):
    completion({"fixed": decoder(past="7"), "good": decoder()}, "ab", 2)
    fixed, good = live["text"].split("\n\n")
    assert fixed.startswith("fixed:\nab\n(refused: ")
    assert "cache" in fixed
    assert good.startswith("good:\nab<a\n")
    box, view = live["parts"]
    box.value = "a"
    assert "refused: " in view.value
    assert "<b>a</b>b&lt;" in view.value


def test_an_empty_prompt_says_what_to_do(live):
    completion({"one": decoder()}, "ab", 2)
    box, view = live["parts"]
    box.value = ""
    assert "type at least one character" in view.value


def test_bytes_that_are_no_text_are_shown_as_such(live):
    completion({"one": decoder()}, "\u00e9", 1)
    assert "\u00e9" in live["text"]
