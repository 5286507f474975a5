"""The files of the ordinary models: each is exported once per run and exporter, whoever asks for it."""

import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from onnxlab.exporters.silence import silenced
from onnxlab.runtime.export_check import feed
from tests.ordinary import control_flow, language, signatures, storage, vision  # noqa: F401  they register
from tests.ordinary.bench import EXPORTERS, MODELS, Ordinary

_FOLDER = tempfile.TemporaryDirectory(prefix="ordinary-")


@dataclass(frozen=True)
class Exported:
    """An ordinary model and its file.

    Attributes:
        name: The model's name.
        exporter: The name of the exporter.
        ordinary: A fresh module with its arguments.
        path: The file to be judged.
        original: The file as it was exported; `path` may have been made wrong.
        folder: An empty folder, for what is made of the file.
    """

    name: str
    exporter: str
    ordinary: Ordinary
    path: Path
    original: Path
    folder: Path

    def feeds(self) -> list[dict[str, Any]]:
        """Return the example and the other inputs as a caller of the file has them: arrays by input name."""
        session = ort.InferenceSession(self.original, providers=["CPUExecutionProvider"])
        ordinary = self.ordinary
        calls = [(ordinary.args, ordinary.kwargs or {})]
        calls += [other if ordinary.kwargs is not None else (other, {}) for other in ordinary.others]
        given = [feed(session, ordinary.module, *call) for call in calls]
        return [{name: np.array(value) for name, value in one.items()} for one in given]


class NotExported(Exception):
    """The exporter refuses the model; the text is its reason."""


def exported(name: str, exporter: str) -> Exported:
    """Return a model with its file.

    Raises:
        NotExported: There is no file.
    """
    result = _export(name, exporter)
    if isinstance(result, str):
        raise NotExported(result)
    return Exported(name, exporter, MODELS[name](), result, result, Path(tempfile.mkdtemp(dir=_FOLDER.name)))


@functools.cache
def _export(name: str, exporter: str) -> Path | str:
    folder = Path(_FOLDER.name, exporter, name)
    folder.mkdir(parents=True, exist_ok=True)  # a test that was stopped may have made it
    try:
        with silenced():
            return MODELS[name]().export(folder / "model.onnx", dynamo=EXPORTERS[exporter])
    except Exception as error:  # the exporters raise many classes
        while error.__cause__ is not None:
            error = error.__cause__
        return f"{type(error).__name__}: {error}"
