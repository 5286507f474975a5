"""The examination of a model file: every symptom, the worst first."""

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from onnxlab.diagnosis.against import against
from onnxlab.diagnosis.behaviour import DOES_NOT_LOAD, ENDED_BEFORE, try_out
from onnxlab.diagnosis.model_file import ModelFile, read_model_file
from onnxlab.diagnosis.structure import STRUCTURE
from onnxlab.diagnosis.symptom import SEVERITIES, Severity, Symptom, listing
from onnxlab.errors import OnnxLabError
from onnxlab.message import Message
from onnxlab.model.graph import Dims, graphs
from onnxlab.model.load import ModelLike, load, path_of
from onnxlab.plain_text import plain, pluralise
from onnxlab.runtime.values import ModelInputs, NoValues, read_values

_LONGEST = 86_400  # seconds: a day

_NUMBERS = {np.dtype(code).name for code in np.typecodes["AllInteger"] + "efd?"}

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
        tried: What it was run with and compared with, a sentence each.
        not_tried: What was left out, a sentence each.
    """

    name: str
    nodes: int
    size: int
    symptoms: tuple[Symptom, ...]
    tried: tuple[str, ...] = ()
    not_tried: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether nothing was found that is wrong or a risk."""
        return self.better_than("risk")

    def better_than(self, severity: Severity) -> bool:
        """Whether nothing was found that is as bad."""
        bad = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return all(symptom.severity not in bad for symptom in self.symptoms)

    @property
    def subject(self) -> str:
        """The file and its size, in a line."""
        nodes, size = pluralise(self.nodes, "node"), pluralise(self.size, "byte")
        return Message("{name}: {nodes}, {size}", name=self.name, nodes=nodes, size=size)

    def verdict(self, option: str) -> str:
        """Return what was found, what was run at which sizes, and what was not tried, in a line."""
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
                *self.tried,
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
            "healthy": self.healthy,
            "symptoms": symptoms,
            "tried": list(self.tried),
            "not_tried": list(self.not_tried),
        }


def examine(
    model: ModelLike,
    *,
    reference: str = "",
    inputs: Path | None = None,
    seconds: float = 60.0,
    progress: Callable[[str], None] = lambda _: None,
) -> Examination:
    """Look for what is wrong or risky in a model.

    The file is read as data. It is loaded, run and compared in processes of their own, which end after some
    time.

    Args:
        model: A path, bytes, a `ModelProto`, or an export.
        reference: "package.module:factory" or "net.py:factory", which returns the PyTorch module and its
            inputs; the file is compared with it.
        inputs: Values to run the file with: an .npz file, or a folder of .npy files; drawn if left out.
        seconds: How long loading and running may take.
        progress: Called with what begins.

    Raises:
        ModelNotReadable: If it is not an ONNX model.
        NoReference: If there is no such factory.
        NoValues: If `inputs` holds no values, or not those of the file's inputs.
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
        return _examination(read_model_file(path), reference, inputs, seconds, progress)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(load(model).SerializeToString())
        return _examination(read_model_file(path), reference, inputs, seconds, progress)


def _examination(
    file: ModelFile, reference: str, inputs: Path | None, seconds: float, progress: Callable[[str], None]
) -> Examination:
    if inputs is not None:
        _require_inputs(file, inputs)
    symptoms: list[Symptom] = []
    for find in STRUCTURE:
        symptoms += find(file)
    trial = try_out(file, seconds, progress, inputs)
    symptoms += trial.symptoms
    tried = [trial.ran] if trial.ran else []
    not_tried = [trial.not_run] if trial.not_run else []
    comparable = trial.not_run not in (DOES_NOT_LOAD, ENDED_BEFORE)
    if reference and comparable:
        progress("compares it with PyTorch")
        compared = against(file.path, reference, inputs, symptoms, seconds)
        symptoms += compared.symptoms
        tried += [compared.tried] if compared.tried else []
        not_tried += [compared.not_tried] if compared.not_tried else []
    elif comparable:
        not_tried.append(NOT_COMPARED)
    nodes = sum(len(graph.node) for graph in graphs(file.model.graph))
    worst_first = sorted(symptoms, key=lambda symptom: SEVERITIES.index(symptom.severity))
    name = plain(file.path.name, 200)
    return Examination(name, nodes, file.size, tuple(worst_first), tuple(tried), tuple(not_tried))


def _require_inputs(file: ModelFile, inputs: Path) -> None:
    """Refuse values that are not those of the file's inputs, or of another type or shape."""
    values = {value.name: value for value in ModelInputs(file.model).values}
    wanted = set(values)
    for batch in read_values(inputs):
        if set(batch) != wanted:
            raise NoValues(
                "{path} holds {held}; the model's inputs are {wanted}.",
                "",
                "Write one array for each of them: numpy.savez('inputs.npz', name=array, ...).",
                path=plain(inputs),
                held=listing(batch, 8) or "nothing",
                wanted=listing(sorted(wanted), 8) or "none",
            )
        for name, array in batch.items():
            kind, value = "string" if array.dtype.kind in "OS" else array.dtype.name, values[name]
            if (kind != value.dtype and value.dtype in _NUMBERS) or not _fits(array.shape, value.dims):
                raise NoValues(
                    "{path} holds {name} as {kind}; the model's input is {wanted}.",
                    "",
                    "Give an array of that type and shape; array.astype() changes the type.",
                    path=plain(inputs),
                    name=plain(name, 60),
                    kind=f"{kind}{list(array.shape)}",
                    wanted=plain(value.type, 120),
                )


def _fits(shape: tuple[int, ...], dims: Dims | None) -> bool:
    """Whether a shape is one of those that are declared."""
    return dims is None or (
        len(shape) == len(dims)
        and all(b == a or not isinstance(b, int) for a, b in zip(shape, dims, strict=True))
    )
