"""A remark about this machine: shown while a kernel runs, never part of a saved notebook.

What a cell saves is the same everywhere, so that it can be compared; that a compiler was missing here is not.
"""

import html

import ipywidgets
from IPython.core.getipython import get_ipython

from onnxlab.notebook.language import said
from onnxlab.notebook.outputs import display_widget

__all__ = ["live_note"]


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
    note = said(f"On this machine: {said(text)}")
    display_widget(ipywidgets.HTML(f"<em>{html.escape(note)}</em>"))
