"""Saved and live forms on a page without JupyterLab's class names, as VS Code and Colab have it.

Both put the outputs of a cell below each other, each in an element of its own. Scripts, states and answers of
the widgets are the real ones; only the channel between them is this file's.
"""

import base64
import json
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from ipywidgets.widgets.widget import Widget, _instances
from playwright.sync_api import Browser, Page, expect

from onnxlab.notebook.graph.view import GraphView, graph
from onnxlab.notebook.labs.progress import progress
from onnxlab.notebook.outputs import _WIDGET_VIEW as VIEW
from onnxlab.notebook.outputs import InSight
from onnxlab.notebook.predict.prediction import predict, predict_grid
from onnxlab.notebook.slider import slider
from tests.support.graph_models import chain

# A widget as its front end makes it: a model has state and events, a message goes to Python and is answered.
RENDER = """async ({ name, script, state }) => {
  const listeners = new Map();
  const of = (event) => listeners.get(event) ?? [];
  const emit = (event, ...details) => of(event).forEach((listener) => listener(...details));
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const model = {
    get: (name) => state[name],
    set(name, value) { state[name] = value; emit(`change:${name}`); },
    save_changes() {},
    on: (event, listener) => listeners.set(event, [...of(event), listener]),
    off: (event, listener) => listeners.set(event, of(event).filter((other) => other !== listener)),
    async send(message) {
      const [content, buffers] = JSON.parse(await answer(name, JSON.stringify(message)));
      emit('msg:custom', content, buffers.map(bytes));
    },
  };
  const file = new Blob([script], { type: 'text/javascript' });
  const { default: widget } = await import(URL.createObjectURL(file));
  const el = document.createElement('div');
  const end = widget.render({ model, el });   // before the element is in the page
  document.getElementById(name).append(el);
  (globalThis.ends ??= []).push(end);
}"""


@pytest.fixture
def shown() -> list[dict[str, Any]]:
    """What cells with each kind of widget send to a notebook, by MIME type."""
    InteractiveShell.instance()
    try:
        with capture_output() as captured:
            predict("How often?", ["once", "twice"])
            predict_grid(["static"], ["batch of 1"], ["runs", "fails"])
            graph(chain(), highlight={"nowhere": "red"})._ipython_display_()
            progress()
            slider(lambda n: f"{n} times", 2, 0, 9)
    finally:
        InteractiveShell.clear_instance()
    return [output.data for output in captured.outputs]


@pytest.fixture
def page(browser: Browser):
    page = browser.new_page()
    page.set_default_timeout(60_000)
    yield page
    page.close()


def leaves(widget: Widget) -> list[Widget]:
    """The widgets whose scripts show or hide a form, in a box or alone."""
    children = getattr(widget, "children", None)
    if children is None:
        return [widget] if hasattr(widget, "_esm") and not isinstance(widget, InSight) else []
    return [leaf for child in children for leaf in leaves(child)]


def answer(widgets: dict[str, Widget], name: str, message: str) -> str:
    """What a widget in Python answers to a message of its script."""
    widget, answers = widgets[name], []
    if isinstance(widget, GraphView):
        widget.send = lambda content, buffers: answers.append((content, buffers))
        widget._handle_custom_msg(json.loads(message), [])
    [(content, buffers)] = answers
    return json.dumps([content, [base64.b64encode(data).decode() for data in buffers]])


def test_a_live_form_hides_its_saved_form_and_no_other(page: Page, shown: list[dict[str, Any]]):
    widgets: dict[str, Widget] = {}
    outputs = []
    for number, data in enumerate(shown):
        if VIEW in data:
            inside = leaves(_instances[data[VIEW]["model_id"]])
            names = {f"w{number}-{at}": widget for at, widget in enumerate(inside)}
            assert names
            widgets |= names
            outputs.append("".join(f'<div id="{name}">live</div>' for name in names))
        else:
            outputs.append(f'<div class="saved-output">{data["text/html"]}</div>')
    page.expose_function("answer", lambda name, message: answer(widgets, name, message))
    page.set_content("".join(f'<div class="output">{output}</div>' for output in outputs))
    saved = page.locator(".saved-output")
    expect(saved).to_have_count(5)
    assert all(output.is_visible() for output in saved.all())
    names = list(widgets)
    for number, name in enumerate(names):
        state = {key: value for key, value in widgets[name].get_state().items() if not key.startswith("_esm")}
        state |= {"_sent": []} if "_sent" in state else {}  # the script asks for the bytes instead
        state = json.loads(json.dumps(state, default=str))
        page.evaluate(RENDER, {"name": name, "script": widgets[name]._esm, "state": state})
        expect(saved.nth(number)).to_be_hidden()
        assert [output.is_visible() for output in saved.all()] == [False] * (number + 1) + [True] * (
            4 - number
        )
    assert page.get_by_text("How often?").locator("visible=true").count() == 1
    page.evaluate("() => ends.forEach((end) => end())")  # a front end takes the live forms away
    for output in saved.all():
        expect(output).to_be_visible()
