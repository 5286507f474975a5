"""A remark about this machine: shown while a kernel runs, never part of a saved notebook.

What a cell saves is the same everywhere, so that it can be compared; that a compiler was missing here is not.
"""

import html

import ipywidgets
from IPython.core.getipython import get_ipython
from IPython.display import display

__all__ = ["live_note"]

_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def live_note(text: str) -> None:
    """Show a line of text in a running notebook.

    Args:
        text: The line; shown as it is, without markup.

    >>> live_note("no compiler found")
    no compiler found
    """
    if get_ipython() is None:
        print(text)
        return
    note = ipywidgets.HTML(f"<em>On this machine: {html.escape(text)}</em>")
    view = {"version_major": 2, "version_minor": 0, "model_id": note.model_id}
    display({_WIDGET_VIEW: view}, raw=True)
