"""What is said of an error message, in notebooks and terminals: without torch, IPython or widgets."""

from dataclasses import dataclass

from onnxlab.diagnosis.messages import explain, read
from onnxlab.language import tr

LONGEST = 50_000
"""The most characters of a message that are read: a second of work, a few for the worst of texts."""


@dataclass(frozen=True)
class MessageText:
    """What is said of a message.

    Attributes:
        before: The lines up to where it is explained: cause and fix; or the stage, and how to go on there.
        place: The chapter and the section that explain it; None for a message of no known stage.
        after: The lines below: a patient, and what is less likely.
        known: Whether there is an answer.
    """

    before: list[str]
    place: tuple[str, str] | None
    after: list[str]
    known: bool


def message_text(text: str) -> MessageText:
    """Return what is said of a message: the answer, or the stage that it comes from."""
    end = text[-LONGEST:]
    message, known = read(end), explain(end)
    before = []
    if len(end) < len(text):
        count, most = len(text), len(end)
        line = tr(
            "The message has {count:,} characters; the last {most:,} were read.", count=count, most=most
        )
        before.append(line)
    if message.line:
        before.append(tr("Your line: {line}", line=message.line))
    after: list[str] = []
    if known:
        first, *others = known
        if first.certainty == "kind":
            before.append(tr("The kind of fault is known, not this message:"))
        before += [tr(first.cause), "  " + tr(first.fix)]
        if first.patient:
            after.append(
                "  " + tr('To treat it, open patient("{first.patient}") in a notebook.', first=first)
            )
        if others:
            after += ["", tr("Less likely:"), *("  " + tr(answer.cause) for answer in others)]
        return MessageText(before, first.place, after, known=True)
    if stage := message.stage:
        before += [
            tr("This message is not known."),
            tr("It comes from {stage.title}.", stage=stage),
            tr(stage.what),
        ]
        before += ["  - " + tr(step) for step in stage.steps]
        return MessageText(before, (stage.chapter, stage.section), after, known=False)
    before += [
        tr("No such message is known. Find the stage at which it appears:"),
        "  "
        + tr("capture: run torch.export.export(model, args) alone; translation: read the last exception;"),
        "  "
        + tr("loading: run onnxlab doctor on the file; running: compare the feed with session.get_inputs()."),
    ]
    return MessageText(before, None, after, known=False)
