"""A cell's outputs in two forms: what stays in the saved notebook, and the live widget that takes its place.

The first output is HTML and text, the same on every run. The second is the widget and nothing else: tools
drop it from a committed notebook, and what is left is complete. Rules of CSS in the saved form hide it while
the widget below it lives.
"""

from collections.abc import Mapping
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.display import display

__all__ = ["display_html", "display_saved_and_live", "display_widget", "saved_steps_aside"]

_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


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
) -> None:
    """Show both forms.

    Args:
        markup: The saved form, with the rules that hide it while the widget is there.
        text: The saved form in words.
        widget: The live form.
        data: What else the saved notebook keeps, by MIME type.
    """
    display_html(markup, text, data)
    display_widget(widget)


def saved_steps_aside(name: str) -> str:
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
