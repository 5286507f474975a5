"""The folder between a learner's code and its judges: ONNX files, JSON and arrays, nothing else.

What is read from it is not trusted: files are limited in size, no link is followed, nothing is unpickled, and
a model cannot point to a file outside itself.
"""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnxlab.errors import OnnxLabError
from onnxlab.files import FileTooLarge, NotRegularFile, read_untrusted
from onnxlab.labs.kit.outcome import RETURN, Wrong
from onnxlab.model.distance import Array
from onnxlab.model.load import ModelLike, load, strip_origins

__all__ = ["LARGEST", "Work"]

LARGEST = 16 * 2**20
"""The most bytes that one file may have."""


class Work:
    """The folder with the files that a learner's code wrote.

    Args:
        folder: Where the files are.
        questions: The seed from which the questions to the learner's code were drawn.
    """

    def __init__(self, folder: Path, questions: object = 0) -> None:
        self.folder = folder
        self._questions = questions

    def questions(self) -> np.random.Generator:
        """Return the generator of the questions: it draws those that the learner's code got."""
        return np.random.default_rng(self._questions)  # type: ignore[arg-type]  # a list of integers

    def write_model(self, name: str, model: ModelLike) -> None:
        """Write a model as one file, without the paths of the source files it came from."""
        proto = load(model)
        strip_origins(proto)
        self._write(name, "onnx", proto.SerializeToString())

    def write_file(self, name: str, data: bytes) -> None:
        """Write an ONNX file as it is, with its metadata."""
        self._write(name, "onnx", data)

    def write_json(self, name: str, value: object) -> None:
        """Write plain values: numbers, strings, lists and dicts of them.

        Raises:
            Wrong: If the value cannot be written as JSON.
        """
        try:
            text = json.dumps(value)
        except (TypeError, ValueError, RecursionError) as error:
            msg = f"The result holds something other than plain Python values: {error}."
            raise Wrong(msg, "Return plain ints, floats, strings, lists, sets or dicts.") from None
        self._write(name, "json", text.encode())

    def write_array(self, name: str, value: object) -> None:
        """Write an array; a tensor is converted.

        Raises:
            Wrong: If it is not an array of numbers.
        """
        detached = value.detach().cpu().numpy() if hasattr(value, "detach") else value
        array = np.asarray(detached)
        if array.dtype.kind not in "biufc":
            if value is None:
                msg = "None was returned; a tensor was expected."
                raise Wrong(msg, RETURN)
            msg = f"A {type(value).__name__} was returned; a tensor was expected."
            raise Wrong(msg, "Return a tensor.")
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        self._write(name, "npy", buffer.getvalue())

    def has(self, name: str, kind: str = "onnx") -> bool:
        """Whether a file was written."""
        return (self.folder / f"{name}.{kind}").is_file()

    def model(self, name: str) -> onnx.ModelProto:
        """Read a model.

        Raises:
            Wrong: If it is missing or cannot be read.
        """
        data = self._read(name, "onnx")
        try:
            return load(data)  # refuses weights that lie in another file
        except OnnxLabError as error:
            msg = f"The model {name}.onnx cannot be read: {' '.join(str(error).split())[:200]}"
            raise Wrong(msg) from None

    def json(self, name: str) -> Any:  # noqa: ANN401 - JSON can be anything
        """Read plain values.

        Raises:
            Wrong: If they are missing or cannot be read.
        """
        try:
            return json.loads(self._read(name, "json"))
        except (ValueError, RecursionError):
            msg = f"The file {name}.json cannot be read."
            raise Wrong(msg) from None

    def array(self, name: str) -> Array:
        """Read an array.

        Raises:
            Wrong: If it is missing or cannot be read.
        """
        try:
            array: Array = np.load(io.BytesIO(self._read(name, "npy")), allow_pickle=False)
        except (ValueError, OSError, EOFError):
            msg = f"The file {name}.npy cannot be read."
            raise Wrong(msg) from None
        return array

    def _write(self, name: str, kind: str, data: bytes) -> None:
        if len(data) > LARGEST:
            msg = f"{name}.{kind} would have {len(data):,} bytes; {LARGEST:,} are the most."
            raise Wrong(msg, "Are large constants in the model?")
        (self.folder / f"{name}.{kind}").write_bytes(data)

    def _read(self, name: str, kind: str) -> bytes:
        try:
            return read_untrusted(self.folder / f"{name}.{kind}", LARGEST)
        except (NotRegularFile, FileTooLarge):
            msg = f"{name}.{kind} is not a file of at most {LARGEST:,} bytes."
            raise Wrong(msg) from None
        except OSError:
            msg = f"Nothing was made for this: {name}.{kind} is missing."
            raise Wrong(msg) from None
