"""How widgets are shown, also those of the ipywidgets that Colab has; and a note that is in no file."""

import ipywidgets
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from ipywidgets.widgets.widget import _instances

from onnxlab.notebook.outputs import display_widget, live_note

VIEW = "application/vnd.jupyter.widget-view+json"


class OldWidget:
    """As ipywidgets 7 has it: a widget displays itself and gives no bundle."""

    model_id = "0123abcd"


@pytest.fixture
def shown():
    """Give a function that shows something in a notebook and returns what the notebook gets."""

    def show(what, display=display_widget):
        InteractiveShell.instance()
        try:
            with capture_output() as captured:
                display(what)
        finally:
            InteractiveShell.clear_instance()
        return [output.data for output in captured.outputs]

    return show


def test_a_widget_is_shown_without_a_text(shown):
    widget = ipywidgets.VBox([])
    assert shown(widget) == [{VIEW: {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}}]


def test_a_widget_of_ipywidgets_7_is_shown_in_the_same_way(shown):
    assert shown(OldWidget()) == [{VIEW: {"version_major": 2, "version_minor": 0, "model_id": "0123abcd"}}]


def test_in_a_terminal_nothing_is_shown(capsys):
    display_widget(ipywidgets.VBox([]))
    assert capsys.readouterr().out == ""


def test_in_a_terminal_a_note_is_printed(capsys):
    live_note("no compiler")
    assert capsys.readouterr().out == "no compiler\n"


def test_in_a_notebook_a_note_is_a_widget_and_nothing_else(shown):
    [data] = shown("<b>no</b> compiler", live_note)
    assert list(data) == [VIEW]
    assert "&lt;b&gt;no&lt;/b&gt; compiler" in _instances[data[VIEW]["model_id"]].value
