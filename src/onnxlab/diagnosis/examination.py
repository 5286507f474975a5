"""The examination of a model file: every symptom, the worst first."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from onnxlab.diagnosis.behaviour import DOES_NOT_LOAD, try_out
from onnxlab.diagnosis.model_file import ModelFile, read_model_file
from onnxlab.diagnosis.structure import STRUCTURE
from onnxlab.diagnosis.symptom import SEVERITIES, Symptom
from onnxlab.exporters.silence import silenced
from onnxlab.model.load import ModelLike, load, path_of


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

    def as_json(self) -> dict[str, Any]:
        """Return the examination as plain data."""
        symptoms = [symptom.as_json() for symptom in self.symptoms]
        return {"name": self.name, "nodes": self.nodes, "size": self.size, "symptoms": symptoms}


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
    """
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
    if reference and not_run == DOES_NOT_LOAD:
        not_tried.append("Not compared with PyTorch.")
    elif reference:
        from onnxlab.diagnosis.reference import against  # loads torch

        progress("compares it with PyTorch")
        with silenced():  # PyTorch says much while it captures a module
            symptoms += against(file.path, reference)
    else:
        not_tried.append("Not compared with PyTorch: --against net.py:factory")
    nodes = sum(len(graph.node) for graph in file.graphs())
    worst_first = sorted(symptoms, key=lambda symptom: SEVERITIES.index(symptom.severity))
    return Examination(file.path.name, nodes, file.size, tuple(worst_first), tuple(not_tried))
