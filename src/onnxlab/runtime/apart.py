"""Runs of a model file in a process of its own, with a time limit: a file can end its process, or hang."""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.plain_text import plain


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
    """Run a module of this package in a process of its own, which starts in a folder without Python files.

    Args:
        module: The module; it reports with `say`.
        arguments: What it gets.
        folder: Where it starts; `-P` keeps even that off the path.
        seconds: How long it may take.

    Returns:
        Its reports, and how it ended.
    """
    command = [sys.executable, "-P", "-m", module, *arguments]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
        )
        try:
            status: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            process.kill()
            process.wait()
        output.seek(0)
        reports = [json.loads(line) for line in output if line.startswith('{"step"') and line.endswith("\n")]
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - 4096))
        lines = [line for line in errors.read().decode(errors="replace").splitlines() if line.strip()]
    return reports, Ended(status, plain(lines[-1].strip(), 200) if lines else "")


def say(step: str, **facts: object) -> None:
    """Report a step to the process that called `run_apart`."""
    print(json.dumps({"step": step, **facts}), flush=True)


@dataclass(frozen=True)
class Run:
    """One run of a model file.

    Attributes:
        error: Why it did not run; empty if it did.
        outputs: What came out, by name: an array, a list, or a dict.
    """

    error: str
    outputs: Mapping[str, Any] = field(default_factory=dict)


def run_file(
    path: Path,
    batches: Iterable[Mapping[str, Array]],
    *,
    seconds: float = 60.0,
    optimize: bool = True,
    provider: str = "CPUExecutionProvider",
    enough: int = 0,
) -> tuple[str, list[Run]]:
    """Run a model file with batches of values, in a process of its own.

    The file is opened by its path: weights in files beside it are no matter, nor are more than 2 GiB.

    Args:
        path: The file.
        batches: The values of each run, by the input's name.
        seconds: How long loading and all runs may take together.
        optimize: Whether the runtime may rewrite the graph.
        provider: The execution provider.
        enough: After so many successful runs the rest is left out; 0 for all.

    Returns:
        Why the file does not load, an empty string if it does; and a run for each batch that was begun. One
        that did not end, for want of time or because it ended the process, has that as its error.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        count = 0
        for count, batch in enumerate(batches, 1):
            np.savez(folder / f"{count - 1}.npz", **_stored(dict(enumerate(batch.values()))))
            (folder / f"{count - 1}.json").write_text(json.dumps([*batch]))
        arguments = [str(path.absolute()), str(folder), str(count), str(int(optimize)), provider, str(enough)]
        reports, ended = run_apart("onnxlab.runtime.apart", arguments, folder, seconds)
        loaded = next((report for report in reports if report["step"] == "load"), None)
        why = ended.last_line if ended.status == 1 else ended.reason
        if loaded is None:
            return Message("loading it did not end: {why}", why=why), []
        runs = []
        for report in (report for report in reports if report["step"] == "run"):
            outputs = {}
            if not report["error"]:
                with np.load(folder / f"out{report['number']}.npz", allow_pickle=False) as held:
                    outputs = {key: _restored(tree, held) for key, tree in report["outputs"].items()}
            runs.append(Run(report["error"], outputs))
    begun = sum(report["step"] == "begin" for report in reports)
    if begun > len(runs):
        runs.append(Run(Message("it did not end: {why}", why=why)))
    return loaded["error"], runs


def open_by_path(path: Path, *, optimize: bool = True, provider: str = "CPUExecutionProvider") -> Any:  # noqa: ANN401 - the runtime ships no types
    """Return a session for a file, opened by its path."""
    import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types; only the inner process needs it

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(str(path), options, providers=[provider])


def run_once(session: Any, batch: Mapping[str, Array], names: Sequence[str] | None = None) -> list[Any]:  # noqa: ANN401 - as above
    """Run a session; values of a type that NumPy does not have itself, such as bfloat16, are of ml_dtypes."""
    import onnx
    import onnxruntime as ort

    outputs = [value for value in session.get_outputs() if names is None or value.name in names]
    odd = [value for value in (*session.get_inputs(), *outputs) if _is_odd(value.type)]
    if not odd:
        return list(session.run(names, dict(batch)))
    given = {
        name: ort.OrtValue.ortvalue_from_numpy_with_onnx_type(
            np.ascontiguousarray(array), onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        )
        for name, array in batch.items()
    }
    return [_array(value) for value in session.run_with_ort_values(names or [v.name for v in outputs], given)]


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


# Arrays go from process to process in .npz files, which hold no objects: neither process trusts the other.


def _stored(values: Mapping[Any, Array]) -> dict[str, Array]:
    stored = {}
    for name, array in values.items():
        plain_kind = array.astype(str) if array.dtype.kind == "O" else array
        stored[f"{name}"] = plain_kind
        if array.dtype.kind == "V":  # bfloat16 and its like
            stored[f"{name}"] = array.view(f"u{array.dtype.itemsize}")
            stored[f"{name} type"] = np.array(array.dtype.name)
    return stored


def _loaded(held: Any, key: str) -> Array:  # noqa: ANN401 - an open .npz file
    array: Array = held[key]
    if f"{key} type" in held:
        import ml_dtypes

        return array.view(np.dtype(getattr(ml_dtypes, str(held[f"{key} type"]))))
    return array.astype(object) if array.dtype.kind == "U" else array


def _taken_apart(value: Any, arrays: dict[str, Array]) -> Any:  # noqa: ANN401 - what JSON can hold
    """Return an output as JSON, with its arrays put aside."""
    if isinstance(value, list):
        return {"list": [_taken_apart(inner, arrays) for inner in value]}
    if isinstance(value, Mapping):
        return {"map": [[_taken_apart(k, arrays), _taken_apart(v, arrays)] for k, v in value.items()]}
    if isinstance(value, np.ndarray):
        arrays[key := str(len(arrays))] = value
        return {"array": key}
    return {"value": value.item() if isinstance(value, np.generic) else value}


def _restored(tree: Any, held: Any) -> Any:  # noqa: ANN401 - as above
    [(kind, inner)] = tree.items()
    if kind == "list":
        return [_restored(value, held) for value in inner]
    if kind == "map":
        return {_restored(key, held): _restored(value, held) for key, value in inner}
    return _loaded(held, inner) if kind == "array" else inner


def attempt(action: Callable[[], object]) -> str:
    """Return the reason why an action fails, or an empty string."""
    from onnxlab.runtime.refusals import short_reason

    try:
        action()
    except Exception as error:  # ONNX and its runtime raise many kinds
        return short_reason(error)
    return ""


def main(path: Path, folder: Path, count: int, optimize: bool, provider: str, enough: int) -> None:
    """Load a file, and run it with each batch that lies in a folder."""
    session: Any = None

    def load() -> None:
        nonlocal session
        session = open_by_path(path, optimize=optimize, provider=provider)

    say("load", error=attempt(load))
    if session is None:
        return
    names = [value.name for value in session.get_outputs()]
    right = 0
    for number in range(count):
        say("begin")
        with np.load(folder / f"{number}.npz", allow_pickle=False) as held:
            keys = json.loads((folder / f"{number}.json").read_text())
            batch = {key: _loaded(held, str(place)) for place, key in enumerate(keys)}
        results: list[Any] = []
        error = attempt(lambda batch=batch, results=results: results.extend(run_once(session, batch)))
        arrays: dict[str, Array] = {}
        outputs = (
            {} if error else {name: _taken_apart(v, arrays) for name, v in zip(names, results, strict=True)}
        )
        np.savez(folder / f"out{number}.npz", **_stored(arrays))
        say("run", number=number, error=error, outputs=outputs)
        right += not error
        if right == enough:
            return


if __name__ == "__main__":
    _path, _folder, _count, _optimize, _provider, _enough = sys.argv[1:]
    main(Path(_path), Path(_folder), int(_count), _optimize == "1", _provider, int(_enough))
