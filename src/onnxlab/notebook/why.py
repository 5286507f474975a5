"""`why(message)` in a notebook: what an error message means, what helps, and the section that explains it."""

import ipywidgets

from onnxlab.diagnosis.messages import Answer, explain
from onnxlab.diagnosis.symptom import explained
from onnxlab.notebook.labs.checks import message_box
from onnxlab.notebook.labs.next_step import display_buttons, section_link, way_output
from onnxlab.notebook.language import tr
from onnxlab.notebook.outputs import display_html, display_widget

_TONE = "#1f6feb"


def why(message: str | BaseException = "") -> None:
    """Show what an error message means and what helps; without one, a field into which it can be pasted.

    Args:
        message: The message, a whole traceback, or the exception itself.

    >>> why("Unsupported model IR version: 10, max supported IR version: 9")
    The file's format is newer than the installed ONNX Runtime.
    Update onnxruntime, or export with a smaller opset and lower ir_version.
    Explained in chapter 13_ship_it, section 1.
    """
    if message:
        _show(f"{type(message).__name__}: {message}" if isinstance(message, BaseException) else message)
        return
    note = tr('Paste an error message into the field, or write it into the call: why("...").')
    display_html(message_box(note, _TONE), note)
    field = ipywidgets.Textarea(layout={"width": "100%", "height": "6em"})
    display_buttons({tr("What does it mean?"): lambda: _show(field.value)}, above=[field])


def _show(message: str) -> None:
    known = explain(message)
    for answer in known:
        text = "\n".join(_lines(answer))
        display_html(message_box(text, _TONE), text)
    links = [section_link(answer.chapter, answer.section) for answer in known]
    if any(links):
        display_widget(way_output("".join(f"<p>{link}</p>" for link in links)))
    if not known:
        lines = [
            tr("No such message is known. Find the stage at which it appears:"),
            tr("capture: run torch.export.export(model, args) alone; translation: read the last exception;"),
            tr(
                "loading: run onnxlab doctor on the file; running: compare the feed with "
                "session.get_inputs()."
            ),
        ]
        display_html(message_box("\n".join(lines), _TONE), "\n".join(lines))


def _lines(answer: Answer) -> list[str]:
    lines = [tr(answer.cause), tr(answer.cure), tr(explained(answer.chapter, answer.section))]
    if answer.patient:
        call = f'`from onnxlab import patient; patient("{answer.patient}")`'
        lines.append(tr(f"To treat it, run {call}."))
    return lines
