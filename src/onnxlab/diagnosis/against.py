"""A file compared with the PyTorch module of a factory, in a process of its own."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from onnxlab.diagnosis.symptom import Symptom
from onnxlab.errors import OnnxLabError
from onnxlab.message import Message, with_templates
from onnxlab.runtime.apart import Ended, run_apart

CAUSES = ("division", "masked", "scatter", "window")
"""What the structure of a file can tell of why it is wrong."""


class NoReference(OnnxLabError):
    """There is no such factory, or it does not return a module and its inputs."""


@dataclass(frozen=True)
class Compared:
    """The comparison of a file with a module.

    Attributes:
        symptoms: What was found; a note where nothing differs.
        tried: What was compared, in a sentence.
        not_tried: What PyTorch refused, in a sentence.
    """

    symptoms: tuple[Symptom, ...]
    tried: str = ""
    not_tried: str = ""


def against(path: Path, name: str, given: Path | None, known: Sequence[Symptom], seconds: float) -> Compared:
    """Compare a file with the module of a factory; either can end the process, or never end.

    Args:
        path: The file.
        name: "package.module:factory" or "path/to/file.py:factory".
        given: Further inputs, as for `read_values`.
        known: What else was found in the file: it may be the cause.
        seconds: How long the comparison may take.

    Raises:
        NoReference: If there is no such factory.
    """
    options = {
        "path": str(path.absolute()),
        "name": name,
        "given": str(given.absolute()) if given else "",
        "cause": next((asdict(symptom) for symptom in known if symptom.lesson in CAUSES), None),
        "imports": [entry for entry in sys.path if os.path.isabs(entry)],  # noqa: PTH117 - an entry is a text
    }
    module, folder = "onnxlab.diagnosis.reference", Path.cwd()  # the factory may read files there
    reports, ended = run_apart(module, [json.dumps(with_templates(options))], folder, seconds)
    last = {report["step"]: report for report in reports}
    if "no reference" in last:
        raise NoReference(*last["no reference"]["lines"])
    if "compared" in last:
        compared = last["compared"]
        symptoms = tuple(Symptom(**symptom) for symptom in compared["symptoms"])
        return Compared(symptoms, compared["tried"], compared["not_tried"])
    symptom = _unfinished(ended, seconds, last.get("running", {}).get("inputs", ""))
    return Compared((symptom,))


def _unfinished(ended: Ended, seconds: float, inputs: str) -> Symptom:
    """Return why there is no comparison; `inputs` is what the file ran with, if it was the file that ran."""
    how = ended.reason if ended.crashed else ended.last_line or ended.reason
    if ended.status is None:
        how = Message("no end in {seconds:g} s", seconds=seconds)
    if inputs and (ended.crashed or ended.status is None):
        what = Message(
            "With inputs of {inputs} PyTorch runs, and the file does not: {how}.", inputs=inputs, how=how
        )
        why = "A program that opens the file waits as long, or ends without an exception to catch."
        then = "Look for a Loop that does not end or a division by zero, or give more time with --seconds."
        return Symptom("wrong", what, why, then, "foreign" if ended.crashed else "loop")
    what = Message("The comparison with PyTorch was not finished: {how}.", how=how)
    why = "The factory or the module ended it or took too long: whether the file is right is not known."
    then = "Run them in a program of your own; give a smaller example, or more time with --seconds."
    return Symptom("risk", what, why, then, "right sizes")
