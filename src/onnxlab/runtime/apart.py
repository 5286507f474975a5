"""A process of its own for what runs a model file, with a time limit: a file can end its process, or hang."""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnxlab.errors import OnnxLabError
from onnxlab.message import Message, from_json, with_templates
from onnxlab.model.distance import Array
from onnxlab.plain_text import plain

_LONGEST_START = 300  # seconds


class NoProvider(OnnxLabError):
    """An execution provider is not here, or does not start."""


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        status: Its exit status; negative for a signal, None if the time was up.
        last_line: What it wrote last to stderr.
    """

    status: int | None
    last_line: str = ""

    @property
    def crashed(self) -> bool:
        """Whether something ended it that no Python code can catch; on Windows, a large status."""
        return self.status is not None and not 0 <= self.status < 256

    @property
    def reason(self) -> str:
        """What ended it."""
        if self.status is None:
            return Message("the time was up")
        return f"signal {-self.status}" if self.status < 0 else f"status {self.status:#x}"


def run_apart(
    module: str, arguments: Sequence[str], folder: Path, seconds: float
) -> tuple[list[dict[str, Any]], Ended]:
    """Run a module of this package in a process of its own; return its reports, and how it ended.

    Args:
        module: The module; it reports with `say`, first of all that it has started.
        arguments: What it gets.
        folder: Where it starts; `-P` keeps even that off the path.
        seconds: How long it may take; its start, slow on a busy machine, is not counted.
    """
    command = [sys.executable, "-P", "-m", module, *arguments]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
        )
        try:
            latest = time.monotonic() + _LONGEST_START
            while (
                process.poll() is None and not os.fstat(output.fileno()).st_size and time.monotonic() < latest
            ):
                time.sleep(0.02)
            status: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            process.kill()
            process.wait()
        output.seek(0)
        lines = [line for line in output if line.startswith('{"step"') and line.endswith("\n")]
        reports = [json.loads(line, object_hook=from_json) for line in lines]
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - 4096))
        lines = [line for line in errors.read().decode(errors="replace").splitlines() if line.strip()]
    return reports, Ended(status, plain(lines[-1].strip(), 200) if lines else "")


def say(step: str, **facts: object) -> None:
    """Report a step to the process that called `run_apart`."""
    # After a line of its own: what else the process prints may not end with one.
    print("\n" + json.dumps(with_templates({"step": step, **facts})), flush=True)


def open_by_path(
    path: Path, *, level: str = "ENABLE_ALL", provider: str = "CPUExecutionProvider", rewritten: str = ""
) -> Any:  # noqa: ANN401 - the runtime ships no types
    """Return a session for a file, opened by its path.

    Args:
        path: The file.
        level: How much the runtime's optimiser does.
        provider: What runs the file.
        rewritten: Where to write the model as the optimiser rewrites it; empty to leave that out.

    Raises:
        NoProvider: The provider is not here, or does not start.
    """
    import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types; only the inner process needs it

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{level}")
    options.optimized_model_filepath = rewritten
    session = ort.InferenceSession(str(path), options, providers=[provider])
    if provider not in session.get_providers():  # the runtime takes another one, with a warning
        raise NoProvider(
            "{provider} does not run here.",
            "ONNX Runtime would take {others} in its place.",
            "Give one of these: {available}; of another one, install the package and its libraries.",
            provider=plain(provider, 80),
            others=", ".join(session.get_providers()),
            available=", ".join(ort.get_available_providers()),
        )
    return session


def run_once(session: Any, batch: Mapping[str, Array]) -> list[Any]:  # noqa: ANN401 - as above
    """Run a session; values of a type that NumPy does not have itself, such as bfloat16, are of ml_dtypes."""
    import onnx
    import onnxruntime as ort

    outputs = session.get_outputs()
    if not any(_is_odd(value.type) for value in (*session.get_inputs(), *outputs)):
        return list(session.run(None, dict(batch)))
    given = {
        name: ort.OrtValue.ortvalue_from_numpy_with_onnx_type(
            np.ascontiguousarray(array), onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        )
        for name, array in batch.items()
    }
    return [_array(value) for value in session.run_with_ort_values([v.name for v in outputs], given)]


def _is_odd(kind: str) -> bool:
    """Whether the runtime's name of a type is one that NumPy does not have itself."""
    return "bfloat16" in kind or "float8" in kind


def _array(value: Any) -> Array:  # noqa: ANN401 - as above
    import onnx

    if not _is_odd(value.data_type()):
        return np.asarray(value.numpy())
    kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value.element_type()))
    size = int(np.prod(value.shape(), dtype=np.int64)) * kind.itemsize
    return np.frombuffer(ctypes.string_at(value.data_ptr(), size), kind).reshape(value.shape())


def attempt(action: Callable[[], object]) -> str:
    """Return the reason why an action fails, or an empty string."""
    from onnxlab.runtime.refusals import short_reason

    try:
        action()
    except Exception as error:  # ONNX and its runtime raise many kinds
        return short_reason(error)
    return ""
