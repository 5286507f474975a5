"""`why(message)` in a notebook: what an error message means, what helps, and the section that explains it."""

import sys
import traceback

import ipywidgets

from onnxlab.diagnosis.messages import explained
from onnxlab.language import tr
from onnxlab.notebook.labs.checks import message_box
from onnxlab.notebook.labs.next_step import display_buttons, section_link, way_output
from onnxlab.notebook.message_text import message_text
from onnxlab.notebook.outputs import display_html, display_widget

_TONE = "#1f6feb"


def why(message: str | BaseException = "") -> None:
    """Show what an error message means and what helps.

    Without a message it answers the last error of this notebook, and shows a field to paste another into.

    Args:
        message: The message, a whole traceback, or the exception itself.

    >>> why("Unsupported model IR version: 10, max supported IR version: 9")
    The file's format is newer than the installed ONNX Runtime.
      Update onnxruntime, or export with a smaller opset and lower ir_version.
      Explained in chapter 13_ship_it, section 1.
    """
    last: BaseException | None = getattr(sys, "last_value", None)
    if message or last is not None:
        _show(message or last or "")
    if message:
        return
    note = tr('Paste an error message into the field, or write it into the call: why("...").')
    display_html(message_box(note, _TONE), note)
    field = ipywidgets.Textarea(layout={"width": "100%", "height": "6em"})
    display_buttons({tr("What does it mean?"): lambda: _show(field.value)}, above=[field])


def _show(message: str | BaseException) -> None:
    if isinstance(message, BaseException):
        message = "".join(traceback.format_exception(message))
    said = message_text(message)
    place = ["  " + tr(explained(*said.place))] if said.place else []
    text = "\n".join([*said.before, *place, *said.after])
    display_html(message_box(text, _TONE), text)
    if said.place and (link := section_link(*said.place)):
        display_widget(way_output(f"<p>{link}</p>"))
