"""`why(message)` in a notebook: what an error message means and what helps; `onnxlab why` shows the same."""

import sys
import traceback

from onnxlab.diagnosis.messages import explain, explained, read
from onnxlab.errors import OnnxLabError
from onnxlab.notebook.language import tr

__all__ = ["answer_lines", "why"]


def why(message: str | BaseException | None = None) -> None:
    """Show what an error message means, and what helps.

    Args:
        message: The message, a whole traceback, or the exception; by default the last error of this notebook.

    Raises:
        OnnxLabError: If there was no error and no message is given.
    """
    if message is None:
        message = getattr(sys, "last_value", None)
    if message is None:
        raise OnnxLabError("There was no error yet.", "", 'Give the message: why("...").')
    if isinstance(message, BaseException):
        message = "".join(traceback.format_exception(message))
    print("\n".join(answer_lines(message)))


def answer_lines(text: str) -> list[str]:
    """Return what is shown for a message: the answer, or the stage and how to narrow it down there."""
    message, known = read(text), explain(text)
    lines = [tr(f"Your line: {message.line}")] if message.line else []
    if known:
        first, *others = known
        if first.certainty == "kind":
            lines.append(tr("The kind of fault is known, not this message:"))
        lines += [tr(first.cause), "  " + tr(first.cure), "  " + tr(explained(*first.place))]
        if first.patient:
            lines.append("  " + tr(f'To treat it, open patient("{first.patient}") in a notebook.'))
        if others:
            lines += ["", tr("Less likely:"), *("  " + tr(answer.cause) for answer in others)]
    elif stage := message.stage:
        lines += [tr("This message is not known."), tr(f"It comes from {stage.title}."), tr(stage.what)]
        lines += ["  - " + tr(step) for step in stage.steps]
        lines.append("  " + tr(explained(stage.chapter, stage.section)))
    else:
        lines += [
            tr("No such message is known. Find the stage at which it appears:"),
            "  "
            + tr(
                "capture: run torch.export.export(model, args) alone; translation: read the last exception;"
            ),
            "  "
            + tr(
                "loading: run onnxlab doctor on the file; running: compare the feed with "
                "session.get_inputs()."
            ),
        ]
    return lines
