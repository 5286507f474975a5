"""The folder between a learner's code and its judges: ONNX files, JSON and arrays, nothing else.

What is read from it is not trusted: files are limited in size, no link is followed, nothing is unpickled, and
a model cannot point to a file outside itself.
"""

import io
import json
import math
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
import onnx

from onnxlab.errors import OnnxLabError
from onnxlab.files import FileTooLarge, NotRegularFile, read_untrusted
from onnxlab.kit.outcome import RETURN, Wrong
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.model.load import ModelLike, load, strip_origins
from onnxlab.typed_json import UnexpectedType, decode

LARGEST = 16 * 2**20
"""The most bytes that one file may have."""
T = TypeVar("T")
_LARGEST_VERSION = 2**31
_NUMBERS = "biufc"  # NumPy's letters for booleans, integers, floating-point and complex numbers


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
            msg = Message("The result holds something other than plain Python values: {error}.", error=error)
            raise Wrong(msg, "Return plain ints, floats, strings, lists, sets or dicts.") from None
        self._write(name, "json", text.encode())

    def write_array(self, name: str, value: object) -> None:
        """Write an array; a tensor is converted.

        Raises:
            Wrong: If it is not an array of numbers.
        """
        detached = value.detach().cpu().numpy() if hasattr(value, "detach") else value
        array = np.asarray(detached)
        if array.dtype.kind not in _NUMBERS:
            if value is None:
                raise Wrong("None was returned; a tensor was expected.", RETURN)
            raise Wrong(
                "A {name} was returned; a tensor was expected.", "Return a tensor.", name=type(value).__name__
            )
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
            model = load(data)  # refuses weights that lie in another file
        except OnnxLabError as error:
            msg = Message(
                "The model {name}.onnx cannot be read: {error}",
                name=name,
                error=Message.compose(" ", filter(None, (error.what, error.why, error.then)))[:200],
            )
            raise Wrong(msg) from None
        for what, version in (("IR version", model.ir_version), *_opsets(model)):
            if not 0 < version < _LARGEST_VERSION:  # onnx's own functions accept no larger integer
                msg = Message(
                    "The model {name}.onnx says {subject} {version}, which does not exist.",
                    name=name,
                    subject=what,
                    version=version,
                )
                raise Wrong(msg, "Look at `ir_version` and `opset_import` of the model.")
        return model

    @overload
    def json(self, name: str) -> Any: ...  # noqa: ANN401 - JSON can be anything

    @overload
    def json(self, name: str, kind: type[T]) -> T: ...

    def json(self, name: str, kind: Any = Any) -> Any:
        """Read plain values.

        Args:
            name: The file without its ending.
            kind: The type they must have, as for `onnxlab.typed_json.typed`, such as `list[str]`.

        Raises:
            Wrong: If they are missing, cannot be read, or are of another type.
        """
        try:
            return decode(self._read(name, "json"), kind)
        except UnexpectedType as error:
            raise Wrong("The file {name}.json cannot be read: {error}.", name=name, error=error) from None

    def answers(self, name: str, count: int) -> list[Any]:
        """Read a list with one answer for each of so many questions.

        Raises:
            Wrong: If it is missing, cannot be read, or has another length.
        """
        answers = self.json(name)
        if not isinstance(answers, list) or len(answers) != count:
            raise Wrong("{name}.json does not hold {count} answers.", name=name, count=count)
        return answers

    def array(self, name: str) -> Array:
        """Read an array of numbers.

        Raises:
            Wrong: If it is missing or cannot be read.
        """
        data = self._read(name, "npy")
        try:
            array = _parse_array(data)
        except Exception as error:  # NumPy's reader of headers raises many kinds
            reason = " ".join(str(error).split())[:200]
            raise Wrong(
                "The file {name}.npy cannot be read: {why}.", name=name, why=reason or type(error).__name__
            ) from None
        return array

    def _write(self, name: str, kind: str, data: bytes) -> None:
        if len(data) > LARGEST:
            msg = Message(
                "{name}.{kind} would have {count:,} bytes; {largest:,} are the most.",
                name=name,
                kind=kind,
                count=len(data),
                largest=LARGEST,
            )
            raise Wrong(msg, "Are large constants in the model?")
        (self.folder / f"{name}.{kind}").write_bytes(data)

    def _read(self, name: str, kind: str) -> bytes:
        try:
            return read_untrusted(self.folder / f"{name}.{kind}", LARGEST)
        except (NotRegularFile, FileTooLarge):
            raise Wrong(
                "{name}.{kind} is not a file of at most {most:,} bytes.", name=name, kind=kind, most=LARGEST
            ) from None
        except OSError:
            raise Wrong(
                "Nothing was made for this: {name}.{kind} is missing.", name=name, kind=kind
            ) from None


def _parse_array(data: bytes) -> Array:
    """Return the array in an NPY file; only what is in the file is allocated, whatever its header says."""
    file = io.BytesIO(data)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(file)
    if version not in readers:
        raise ValueError(f"version {version} of the format is not used for numbers")
    shape, columns_first, dtype = readers[version](file)
    if dtype.kind not in _NUMBERS:
        raise ValueError(f"{dtype} is not a type of numbers")
    rest = data[file.tell() :]
    expected = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or expected != len(rest):
        msg = Message(
            "its header says {dtype} of shape {shape}, which is {expected:,} bytes; it has {count:,}",
            dtype=dtype,
            shape=shape,
            expected=expected,
            count=len(rest),
        )
        raise ValueError(msg)
    array = np.frombuffer(rest, dtype).reshape(shape, order="F" if columns_first else "C")
    return array.astype(
        dtype.newbyteorder("=")
    )  # a file may hold any byte order; torch takes the machine's own


def _opsets(model: onnx.ModelProto) -> list[tuple[str, int]]:
    entries = [*model.opset_import, *(entry for part in model.functions for entry in part.opset_import)]
    return [(f"opset {entry.domain[:40]}".strip(), entry.version) for entry in entries]
