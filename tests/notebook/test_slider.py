"""A slider: the first answer stays in the file, and moving it shows another."""

import pytest
from PIL import Image

from onnxlab.history import recorded_graph
from onnxlab.notebook import slider as module
from onnxlab.notebook.graph.view import graph
from onnxlab.notebook.slider import slider


@pytest.fixture
def live(monkeypatch):
    """The saved HTML, and the live widget's two parts."""
    shown = {}
    monkeypatch.setattr(
        module,
        "display_saved_and_live",
        lambda markup, text, widget, hides: shown.update(saved=markup, text=text, parts=widget.children),
    )
    return shown


def test_the_first_answer_is_saved_and_a_moved_slider_shows_another(live):
    slider(lambda n: (f"<{n}>", "twice " + str(2 * n)), 2, 0, 9)
    assert "&lt;2&gt;" in live["saved"]
    assert "twice 4" in live["saved"]
    assert live["text"] == "<2>\ntwice 4"
    handle, view = live["parts"]
    handle.value = 3
    assert "twice 6" in view.value
    assert "twice 4" not in view.value


def test_an_answer_is_computed_once_for_each_number(live):
    numbers = []
    slider(lambda n: numbers.append(n) or str(n), 1, 0, 3)
    handle, view = live["parts"]
    for number in (2, 1, 2):
        handle.value = number
    assert numbers == [1, 2]
    assert "<p>2</p>" in view.value


def test_numbers_with_a_fraction_move_by_their_step(live):
    slider(lambda factor: f"{factor}", 1.5, 0.5, 3.0, step=0.25, name="factor")
    handle, view = live["parts"]
    handle.value = 1.75
    assert handle.description == "factor"
    assert handle.step == 0.25
    assert "<p>1.75</p>" in view.value


def test_pictures_and_what_has_html_stand_side_by_side(live):
    class Html:
        def _repr_html_(self):
            return "<b>bold</b>"

    slider(lambda n: (Html(), Image.new("L", (2, 2)), {n}), 1, 0, 3)
    _, view = live["parts"]
    assert "<div><b>bold</b></div>" in view.value
    assert 'src="data:image/png;base64,iVBOR' in view.value
    assert "<pre>{1}</pre>" in view.value
    assert "PIL" not in live["text"]
    assert live["text"].endswith("{1}")


def test_graphs_stand_side_by_side_as_pictures_without_words(live):
    recorded = graph(recorded_graph("1.8.1", "model_static"))
    slider(lambda n: (f"n = {n}", recorded, recorded), 1, 0, 3)
    assert live["saved"].count('<img alt="Graph of') == 2
    assert "<pre" not in live["saved"]
