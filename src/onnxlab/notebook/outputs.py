"""A cell's outputs in two forms: what stays in the saved notebook, and the live widget that takes its place.

The first output is HTML and text, the same on every run. The second is the widget and nothing else: tools
drop it from a committed notebook, and what is left is complete. While the widget lives, it hides the saved
form above it (hide_saved.js). In JupyterLab, CSS in the saved form does so, too, and hides the widget's empty
place where there is no kernel.
"""

import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import traitlets
from IPython.core.getipython import get_ipython
from IPython.display import display

from onnxlab.language import tr

IN_SIGHT = Path(__file__).with_name("in_sight.js").read_text("utf-8")
"""The functions `bringIntoSight`, `verdictOf` and `bringVerdictIntoSight`, for the scripts of widgets."""

_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def hiding_script(script: str) -> str:
    """Return a widget's script with the function `hideSaved(el, selector)`."""
    return f"{Path(__file__).with_name('hide_saved.js').read_text('utf-8')}\n{script}"


class InSight(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget ships no types
    """Stands below what a person waits for, a cell's report or what a click has put out: it stays in sight.

    Only a widget that was made by a run moves the page, and once: never a notebook that is opened again.
    """

    _esm = (
        IN_SIGHT
        + """
export default { render: ({ model, el }) => {
  if (!model.get('fresh')) return;
  model.set('fresh', false);
  model.save_changes();
  const report = () => verdictOf(el.closest('.jp-Cell'), '.onnxlab-report');
  bringIntoSight(model.get('clicked') ? () => el.closest('.jp-OutputArea') : report);
} };
"""
    )
    clicked = traitlets.Bool(False).tag(sync=True)
    fresh = traitlets.Bool(True).tag(sync=True)


class _Hider(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget ships no types
    """Hides the saved form of a live one that has no script of its own."""

    _esm = hiding_script(
        "export default { render: ({ model, el }) => hideSaved(el, model.get('selector')) };"
    )
    selector = traitlets.Unicode().tag(sync=True)


def display_html(markup: str, text: str, data: Mapping[str, Any] | None = None) -> None:
    """Show HTML in a notebook, text in a terminal; in the saved notebook, keep data beside them."""
    if get_ipython() is None:
        print(text)
    else:
        display({"text/html": markup, "text/plain": text, **(data or {})}, raw=True)


def display_widget(widget: Any) -> None:  # noqa: ANN401 - ipywidgets and anywidget ship no types
    """Show a widget in a running notebook, without a text of its own; show nothing elsewhere."""
    if get_ipython() is None:
        return
    if not hasattr(widget, "_repr_mimebundle_"):  # a widget of ipywidgets 7, which is what Colab has
        view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
        display({_WIDGET_VIEW: view}, raw=True)
        return
    bundle = widget._repr_mimebundle_()
    # anywidget gives metadata, too: what Colab wants to know about a widget.
    data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
    if _WIDGET_VIEW in data:
        display({_WIDGET_VIEW: data[_WIDGET_VIEW]}, metadata=metadata, raw=True)


def display_saved_and_live(
    markup: str,
    text: str,
    widget: Any,  # noqa: ANN401 - as above
    data: Mapping[str, Any] | None = None,
    *,
    hides: str = "",
) -> None:
    """Show both forms.

    Args:
        markup: The saved form, with the rules that hide it while the widget is there.
        text: The saved form in words.
        widget: The live form.
        data: What else the saved notebook keeps, by MIME type.
        hides: The saved form, as a CSS selector, where the widget's own script does not hide it.
    """
    display_html(markup, text, data)
    display_widget(ipywidgets.VBox([widget, _Hider(selector=hides)]) if hides else widget)


class SavedAndLive:
    """Has a saved and a live form; shown by the call that makes it or at a cell's end, but once in a cell."""

    _widget: Any
    _shown_in: int | None = None

    def saved(self) -> str:
        """The HTML that stays in the saved notebook."""
        raise NotImplementedError

    def show(self) -> None:
        """Display the saved form and the widget."""
        self._shown_in = _cell()
        display_saved_and_live(self.saved(), repr(self), self._widget)

    def _ipython_display_(self) -> None:
        # `predict(...)` as the last line of a cell has been shown by the call already.
        if self._shown_in is None or self._shown_in != _cell():
            self.show()


def hiding_css(name: str) -> str:
    """Give the rules of CSS that hide a saved form while its live form stands below it.

    They also hide the empty place of a live form that has no kernel.

    Args:
        name: The class of both forms, which have the class `saved` or `live` besides.
    """
    return f"""
.jp-OutputArea-child:has(.{name}.saved):has(+ .jp-OutputArea-child .{name}.live)
  {{ display: none; }}
.jp-OutputArea-child:has(.{name}.saved) + .jp-OutputArea-child > .jupyter-widgets:not(:has(*))
  {{ display: none; }}"""


def live_note(text: str) -> None:
    """Show a remark about this machine, as it is, in a running notebook; the saved notebook does not have it.

    >>> live_note("no compiler found")
    no compiler found
    """
    if get_ipython() is None:
        print(text)
        return
    note = tr("On this machine: {tr_text}", tr_text=tr(text))
    display_widget(ipywidgets.HTML(f"<em>{html.escape(note)}</em>"))


def _cell() -> int | None:
    shell = get_ipython()
    return None if shell is None else shell.execution_count
