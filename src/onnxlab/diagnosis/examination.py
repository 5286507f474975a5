"""The examination of a model file: every symptom, the worst first."""

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from onnxlab.diagnosis.behaviour import DOES_NOT_LOAD, ENDED_BEFORE, try_out
from onnxlab.diagnosis.model_file import ModelFile, read_model_file
from onnxlab.diagnosis.structure import STRUCTURE
from onnxlab.diagnosis.symptom import SEVERITIES, Symptom
from onnxlab.errors import OnnxLabError
from onnxlab.exporters.silence import silenced
from onnxlab.message import Message
from onnxlab.model.load import ModelLike, load, path_of
from onnxlab.plain_text import plain, pluralise

_LONGEST = 86_400  # seconds: a day

NOT_COMPARED = "Not compared with PyTorch."


class WrongLimit(OnnxLabError):
    """A time limit is none."""


@dataclass(frozen=True)
class Examination:
    """What was found in a model file.

    Attributes:
        name: The file's name.
        nodes: How many nodes its graphs have.
        size: Its bytes, without external data.
        symptoms: What was found, the worst first.
        not_tried: What was left out, a sentence each.
    """

    name: str
    nodes: int
    size: int
    symptoms: tuple[Symptom, ...]
    not_tried: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether nothing was found that is wrong or a risk."""
        return all(symptom.severity == "note" for symptom in self.symptoms)

    def verdict(self, option: str) -> str:
        """Return what was found and what was not tried, in a line.

        Args:
            option: What asks for the comparison with PyTorch, where it was not asked for.
        """
        count = Counter(symptom.severity for symptom in self.symptoms)
        risks, notes = pluralise(count["risk"], "risk"), pluralise(count["note"], "note")
        left_out = [
            Message("Not compared with PyTorch: {option}", option=option) if line == NOT_COMPARED else line
            for line in self.not_tried
        ]
        return Message.compose(
            " ",
            [
                Message("{count} wrong, {risks}, {notes}.", count=count["wrong"], risks=risks, notes=notes),
                *left_out,
            ],
        )

    def as_json(self) -> dict[str, Any]:
        """Return the examination as plain data."""
        symptoms = [symptom.as_json() for symptom in self.symptoms]
        return {
            "name": self.name,
            "nodes": self.nodes,
            "size": self.size,
            "symptoms": symptoms,
            "not_tried": list(self.not_tried),
        }


def examine(
    model: ModelLike,
    *,
    reference: str = "",
    seconds: float = 60.0,
    progress: Callable[[str], None] = lambda _: None,
) -> Examination:
    """Look for what is wrong or risky in a model.

    The file is read as data. It is loaded and run in a process of its own, which ends after some time.

    Args:
        model: A path, bytes, a `ModelProto`, or an export.
        reference: "package.module:factory" or "net.py:factory", which returns the PyTorch module and its
            inputs; the file is compared with it. That code runs in this process.
        seconds: How long loading and running may take.
        progress: Called with what begins.

    Raises:
        ModelNotReadable: If it is not an ONNX model.
        NoReference: If there is no such factory.
        WrongLimit: If `seconds` is no time limit.
    """
    if not 0 < seconds <= _LONGEST:  # false for NaN
        why, then = (
            "Loading and running need some time.",
            Message("Give more than 0, and at most {longest:,}.", longest=_LONGEST),
        )
        raise WrongLimit("{seconds:g} seconds are no time limit.", why, then, seconds=seconds)
    if isinstance(model, str | PathLike):
        path = path_of(model)
        progress("reads the file")
        return _examination(read_model_file(path), reference, seconds, progress)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(load(model).SerializeToString())
        return _examination(read_model_file(path), reference, seconds, progress)


def _examination(
    file: ModelFile, reference: str, seconds: float, progress: Callable[[str], None]
) -> Examination:
    symptoms: list[Symptom] = []
    for find in STRUCTURE:
        symptoms += find(file)
    behaviour, not_run = try_out(file, seconds, progress)
    symptoms += behaviour
    not_tried = [not_run] if not_run else []
    comparable = not_run not in (DOES_NOT_LOAD, ENDED_BEFORE)
    if reference and comparable:
        from onnxlab.diagnosis.reference import against  # loads torch

        progress("compares it with PyTorch")
        with silenced():  # PyTorch says much while it captures a module
            symptoms += against(file.path, reference)
    elif comparable:
        not_tried.append(NOT_COMPARED)
    nodes = sum(len(graph.node) for graph in file.graphs())
    worst_first = sorted(symptoms, key=lambda symptom: SEVERITIES.index(symptom.severity))
    return Examination(plain(file.path.name, 200), nodes, file.size, tuple(worst_first), tuple(not_tried))
